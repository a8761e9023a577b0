package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

var (
	_ resource.Resource                = (*portResource)(nil)
	_ resource.ResourceWithConfigure   = (*portResource)(nil)
	_ resource.ResourceWithIdentity    = (*portResource)(nil)
	_ resource.ResourceWithImportState = (*portResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*portResource)(nil)
)

// portResource is mux_port.
type portResource struct{ meta *meta }

func newPort() resource.Resource { return &portResource{} }

func (r *portResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_port"
	// An agent may move to another endpoint; the port stays the same.
	resp.ResourceBehavior = resource.ResourceBehavior{MutableIdentity: true}
}

func (r *portResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.meta = metaOf(req.ProviderData, &resp.Diagnostics)
}

// Create takes over a port: it keeps how the port was found, then sets it.
func (r *portResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan portModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	agent, diags := r.meta.agent(plan.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := plan.Timeouts.Create(ctx, 0)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	ref := plan.ref()
	found, err := agent.Status(ctx, ref.vmSet, ref.port)
	if err != nil {
		resp.Diagnostics.Append(cannotReach(ctx, agent, ref.vmSet, []int{ref.port}, "reading", err))
		return
	}
	resp.Diagnostics.Append(saveOriginals(ctx, resp.Private, map[int]original{ref.port: originalOf(found)})...)
	if resp.Diagnostics.HasError() {
		return
	}

	_, err = set(ctx, agent, ref.vmSet, map[int]api.Desired{ref.port: plan.desired()})
	if err == nil || mayHaveLanded(err) { // then Terraform must know of it, tainted
		resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	}
	if err != nil {
		addError(&resp.Diagnostics, explain("setting "+ref.String(), err))
	}
}

// Read brings the state up to date, as far as drift_policy wants it to be.
func (r *portResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state portModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	agent, diags := r.meta.agent(state.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := state.Timeouts.Read(ctx, 0)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	imported := state.ActiveSide.IsNull()
	if agent == nil {
		if imported {
			addError(&resp.Diagnostics, endpointUnknown("An import reads the port."))
		}
		return // the state stays as it is until the endpoint is known
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	ref := state.ref()
	now, missing, err := find(ctx, agent, ref.vmSet, []int{ref.port}, true)
	if missing != nil {
		gone, p := judgeAbsence(ctx, agent, ref.vmSet, missing, "reading "+ref.String(), err)
		if gone && !imported {
			resp.Diagnostics.AddWarning(p.title, p.detail+"\n\nThe resource was removed from the state. If the port comes back, the next apply creates it anew.")
			resp.State.RemoveResource(ctx)
			return
		}
		addError(&resp.Diagnostics, p)
		return
	}
	switch {
	case imported:
		state.portSettings = found(now[ref.port])
		resp.Diagnostics.Append(saveImported(ctx, resp.Private, []int{ref.port})...)
	case !r.meta.ignoresDrift(state.DriftPolicy):
		state.portSettings = state.observed(now[ref.port])
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update writes what the plan changed.
func (r *portResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state, config portModel
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
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	want := portSettings{ActiveSide: plan.ActiveSide, Dropped: config.Dropped}.desired()
	if !r.meta.rewrites(state.managed, plan.managed) {
		want = plan.changed(state.portSettings, config.portSettings)
	}
	ref := plan.ref()
	if _, err := set(ctx, agent, ref.vmSet, map[int]api.Desired{ref.port: want}); err != nil {
		addError(&resp.Diagnostics, explain("setting "+ref.String(), err))
		return
	}
	if !config.Dropped.IsNull() {
		resp.Diagnostics.Append(saveImported(ctx, resp.Private, nil)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

// Delete forgets the port, or puts it back as Create found it.
func (r *portResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state portModel
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
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	ref := state.ref()
	resp.Diagnostics.Append(restored(ctx, agent, ref.vmSet, []int{ref.port}, originals)...)
}

func addError(diags *diag.Diagnostics, p problem) { diags.AddError(p.title, p.detail) }
