package provider

import (
	"context"
	"regexp"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var (
	_ validator.String = endpointValidator{}
	_ validator.String = durationValidator{}
)

var vmSetPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func vmSetValidator() validator.String {
	return stringvalidator.RegexMatches(vmSetPattern, `must be letters, digits, ".", "_" or "-", such as "vms17-8"`)
}

// sideValidator accepts a ToR side.
func sideValidator() validator.String { return stringvalidator.OneOf(api.UpperToR, api.LowerToR) }

// anySideValidator accepts every side of a mux.
func anySideValidator() validator.String {
	return stringvalidator.OneOf(api.NIC, api.UpperToR, api.LowerToR)
}

// endpointValidator accepts what client.ParseEndpoint accepts.
type endpointValidator struct{}

func (endpointValidator) Description(context.Context) string {
	return `must be an agent's base URL, such as "http://10.0.0.64:8080"`
}

func (v endpointValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (endpointValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := client.ParseEndpoint(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Bad endpoint", sentence(err))
	}
}

// durationValidator accepts positive durations such as "10s".
type durationValidator struct{}

func (durationValidator) Description(context.Context) string {
	return `must be a positive duration, such as "500ms" or "10s"`
}

func (v durationValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (v durationValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if d, err := time.ParseDuration(req.ConfigValue.ValueString()); err != nil || d <= 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Bad duration",
			"The value "+v.Description(ctx)+". Got: "+req.ConfigValue.String()+".")
	}
}
