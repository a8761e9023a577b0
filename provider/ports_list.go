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

var _ list.ListResourceWithConfigure = (*portsList)(nil)

// portsList finds the testbeds of an agent for `terraform query`, to be imported as mux_ports.
type portsList struct{ configured }

func newPortsList() list.ListResource { return &portsList{} }

func (l *portsList) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ports"
}

func (l *portsList) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The testbeds that an agent serves, each with all of its ports.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				MarkdownDescription: endpointDescription, Optional: true,
				Validators: []validator.String{endpointValidator{}},
			},
			"vm_set": schema.StringAttribute{
				MarkdownDescription: "Only this testbed, such as `vms17-8`. Left out, all that the agent serves; `mux_simulator.py` does not tell which, so there the provider's.",
				Optional:            true,
				Validators:          []validator.String{vmSetValidator()},
			},
		},
	}
}

func (l *portsList) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var only types.String
	diags := req.Config.GetAttribute(ctx, path.Root("vm_set"), &only)
	t, targetDiags := l.meta.target(ctx, req.Config)
	agent := t.agent
	if agent == nil || !only.IsNull() { // else the provider may do without a vm_set
		diags.Append(targetDiags...)
	}
	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	vmSets := []string{t.vmSet}
	if only.IsNull() {
		overview, err := agent.Overview(ctx)
		switch code := client.Code(err); {
		case err == nil:
			vmSets = slices.Sorted(maps.Keys(overview.VMSets))
		case code == api.CodeNotFound && t.vmSet == "":
			stream.Results = list.ListResultsStreamDiagnostics(diag.Diagnostics{noVMSet()})
			return
		case code != api.CodeNotFound:
			stream.Results = listFailed(explain("asking the agent for its vm_sets", err))
			return
		}
	}
	stream.Results = limited(req, "vm_sets of "+agent.Endpoint(), vmSets, func(vmSet string) list.ListResult {
		one := t
		one.vmSet = vmSet
		return one.listed(ctx, req)
	})
}

// listed is one testbed, as an import makes it.
func (t target) listed(ctx context.Context, req list.ListRequest) list.ListResult {
	result := req.NewListResult(ctx)
	all, err := t.agent.All(ctx, t.vmSet)
	if err != nil {
		addError(&result.Diagnostics, t.cannotReach(ctx, nil, "reading", err))
		return result
	}
	ports := client.ByPort(all)
	result.DisplayName = api.Printable("Ports " + ranges(slices.Collect(maps.Keys(ports))) + " of " + t.vmSet)
	h := t.holding(ports)
	result.Diagnostics.Append(portsShape{}.identify(ctx, result.Identity, h)...)
	if req.IncludeResource {
		result.Diagnostics.Append(portsShape{}.encode(ctx, result.Resource, h)...)
	}
	return result
}
