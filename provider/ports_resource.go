package provider

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

var (
	_ resource.Resource                = (*portsResource)(nil)
	_ resource.ResourceWithConfigure   = (*portsResource)(nil)
	_ resource.ResourceWithIdentity    = (*portsResource)(nil)
	_ resource.ResourceWithImportState = (*portsResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*portsResource)(nil)
)

// portsResource is mux_ports: many ports of a testbed, set by one request.
type portsResource struct{ meta *meta }

func newPorts() resource.Resource { return &portsResource{} }

func (r *portsResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ports"
	resp.ResourceBehavior = resource.ResourceBehavior{MutableIdentity: true} // as mux_port
}

func (r *portsResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.meta = metaOf(req.ProviderData, &resp.Diagnostics)
}

// Create takes over the ports: it keeps how they were found, then sets them.
func (r *portsResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan portsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	agent, diags := r.meta.agent(plan.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := plan.Timeouts.Create(ctx, 0)
	resp.Diagnostics.Append(diags...)
	ports, diags := settings(ctx, plan.Ports)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	vmSet := plan.VMSet.ValueString()
	keys := slices.Sorted(maps.Keys(ports))
	now, missing, err := find(ctx, agent, vmSet, keys, false)
	if err != nil {
		resp.Diagnostics.Append(cannotReach(ctx, agent, vmSet, missing, "reading", err))
		return
	}
	originals, want := map[int]original{}, map[int]api.Desired{}
	for port, s := range ports {
		originals[port], want[port] = originalOf(now[port]), s.desired()
	}
	resp.Diagnostics.Append(saveOriginals(ctx, resp.Private, originals)...)
	if resp.Diagnostics.HasError() {
		return
	}

	_, err = set(ctx, agent, vmSet, want)
	if err == nil || mayHaveLanded(err) { // then Terraform must know of it, tainted
		resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	}
	if err != nil {
		addError(&resp.Diagnostics, explain("setting "+portsOf(vmSet, keys), err))
	}
}

// Read brings the state up to date, as far as drift_policy wants it to be. After an import it takes in every port.
func (r *portsResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state portsModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	agent, diags := r.meta.agent(state.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := state.Timeouts.Read(ctx, 0)
	resp.Diagnostics.Append(diags...)
	ports, diags := settings(ctx, state.Ports)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	imported := state.Ports.IsNull()
	if agent == nil {
		if imported {
			addError(&resp.Diagnostics, endpointUnknown("An import reads the ports."))
		}
		return // the state stays as it is until the endpoint is known
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	vmSet := state.VMSet.ValueString()
	now, missing, err := find(ctx, agent, vmSet, slices.Sorted(maps.Keys(ports)), true)
	if err != nil {
		gone, p := judgeAbsence(ctx, agent, vmSet, missing, "reading "+portsOf(vmSet, missing), err)
		if !gone || imported {
			addError(&resp.Diagnostics, p)
			return
		}
		resp.Diagnostics.AddWarning(p.title, p.detail+"\n\nThe state no longer holds "+portsOf(vmSet, missing)+
			". If they come back, the next apply sets them anew.")
		for _, port := range missing {
			delete(ports, port)
		}
	}
	switch {
	case imported:
		for port, s := range now {
			ports[port] = found(s)
		}
		resp.Diagnostics.Append(saveImported(ctx, resp.Private, slices.Collect(maps.Keys(now)))...)
	case !r.meta.ignoresDrift(state.DriftPolicy):
		for port, s := range ports {
			ports[port] = s.observed(now[port])
		}
	}
	state.Ports = portsValue(ports)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update writes what the plan changed, and puts back the ports that are no longer in it when on_destroy says so.
func (r *portsResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state, config portsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	agent, diags := r.meta.agent(plan.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := plan.Timeouts.Update(ctx, 0)
	resp.Diagnostics.Append(diags...)
	planned, diags := settings(ctx, plan.Ports)
	resp.Diagnostics.Append(diags...)
	prior, diags := settings(ctx, state.Ports)
	resp.Diagnostics.Append(diags...)
	configured, diags := settings(ctx, config.Ports)
	resp.Diagnostics.Append(diags...)
	originals, diags := loadOriginals(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	imported, diags := loadImported(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	vmSet := plan.VMSet.ValueString()
	added, removed := without(planned, prior), without(prior, planned)
	if len(added) > 0 {
		now, missing, err := find(ctx, agent, vmSet, added, false)
		if err != nil {
			resp.Diagnostics.Append(cannotReach(ctx, agent, vmSet, missing, "reading", err))
			return
		}
		for _, port := range added {
			originals[port] = originalOf(now[port])
		}
		resp.Diagnostics.Append(saveOriginals(ctx, resp.Private, originals)...)
	}
	want := map[int]api.Desired{}
	for port, s := range planned {
		known, managed := prior[port]
		if !managed || r.meta.rewrites(state.managed, plan.managed) {
			want[port] = portSettings{ActiveSide: s.ActiveSide, Dropped: configured[port].Dropped}.desired()
		} else {
			want[port] = s.changed(known, configured[port])
		}
	}
	now, err := set(ctx, agent, vmSet, want)
	if err != nil {
		addError(&resp.Diagnostics, explain("setting "+portsOf(vmSet, slices.Collect(maps.Keys(planned))), err))
		for port, s := range planned {
			if reached, ok := now[port]; ok && satisfies(reached, want[port]) {
				prior[port] = s
			}
		}
		state.Ports = portsValue(prior)
		resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
		return
	}
	if len(removed) > 0 && plan.restores() {
		resp.Diagnostics.Append(restored(ctx, agent, vmSet, removed, originals)...)
	}
	for _, port := range removed {
		delete(originals, port)
	}
	resp.Diagnostics.Append(saveOriginals(ctx, resp.Private, originals)...)
	imported = slices.DeleteFunc(imported, func(port int) bool { // gone, or decided about
		c, ok := configured[port]
		return !ok || !c.Dropped.IsNull()
	})
	resp.Diagnostics.Append(saveImported(ctx, resp.Private, imported)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

// without returns the ports of a that are not in b, in order.
func without(a, b map[int]portSettings) []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(port int) bool {
		_, ok := b[port]
		return ok
	})
}

// Delete forgets the ports, or puts them back as they were found.
func (r *portsResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state portsModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !state.restores() {
		return
	}
	originals, diags := loadOriginals(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	agent, diags := r.meta.agent(state.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := state.Timeouts.Delete(ctx, 0)
	resp.Diagnostics.Append(diags...)
	ports, diags := settings(ctx, state.Ports)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	resp.Diagnostics.Append(restored(ctx, agent, state.VMSet.ValueString(), slices.Sorted(maps.Keys(ports)), originals)...)
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
