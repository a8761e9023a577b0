package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var (
	_ resource.Resource                = (*portResource)(nil)
	_ resource.ResourceWithConfigure   = (*portResource)(nil)
	_ resource.ResourceWithIdentity    = (*portResource)(nil)
	_ resource.ResourceWithImportState = (*portResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*portResource)(nil)
	_ shape                            = portShape{}
)

// portResource is mux_port.
type portResource struct{ keeper }

func newPort() resource.Resource { return &portResource{keeper{shape: portShape{}}} }

func (r *portResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_port"
	// An agent may move to another endpoint; the port stays the same.
	resp.ResourceBehavior = resource.ResourceBehavior{MutableIdentity: true}
}

// portModel is mux_port in configuration, plan and state.
type portModel struct {
	managed
	PortIndex types.Int64 `tfsdk:"port_index"`
	portSettings
	Original types.Object `tfsdk:"original"`
	Healthy  types.Bool   `tfsdk:"healthy"`
}

// portIdentity is what tells one mux_port from every other.
type portIdentity struct {
	Endpoint  types.String `tfsdk:"endpoint"`
	VMSet     types.String `tfsdk:"vm_set"`
	PortIndex types.Int64  `tfsdk:"port_index"`
}

// portShape is a holding of one port.
type portShape struct{}

// indexUnknown stands for a port whose index is not known yet.
const indexUnknown = -1

func (portShape) decode(ctx context.Context, from schemaData) (holding, diag.Diagnostics) {
	var m portModel
	diags := from.Get(ctx, &m)
	port := indexUnknown
	if !m.PortIndex.IsUnknown() {
		port = int(m.PortIndex.ValueInt64())
	}
	return holding{
		managed:  m.managed,
		ports:    map[int]portSettings{port: m.portSettings},
		original: map[int]types.Object{port: m.Original},
		healthy:  map[int]types.Bool{port: m.Healthy},
		imported: m.ActiveSide.IsNull(),
		open:     port == indexUnknown,
	}, diags
}

func (portShape) encode(ctx context.Context, to settable, h holding) diag.Diagnostics {
	m := portModel{managed: h.managed}
	for port, s := range h.ports {
		m.portSettings, m.PortIndex, m.Healthy = s, indexValue(port), h.healthy[port]
		if m.Original = h.original[port]; m.Original.IsNull() {
			m.Original = types.ObjectNull(settingsType.AttrTypes)
		}
		if m.Dropped.IsNull() {
			m.Dropped = types.SetNull(types.StringType)
		}
	}
	return to.Set(ctx, m)
}

func indexValue(port int) types.Int64 {
	if port == indexUnknown {
		return types.Int64Unknown()
	}
	return types.Int64Value(int64(port))
}

func (portShape) identify(ctx context.Context, to *tfsdk.ResourceIdentity, h holding) diag.Diagnostics {
	id := portIdentity{Endpoint: h.Endpoint, VMSet: h.VMSet}
	for port := range h.ports {
		id.PortIndex = indexValue(port)
	}
	return to.Set(ctx, id)
}

func (portShape) alone() bool { return true }
