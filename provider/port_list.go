package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var _ list.ListResourceWithConfigure = (*portList)(nil)

// portList finds the ports of a testbed for `terraform query`, to be imported as mux_port.
type portList struct{ configured }

func newPortList() list.ListResource { return &portList{} }

func (l *portList) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_port"
}

func (l *portList) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The ports that an agent serves for a testbed.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				MarkdownDescription: endpointDescription, Optional: true,
				Validators: []validator.String{endpointValidator{}},
			},
			"vm_set": schema.StringAttribute{
				MarkdownDescription: vmSetDescription, Optional: true,
				Validators: []validator.String{vmSetValidator()},
			},
		},
	}
}

func (l *portList) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	t, diags := l.meta.target(ctx, req.Config)
	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	all, err := t.agent.All(ctx, t.vmSet)
	if err != nil {
		stream.Results = listFailed(t.cannotReach(ctx, nil, "reading", err))
		return
	}
	ports := client.ByPort(all)
	stream.Results = limited(req, "ports of "+t.vmSet, slices.Sorted(maps.Keys(ports)), func(port int) list.ListResult {
		return listed(ctx, req, t, ports[port])
	})
}

func listFailed(p problem) func(func(list.ListResult) bool) {
	return list.ListResultsStreamDiagnostics(diag.Diagnostics{diag.NewErrorDiagnostic(p.title, p.detail)})
}

// limited makes a result of each of all. Terraform stops to read at its limit, which is 100 unless the list block says
// otherwise; so a result that holds only the warning of that comes first.
func limited[T any](req list.ListRequest, what string, all []T, result func(T) list.ListResult) func(func(list.ListResult) bool) {
	return func(push func(list.ListResult) bool) {
		if total := int64(len(all)); req.Limit > 0 && total > req.Limit {
			var cut list.ListResult
			cut.Diagnostics.AddWarning("Not all "+what+" are listed", fmt.Sprintf(
				"There are %d, and the list block's limit is %d, as far as it sets one. Set limit = %d in it to have all of them.", total, req.Limit, total))
			if !push(cut) {
				return
			}
			all = all[:req.Limit]
		}
		for _, one := range all {
			if !push(result(one)) {
				return
			}
		}
	}
}

func listed(ctx context.Context, req list.ListRequest, t target, now api.Status) list.ListResult {
	result := req.NewListResult(ctx)
	result.DisplayName = upperFirst(portRef{t.vmSet, now.PortIndex}.String()) + ", " + now.ActiveSide
	h := t.holding(map[int]api.Status{now.PortIndex: now})
	result.Diagnostics.Append(portShape{}.identify(ctx, result.Identity, h)...)
	if req.IncludeResource {
		result.Diagnostics.Append(portShape{}.encode(ctx, result.Resource, h)...)
	}
	return result
}

// holding is what an import of the ports makes.
func (t target) holding(all map[int]api.Status) holding {
	h := holding{
		managed: managed{Endpoint: t.endpoint, VMSet: types.StringValue(t.vmSet), Timeouts: noTimeouts()},
		ports:   map[int]portSettings{}, original: map[int]types.Object{}, healthy: map[int]types.Bool{},
	}
	for port, now := range all {
		h.ports[port], h.healthy[port] = found(now), types.BoolValue(now.Healthy)
	}
	return h
}
