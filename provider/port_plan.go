package provider

import (
	"context"

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
	imported, diags := req.Private.GetKey(ctx, keyImported)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	if _, diags := r.meta.agent(plan.Endpoint); diags.HasError() {
		resp.Diagnostics.Append(diags...)
	}
	if config.VMSet.IsNull() {
		plan.VMSet = r.meta.vmSet
		if plan.VMSet.IsUnknown() && state != nil {
			plan.VMSet = state.VMSet // most likely it stays; when it does not, the next plan says so
		}
	}
	if plan.VMSet.IsNull() {
		resp.Diagnostics.AddAttributeError(path.Root("vm_set"), "No vm_set", "Nothing says to which testbed this port belongs. "+
			"Set vm_set here, in the provider block, or in the environment variable "+envVMSet+", such as \"vms17-8\".")
	}
	if config.Dropped.IsNull() {
		plan.Dropped = types.SetNull(types.StringType)
		if state != nil && imported != nil {
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
		was, diags := loadOriginal(ctx, req.Private)
		resp.Diagnostics.Append(diags...)
		if was == nil {
			resp.Diagnostics.Append(nothingToRestore(state.ref()))
		}
	}
}
