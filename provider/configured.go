package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// configured is what a resource and a list have of the provider; configuredSource and configuredAction are the same for data
// sources and actions, whose requests are other types. meta is nil before Configure, as in validate.
type (
	configured       struct{ meta *meta }
	configuredSource struct{ meta *meta }
	configuredAction struct{ meta *meta }
)

func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	c.meta = metaOf(req.ProviderData, &resp.Diagnostics)
}

func (c *configuredSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	c.meta = metaOf(req.ProviderData, &resp.Diagnostics)
}

func (c *configuredAction) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	c.meta = metaOf(req.ProviderData, &resp.Diagnostics)
}

// metaOf returns what Configure of the provider made; nil before that, as in validate.
func metaOf(data any, diags *diag.Diagnostics) *meta {
	if data == nil {
		return nil
	}
	m, ok := data.(*meta)
	if !ok {
		diags.AddError("Bug in the provider", fmt.Sprintf("It got a %T as its own data.", data))
	}
	return m
}
