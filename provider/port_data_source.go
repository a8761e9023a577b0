package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var _ datasource.DataSourceWithConfigure = (*portDataSource)(nil)

// portDataSource is data.mux_port: the status of one port.
type portDataSource struct{ configuredSource }

func newPortDataSource() datasource.DataSource { return &portDataSource{} }

type portDataModel struct {
	Endpoint types.String `tfsdk:"endpoint"`
	VMSet    string       `tfsdk:"vm_set"`
	statusModel
}

func (d *portDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_port"
}

func (d *portDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	index := map[string]schema.Attribute{"port_index": schema.Int64Attribute{
		MarkdownDescription: "The port's index in the testbed.",
		Required:            true,
		Validators:          []validator.Int64{int64validator.AtLeast(0)},
	}}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The status of one port as the switch has it now, counters and flows included.",
		Attributes:          attributesOf(targetAttributes(), statusAttributes(), index),
	}
}

func (d *portDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	t, diags := d.meta.target(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	var port int
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("port_index"), &port)...)
	if resp.Diagnostics.HasError() {
		return
	}
	now, err := t.agent.Status(ctx, t.vmSet, port)
	if err != nil {
		addError(&resp.Diagnostics, t.cannotReach(ctx, []int{port}, "reading", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, portDataModel{t.endpoint, t.vmSet, statusOf(now)})...)
}
