package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
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
	if req.ProviderData == nil {
		return // before the provider is configured, as in validate
	}
	m, ok := req.ProviderData.(*meta)
	if !ok {
		resp.Diagnostics.AddError("Bug in the provider", fmt.Sprintf("mux_port got a %T as the provider's data.", req.ProviderData))
		return
	}
	r.meta = m
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
		resp.Diagnostics.Append(cannotCreate(ctx, agent, ref, err))
		return
	}
	resp.Diagnostics.Append(saveOriginal(ctx, resp.Private, found)...)
	if resp.Diagnostics.HasError() {
		return
	}

	err = set(ctx, agent, ref, desired(plan.ActiveSide, plan.Dropped))
	if err == nil || mayHaveLanded(err) { // then Terraform must know of it, tainted
		resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	}
	if err != nil {
		addError(&resp.Diagnostics, explain("setting "+ref.String(), err))
	}
}

func mayHaveLanded(err error) bool {
	if e := (*client.Error)(nil); errors.As(err, &e) {
		return e.MayHaveLanded
	}
	return true
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
			resp.Diagnostics.AddError("The endpoint is not known yet",
				"An import reads the port. Apply first what the provider's endpoint is taken from, or write the endpoint out.")
		}
		return // the state stays as it is until the endpoint is known
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	ref := state.ref()
	now, err := agent.Status(ctx, ref.vmSet, ref.port)
	if err != nil {
		gone, p := judgeAbsence(ctx, agent, ref, "reading "+ref.String(), err)
		if gone && !imported {
			resp.Diagnostics.AddWarning(p.title, p.detail+"\n\nThe resource was removed from the state. If the port comes back, the next apply creates it anew.")
			resp.State.RemoveResource(ctx)
			return
		}
		addError(&resp.Diagnostics, p)
		return
	}
	if imported || !r.meta.ignoresDrift(state.DriftPolicy) {
		state.ActiveSide = types.StringValue(now.ActiveSide)
		if imported || !state.Dropped.IsNull() {
			state.Dropped = sidesValue(droppedSides(now))
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update writes what the plan changed, and no more, so that an edit of timeouts flips no port.
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

	want := desired(plan.ActiveSide, config.Dropped)
	// Under "ignore" the state may be old, and a new endpoint may be another switch: then everything is written.
	corrects := r.meta.ignoresDrift(state.DriftPolicy) && !r.meta.ignoresDrift(plan.DriftPolicy)
	if !corrects && plan.Endpoint.Equal(state.Endpoint) {
		if plan.ActiveSide.Equal(state.ActiveSide) {
			want.ActiveSide = nil
		}
		if plan.Dropped.Equal(state.Dropped) {
			want.Dropped = nil
		}
	}
	ref := plan.ref()
	if err := set(ctx, agent, ref, want); err != nil {
		addError(&resp.Diagnostics, explain("setting "+ref.String(), err))
		return
	}
	if !config.Dropped.IsNull() {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyImported, nil)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

// Delete forgets the port, or puts it back as Create found it. A port that can't be put back is a warning: a testbed that
// is being torn down must not keep Terraform from finishing.
func (r *portResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state portModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !state.restores() {
		return
	}
	ref := state.ref()
	was, diags := loadOriginal(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if was == nil {
		resp.Diagnostics.Append(nothingToRestore(ref))
		return
	}
	agent, diags := r.meta.agent(state.Endpoint)
	resp.Diagnostics.Append(diags...)
	timeout, diags := state.Timeouts.Delete(ctx, 0)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := within(ctx, timeout)
	defer cancel()

	err := set(ctx, agent, ref, api.Desired{ActiveSide: &was.ActiveSide, Dropped: &was.Dropped})
	if err == nil || client.Code(err) == api.CodeUnknownPort {
		return
	}
	p := explain("restoring "+ref.String(), err)
	resp.Diagnostics.AddWarning("The port was not restored", fmt.Sprintf("%s. %s\n\nThe resource is gone from the state. By hand, the port would have to be set to %s with dropped %q.",
		p.title, p.detail, was.ActiveSide, was.Dropped))
}

func nothingToRestore(ref portRef) diag.Diagnostic {
	return diag.NewWarningDiagnostic("Nothing to restore", upperFirst(ref.String())+" was imported, so Terraform does not know how it was before. "+
		"Destroying the resource leaves the port as it is, in spite of on_destroy = \"restore\".")
}

func addError(diags *diag.Diagnostics, p problem) { diags.AddError(p.title, p.detail) }
