package provider

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// portsModel is mux_ports in configuration, plan and state.
type portsModel struct {
	managed
	Ports types.Map `tfsdk:"ports"` // of settingsType, by port index
}

func (m portsModel) identity() portsIdentity {
	return portsIdentity{Endpoint: m.Endpoint, VMSet: m.VMSet}
}

// portsIdentity is what tells one mux_ports from every other.
type portsIdentity struct {
	Endpoint types.String `tfsdk:"endpoint"`
	VMSet    types.String `tfsdk:"vm_set"`
}

var settingsType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"active_side": types.StringType,
	"dropped":     types.SetType{ElemType: types.StringType},
}}

// settings reads a map of ports that is known.
func settings(ctx context.Context, ports types.Map) (map[int]portSettings, diag.Diagnostics) {
	var diags diag.Diagnostics
	byPort := map[int]portSettings{}
	for key, element := range ports.Elements() {
		port, err := strconv.Atoi(key)
		object, ok := element.(types.Object)
		if err != nil || !ok {
			diags.AddError("Bug in the provider", fmt.Sprintf("The ports hold %q: %T.", key, element))
			return nil, diags
		}
		var s portSettings
		diags.Append(object.As(ctx, &s, objectOptions)...)
		byPort[port] = s
	}
	return byPort, diags
}

// portsValue is the reverse of settings.
func portsValue(byPort map[int]portSettings) types.Map {
	elements := make(map[string]attr.Value, len(byPort))
	for port, s := range byPort {
		dropped := s.Dropped
		if dropped.IsNull() {
			dropped = types.SetNull(types.StringType)
		}
		elements[strconv.Itoa(port)] = types.ObjectValueMust(settingsType.AttrTypes, map[string]attr.Value{
			"active_side": s.ActiveSide,
			"dropped":     dropped,
		})
	}
	return types.MapValueMust(settingsType, elements)
}
