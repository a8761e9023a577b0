package provider

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// ModifyPlan fills in what the configuration leaves out, without asking an agent.
func (r *portsResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.meta == nil || req.Plan.Raw.IsNull() {
		return
	}
	var config, plan portsModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	var state *portsModel // nil at a creation
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	imported, diags := loadImported(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	var before *managed
	var was map[int]portSettings
	if state != nil {
		before = &state.managed
		was, diags = settings(ctx, state.Ports)
		resp.Diagnostics.Append(diags...)
	}
	resp.Diagnostics.Append(r.meta.complete(&plan.managed, config.managed, before)...)
	if wholly(config.Ports) {
		ports, diags := settings(ctx, config.Ports)
		resp.Diagnostics.Append(diags...)
		for port, s := range ports {
			if s.Dropped.IsNull() {
				s.Dropped = types.SetNull(types.StringType)
				if known, ok := was[port]; ok && slices.Contains(imported, port) {
					s.Dropped = known.Dropped
				}
				ports[port] = s
			}
		}
		plan.Ports = portsValue(ports)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
	if state == nil {
		return
	}
	if !plan.VMSet.Equal(state.VMSet) {
		resp.RequiresReplace.Append(path.Root("vm_set"))
	}
	if plan.restores() && !state.restores() {
		originals, diags := loadOriginals(ctx, req.Private)
		resp.Diagnostics.Append(diags...)
		unknown := slices.DeleteFunc(slices.Collect(maps.Keys(was)), func(port int) bool {
			_, ok := originals[port]
			return ok
		})
		if len(unknown) > 0 {
			resp.Diagnostics.Append(nothingToRestore(state.VMSet.ValueString(), unknown))
		}
	}
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
