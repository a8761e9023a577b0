package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// ModifyPlan fills in what the configuration leaves out. It asks an agent only whether ports exist that are to be taken over,
// and does without an answer.
func (k *keeper) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if k.meta == nil || req.Plan.Raw.IsNull() {
		return
	}
	config, diags := k.decode(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	plan, diags := k.decode(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	notes, old, diags := loadNotes(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	var state holding
	exists := !req.State.Raw.IsNull()
	if exists {
		state, diags = k.decode(ctx, req.State)
		resp.Diagnostics.Append(diags...)
		state.remember(old) // as the apply will
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(k.meta.complete(&plan.managed, config.managed, state.managed)...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.creation = !exists
	if exists && !plan.VMSet.Equal(state.VMSet) {
		resp.RequiresReplace.Append(path.Root("vm_set"))
		plan.creation, state.ports = true, nil // another testbed: none of its ports is held
	}

	plan.ports, plan.open = config.ports, config.open
	plan.original, plan.healthy = map[int]types.Object{}, map[int]types.Bool{}
	rewrites := exists && k.meta.rewrites(state.managed, plan.managed)
	corrects := !k.meta.ignoresDrift(plan.DriftPolicy)
	var added []int
	for port, s := range plan.ports {
		known, held := state.ports[port]
		n := notes[port]
		if s.Dropped.IsNull() {
			s.Dropped = types.SetNull(types.StringType)
			if held && n.Imported {
				s.Dropped = known.Dropped
			}
			plan.ports[port] = s
		}
		if !held {
			plan.healthy[port], plan.original[port] = types.BoolUnknown(), types.ObjectUnknown(settingsType.AttrTypes)
			added = append(added, port)
			continue
		}
		plan.original[port], plan.healthy[port] = state.original[port], state.healthy[port]
		changed := s.changed(k.meta.lastKnown(known, n, plan.managed), config.ports[port])
		if rewrites || !isNothing(changed) || corrects && n.Heals {
			plan.healthy[port] = types.BoolUnknown()
		}
	}
	resp.Diagnostics.Append(k.encode(ctx, &resp.Plan, plan)...)
	if exists && plan.restores() && !state.restores() {
		if unknown := state.withoutOriginal(); len(unknown) > 0 {
			resp.Diagnostics.Append(nothingToRestore(state.VMSet.ValueString(), unknown))
		}
	}
	if !plan.open && !plan.VMSet.IsUnknown() {
		resp.Diagnostics.Append(k.missing(ctx, plan, added)...)
	}
}

// lastKnown returns what a port of the state was last known to be, nothing where that is not known. What a read has shown of a
// port that is left alone from now on is not to be put right.
func (m *meta) lastKnown(s portSettings, n note, plan managed) portSettings {
	if n.Unset {
		return portSettings{}
	}
	if n.Applied != nil && m.ignoresDrift(plan.DriftPolicy) {
		return n.Applied.settings()
	}
	return s
}

// withoutOriginal returns the ports that were imported, in order.
func (h *holding) withoutOriginal() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.ports)), func(port int) bool { return !h.original[port].IsNull() })
}

// missing warns of ports that are to be taken over and don't exist now, once for each vm_set. Something else may make them in
// the same apply, and the agent may be away, so this is no error.
func (k *keeper) missing(ctx context.Context, plan holding, ports []int) diag.Diagnostics {
	agent, diags := k.meta.agent(plan.Endpoint)
	if agent == nil || diags.HasError() || len(ports) == 0 {
		return nil
	}
	bed := testbed{agent: agent, vmSet: plan.VMSet.ValueString(), run: k.meta.run}
	which := "missing " + bed.key()
	if bed.run.saw(which, ports, nil) {
		return nil
	}
	all, ok := agent.Glance(ctx, bed.vmSet)
	if !ok {
		bed.run.once(which) // nobody looks again
		return nil
	}
	if bed.run.saw(which, ports, all) || !bed.run.once(which) {
		return nil
	}
	absent := slices.DeleteFunc(ports, func(port int) bool {
		_, exists := all[port]
		return exists
	})
	return diag.Diagnostics{diag.NewWarningDiagnostic("No such port", fmt.Sprintf("%s has no %s at present. Ports that exist: %s. "+
		"Unless something makes it in the same apply, setting it will fail there. Other ports that don't exist there are not warned of.",
		bed.vmSet, indexes(absent), ranges(slices.Collect(maps.Keys(all)))))}
}

// complete checks that a resource has an agent and fills in its vm_set. The state is empty for one that is new.
func (m *meta) complete(plan *managed, config, state managed) diag.Diagnostics {
	_, diags := m.agent(plan.Endpoint)
	if config.VMSet.IsNull() {
		plan.VMSet = m.vmSet
		if plan.VMSet.IsUnknown() && !state.VMSet.IsNull() {
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
