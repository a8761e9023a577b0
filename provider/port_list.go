package provider

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var _ list.ListResourceWithConfigure = (*portList)(nil)

// portList finds the ports of a testbed for `terraform query`, to be imported as mux_port.
type portList struct{ meta *meta }

func newPortList() list.ListResource { return &portList{} }

func (l *portList) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_port"
}

func (l *portList) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	l.meta = metaOf(req.ProviderData, &resp.Diagnostics)
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
		stream.Results = list.ListResultsStreamDiagnostics(diag.Diagnostics{cannotReach(ctx, t.agent, t.vmSet, nil, "reading", err)})
		return
	}
	ports := client.ByPort(all)
	indexes := slices.Sorted(maps.Keys(ports))
	if req.Limit > 0 {
		indexes = indexes[:min(int64(len(indexes)), req.Limit)]
	}
	stream.Results = func(push func(list.ListResult) bool) {
		for _, port := range indexes {
			if !push(listed(ctx, req, t, ports[port])) {
				return
			}
		}
	}
}

func listed(ctx context.Context, req list.ListRequest, t target, now api.Status) list.ListResult {
	result := req.NewListResult(ctx)
	ref := portRef{t.vmSet, now.PortIndex}
	result.DisplayName = upperFirst(ref.String()) + ", " + now.ActiveSide
	id := portIdentity{Endpoint: t.endpoint, VMSet: types.StringValue(ref.vmSet), PortIndex: types.Int64Value(int64(ref.port))}
	result.Diagnostics.Append(result.Identity.Set(ctx, id)...)
	if !req.IncludeResource {
		return result
	}
	is := found(now)
	for name, value := range map[string]any{
		"endpoint": id.Endpoint, "vm_set": id.VMSet, "port_index": id.PortIndex, "active_side": is.ActiveSide, "dropped": is.Dropped,
	} {
		result.Diagnostics.Append(result.Resource.SetAttribute(ctx, path.Root(name), value)...)
	}
	return result
}
