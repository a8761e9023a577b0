package provider

import (
	"context"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var (
	_ resource.Resource                = (*portsResource)(nil)
	_ resource.ResourceWithConfigure   = (*portsResource)(nil)
	_ resource.ResourceWithIdentity    = (*portsResource)(nil)
	_ resource.ResourceWithImportState = (*portsResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*portsResource)(nil)
	_ shape                            = portsShape{}
)

// portsResource is mux_ports: many ports of a testbed, set by one request.
type portsResource struct{ keeper }

func newPorts() resource.Resource { return &portsResource{keeper{shape: portsShape{}}} }

func (r *portsResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ports"
	resp.ResourceBehavior = resource.ResourceBehavior{MutableIdentity: true} // as mux_port
}

// ImportState names the vm_set; the read that follows takes in its ports.
func (r *portsResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var id portsIdentity
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
	} else {
		endpoint, vmSet, err := parseVMSetID(req.ID)
		if err != nil {
			resp.Diagnostics.AddError("Bad import id", sentence(err))
			return
		}
		id.VMSet = types.StringValue(vmSet)
		if endpoint != "" && !r.meta.isProviders(endpoint) {
			id.Endpoint = types.StringValue(endpoint)
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("endpoint"), id.Endpoint)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vm_set"), id.VMSet)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, id)...)
}

// portsModel is mux_ports in configuration, plan and state. Its maps are by port index.
type portsModel struct {
	managed
	Ports    types.Map `tfsdk:"ports"`    // of settingsType
	Original types.Map `tfsdk:"original"` // of settingsType
	Healthy  types.Map `tfsdk:"healthy"`  // of booleans
}

// portsIdentity is what tells one mux_ports from every other.
type portsIdentity struct {
	Endpoint types.String `tfsdk:"endpoint"`
	VMSet    types.String `tfsdk:"vm_set"`
}

// portsShape is a holding of any number of ports.
type portsShape struct{}

func (portsShape) decode(ctx context.Context, from schemaData) (holding, diag.Diagnostics) {
	var m portsModel
	diags := from.Get(ctx, &m)
	h := holding{
		managed:  m.managed,
		ports:    map[int]portSettings{},
		original: map[int]types.Object{},
		healthy:  map[int]types.Bool{},
		imported: m.Ports.IsNull(),
		open:     !wholly(m.Ports),
		unread:   m.Ports,
	}
	if h.open {
		return h, diags
	}
	original, healthy := m.Original.Elements(), m.Healthy.Elements()
	for key, element := range m.Ports.Elements() {
		port, err := strconv.Atoi(key)
		if err != nil {
			continue // a validator refuses it
		}
		s, sDiags := settingsOf(ctx, element)
		diags.Append(sDiags...)
		h.ports[port] = s
		if o, ok := original[key].(types.Object); ok {
			h.original[port] = o
		}
		h.healthy[port], _ = healthy[key].(types.Bool)
		if m.Healthy.IsUnknown() {
			h.healthy[port] = types.BoolUnknown()
		}
	}
	return h, diags
}

func (portsShape) encode(ctx context.Context, to settable, h holding) diag.Diagnostics {
	m := portsModel{managed: h.managed, Ports: h.unread, Original: types.MapUnknown(settingsType), Healthy: types.MapUnknown(types.BoolType)}
	if !h.open {
		m.Ports = mapOf(settingsType, h.ports, func(s portSettings) (attr.Value, bool) { return s.object(), true })
	}
	if !h.open && !h.creation {
		m.Original = orNull(mapOf(settingsType, h.original, func(o types.Object) (attr.Value, bool) { return o, !o.IsNull() }))
		m.Healthy = orNull(mapOf(types.BoolType, h.healthy, func(b types.Bool) (attr.Value, bool) { return b, !b.IsNull() }))
	}
	return to.Set(ctx, m)
}

// mapOf makes a map by port index, without the elements for which value returns false.
func mapOf[T any](typ attr.Type, byPort map[int]T, value func(T) (attr.Value, bool)) types.Map {
	elements := make(map[string]attr.Value, len(byPort))
	for port, v := range byPort {
		if element, ok := value(v); ok {
			elements[strconv.Itoa(port)] = element
		}
	}
	return types.MapValueMust(typ, elements)
}

// orNull returns null for an empty map, so that there is one way to write nothing.
func orNull(m types.Map) types.Map {
	if len(m.Elements()) == 0 {
		return types.MapNull(m.ElementType(context.Background()))
	}
	return m
}

// wholly reports whether a map and each of its elements are known, though parts of an element may not be.
func wholly(m types.Map) bool {
	if m.IsUnknown() {
		return false
	}
	for _, element := range m.Elements() {
		if element.IsUnknown() {
			return false
		}
	}
	return true
}

func (portsShape) identify(ctx context.Context, to *tfsdk.ResourceIdentity, h holding) diag.Diagnostics {
	return to.Set(ctx, portsIdentity{Endpoint: h.Endpoint, VMSet: h.VMSet})
}

func (portsShape) alone() bool { return false }
