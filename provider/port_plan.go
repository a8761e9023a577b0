package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// ModifyPlan fills in what the configuration leaves out, without asking an agent.
func (r *portResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.meta == nil || req.Plan.Raw.IsNull() {
		return
	}
	var config, plan portModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	var state *portModel // nil at a creation
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	imported, diags := loadImported(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	var before *managed
	if state != nil {
		before = &state.managed
	}
	resp.Diagnostics.Append(r.meta.complete(&plan.managed, config.managed, before)...)
	if config.Dropped.IsNull() {
		plan.Dropped = types.SetNull(types.StringType)
		if state != nil && len(imported) > 0 {
			plan.Dropped = state.Dropped
		}
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
		was, diags := loadOriginals(ctx, req.Private)
		resp.Diagnostics.Append(diags...)
		if len(was) == 0 {
			resp.Diagnostics.Append(nothingToRestore(state.ref().vmSet, []int{state.ref().port}))
		}
	}
}

// complete checks that a resource has an agent and fills in its vm_set. state is nil at a creation.
func (m *meta) complete(plan *managed, config managed, state *managed) diag.Diagnostics {
	_, diags := m.agent(plan.Endpoint)
	if config.VMSet.IsNull() {
		plan.VMSet = m.vmSet
		if plan.VMSet.IsUnknown() && state != nil {
			plan.VMSet = state.VMSet // most likely it stays; when it does not, the next plan says so
		}
	}
	if plan.VMSet.IsNull() {
		diags.Append(noVMSet())
	}
	return diags
}

func noVMSet() diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("vm_set"), "No vm_set", "Nothing says to which testbed this belongs. "+
		"Set vm_set here, in the provider block, or in the environment variable "+envVMSet+", such as \"vms17-8\".")
}
