package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var _ datasource.DataSourceWithConfigure = (*flapCountersDataSource)(nil)

// flapCountersDataSource is data.mux_flap_counters.
type flapCountersDataSource struct{ configuredSource }

func newFlapCountersDataSource() datasource.DataSource { return &flapCountersDataSource{} }

type flapCountersModel struct {
	Endpoint types.String   `tfsdk:"endpoint"`
	VMSet    string         `tfsdk:"vm_set"`
	Counters map[string]int `tfsdk:"counters"`
}

func (d *flapCountersDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_flap_counters"
}

func (d *flapCountersDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	own := map[string]schema.Attribute{"counters": schema.MapAttribute{
		MarkdownDescription: "The counters by port index, such as `\"0\"`.",
		Computed:            true,
		ElementType:         types.Int64Type,
	}}
	resp.Schema = schema.Schema{
		MarkdownDescription: "How often each port of a testbed changed its side through the API since the agent started or the counter was cleared.",
		Attributes:          attributesOf(targetAttributes(), own),
	}
}

func (d *flapCountersDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	t, diags := d.meta.target(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	byBridge, err := t.agent.FlapCounters(ctx, t.vmSet)
	if err != nil {
		addError(&resp.Diagnostics, t.cannotReach(ctx, nil, "reading", err))
		return
	}
	state := flapCountersModel{t.endpoint, t.vmSet, map[string]int{}}
	for bridge, n := range byBridge {
		state.Counters[bridge[strings.LastIndex(bridge, "-")+1:]] = n // a bridge's name ends in its port's index
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}
