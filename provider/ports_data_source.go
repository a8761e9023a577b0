package provider

import (
	"context"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var _ datasource.DataSourceWithConfigure = (*portsDataSource)(nil)

// portsDataSource is data.mux_ports: the status of a testbed's ports, and the bridges that are not usable as a mux.
type portsDataSource struct{ configuredSource }

func newPortsDataSource() datasource.DataSource { return &portsDataSource{} }

type portsDataModel struct {
	Endpoint   types.String           `tfsdk:"endpoint"`
	VMSet      string                 `tfsdk:"vm_set"`
	ActiveSide types.String           `tfsdk:"active_side"`
	Healthy    types.Bool             `tfsdk:"healthy"`
	Ports      map[string]statusModel `tfsdk:"ports"`
	Rejected   []rejectedModel        `tfsdk:"rejected"`
}

type rejectedModel struct {
	Bridge    string `tfsdk:"bridge"`
	Code      string `tfsdk:"code"`
	PortIndex int    `tfsdk:"port_index"`
	Reason    string `tfsdk:"reason"`
}

func (d *portsDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ports"
}

func (d *portsDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	own := map[string]schema.Attribute{
		"active_side": schema.StringAttribute{
			MarkdownDescription: "Only ports whose active side this is: `upper_tor` or `lower_tor`.",
			Optional:            true,
			Validators:          []validator.String{sideValidator()},
		},
		"healthy": schema.BoolAttribute{
			MarkdownDescription: "Only ports that are healthy, or with `false` only those that are not.",
			Optional:            true,
		},
		"ports": schema.MapNestedAttribute{
			MarkdownDescription: "The ports by index, such as `\"0\"`.",
			Computed:            true,
			NestedObject:        schema.NestedAttributeObject{Attributes: statusAttributes()},
		},
		"rejected": schema.ListNestedAttribute{
			MarkdownDescription: "The bridges that are named like a port of the testbed and can't be served, with the reason. Filters don't apply. " +
				"Always empty where `mux_simulator.py` answers, which does not say.",
			Computed: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"bridge":     schema.StringAttribute{MarkdownDescription: "Name of the bridge.", Computed: true},
				"port_index": schema.Int64Attribute{MarkdownDescription: "The index that its name holds.", Computed: true},
				"code":       schema.StringAttribute{MarkdownDescription: "For decisions: `ports`, `sides`, `protocols`, `index_taken` or `refused`. Empty where an agent before 0.2.0 answers.", Computed: true},
				"reason":     schema.StringAttribute{MarkdownDescription: "Why it is not a usable mux.", Computed: true},
			}},
		},
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The status of all ports of a testbed as the switch has them now, and the bridges that the agent rejects.",
		Attributes:          attributesOf(targetAttributes(), own),
	}
}

func (d *portsDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	t, diags := d.meta.target(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	state := portsDataModel{Endpoint: t.endpoint, VMSet: t.vmSet, Ports: map[string]statusModel{}, Rejected: []rejectedModel{}}
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("active_side"), &state.ActiveSide)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("healthy"), &state.Healthy)...)
	if resp.Diagnostics.HasError() {
		return
	}
	all, err := t.agent.All(ctx, t.vmSet)
	if err != nil {
		addError(&resp.Diagnostics, t.cannotReach(ctx, nil, "reading", err))
		return
	}
	for _, s := range all {
		if (state.ActiveSide.IsNull() || state.ActiveSide.ValueString() == s.ActiveSide) &&
			(state.Healthy.IsNull() || state.Healthy.ValueBool() == s.Healthy) {
			state.Ports[strconv.Itoa(s.PortIndex)] = statusOf(s)
		}
	}
	overview, err := t.agent.Overview(ctx)
	if err != nil && client.Code(err) != api.CodeNotFound {
		addError(&resp.Diagnostics, t.cannotReach(ctx, nil, "reading", err))
		return
	}
	for _, r := range overview.VMSets[t.vmSet].Rejected {
		state.Rejected = append(state.Rejected, rejectedModel{Bridge: r.Bridge, Code: r.Code, PortIndex: r.PortIndex, Reason: r.Reason})
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}
