package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// A keeper is what mux_port and mux_ports do: take ports over, keep the state up to date, write what a plan changes, and give
// the ports back. The shape reads and writes the state of the one or the other.
type keeper struct {
	configured
	shape
}

// A shape is the schema of one resource.
type shape interface {
	decode(ctx context.Context, from schemaData) (holding, diag.Diagnostics)
	encode(ctx context.Context, to settable, h holding) diag.Diagnostics
	identify(ctx context.Context, to *tfsdk.ResourceIdentity, h holding) diag.Diagnostics
	// alone reports whether a resource without its port is nothing.
	alone() bool
}

// schemaData is a configuration, a plan or a state; settable is a plan or a state.
type (
	schemaData interface {
		Get(ctx context.Context, target any) diag.Diagnostics
	}
	settable interface {
		Set(ctx context.Context, value any) diag.Diagnostics
	}
)

// begin opens the agent of a holding, nil without a diagnostic while its endpoint is unknown, and gives the operation the
// time that its timeouts say.
func (k *keeper) begin(ctx context.Context, h holding, timeout func(context.Context, time.Duration) (time.Duration, diag.Diagnostics)) (context.Context, testbed, diag.Diagnostics) {
	agent, diags := k.meta.agent(h.Endpoint)
	limit, timeoutDiags := timeout(ctx, 0)
	diags.Append(timeoutDiags...)
	if limit > 0 {
		ctx = client.WithBudget(ctx, limit)
	}
	return ctx, testbed{agent: agent, vmSet: h.VMSet.ValueString(), run: k.meta.run}, diags
}

// Create takes ports over: it keeps how each was found, then sets it. Where only some can be set, they are held, and the
// others are warned of, since an error would have Terraform destroy and create all of them.
func (k *keeper) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan, diags := k.decode(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, bed, diags := k.begin(ctx, plan, plan.Timeouts.Create)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	taken := bed.take(ctx, slices.Sorted(maps.Keys(plan.ports)))
	want := map[int]api.Desired{}
	for port := range taken.original {
		want[port] = plan.ports[port].desired()
	}
	done := bed.write(ctx, "setting", want, nil)
	resp.Diagnostics.Append(taken.warnings...)
	failures := append(taken.problems, done.problems...)
	failed := append(taken.missing, done.failed...)
	if len(failures) > 0 && len(done.failed) == len(want) { // none was set
		for _, p := range failures {
			addError(&resp.Diagnostics, p)
		}
		if !done.unsure && len(taken.handed) == 0 {
			for port := range plan.ports {
				bed.run.giveUp(bed.at(port), nil)
			}
			return
		} // else the port was changed, and Terraform must know of it
	} else {
		for _, port := range slices.Sorted(slices.Values(failed)) {
			resp.Diagnostics.AddWarning(fmt.Sprintf("%s was not set", upperFirst(portRef{bed.vmSet, port}.String())),
				reasonOf(failures, port)+"\n\nOther ports of the resource are set. The next apply tries again.")
		}
	}

	notes := map[int]note{}
	plan.original, plan.healthy = map[int]types.Object{}, map[int]types.Bool{}
	for port := range plan.ports {
		if o, ok := taken.of(port); ok {
			plan.original[port] = o.settings().object()
		}
		if now, ok := done.now[port]; ok {
			plan.healthy[port] = types.BoolValue(now.Healthy)
		}
		notes[port] = note{Unset: slices.Contains(failed, port)}
	}
	resp.Diagnostics.Append(saveNotes(ctx, resp.Private, notes)...)
	resp.Diagnostics.Append(k.encode(ctx, &resp.State, plan)...)
	resp.Diagnostics.Append(k.identify(ctx, resp.Identity, plan)...)
}

// Read brings the state up to date, as far as drift_policy wants it to be. After an import it takes in every port.
func (k *keeper) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	state, diags := k.decode(ctx, req.State)
	resp.Diagnostics.Append(diags...)
	notes, old, diags := loadNotes(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(k.identify(ctx, resp.Identity, state)...)
	ctx, bed, diags := k.begin(ctx, state, state.Timeouts.Read)
	resp.Diagnostics.Append(diags...)
	switch {
	case resp.Diagnostics.HasError():
		return
	case bed.agent == nil && state.imported:
		addError(&resp.Diagnostics, endpointUnknown("An import reads the port."))
		return
	case bed.agent == nil:
		return // the state stays as it is until the endpoint is known
	}

	state.remember(old)
	keys := slices.Sorted(maps.Keys(state.ports))
	all, missing, err := bed.find(ctx, keys, true)
	if err != nil && repeated(err) && !state.imported {
		return // another resource's error tells the whole story and ends the run
	}
	if err != nil {
		gone, p := bed.judgeAbsence(ctx, missing, "reading "+portsOf(bed.vmSet, missing), err)
		if !gone || state.imported {
			addError(&resp.Diagnostics, p)
			return
		}
		resp.Diagnostics.AddWarning(p.title, p.detail+"\n\nThe state no longer holds "+portsOf(bed.vmSet, missing)+
			". If it comes back, the next apply takes it over anew.")
		for _, port := range missing {
			state.forget(port)
			delete(notes, port)
		}
		if k.alone() {
			resp.State.RemoveResource(ctx)
			return
		}
	}
	if state.imported && len(keys) == 0 {
		keys = slices.Sorted(maps.Keys(all))
	}
	corrects := !k.meta.ignoresDrift(state.DriftPolicy)
	ill := false
	for _, port := range keys {
		now, ok := all[port]
		if !ok {
			continue // gone
		}
		notes[port] = state.refresh(port, now, notes[port], corrects)
		ill = ill || complaint(now) != "" && (!corrects || !heals(now))
		if !state.imported && bed.run.readTwice(bed.at(port)) {
			resp.Diagnostics.Append(managedTwice(bed.vmSet, port))
		}
	}
	if ill && bed.run.once(fmt.Sprintf("unwell %t %s", corrects, bed.key())) {
		resp.Diagnostics.Append(unwell(bed.vmSet, all, corrects))
	}
	resp.Diagnostics.Append(saveNotes(ctx, resp.Private, notes)...)
	resp.Diagnostics.Append(k.encode(ctx, &resp.State, state)...)
}

// refresh takes in how a port is now, and returns what is to be remembered of it.
func (h *holding) refresh(port int, now api.Status, n note, corrects bool) note {
	was := h.ports[port]
	n.Heals = heals(now)
	h.healthy[port] = types.BoolValue(now.Healthy)
	switch {
	case h.imported:
		h.ports[port] = found(now)
		n.Imported = true
	case corrects || n.Unset || n.Unsure:
		is := was.observed(now)
		switch {
		case n.Unset || n.Unsure:
			n.Applied = nil // and nobody has left the port alone
		case is.equal(was):
		case n.Applied == nil:
			n.Applied = appliedOf(was)
		case is.equal(n.Applied.settings()):
			n.Applied = nil
		}
		h.ports[port], n.Unset, n.Unsure = is, false, false
	}
	return n
}

// remember takes in originals that version 0.1.0 kept in the private state.
func (h *holding) remember(old map[int]original) {
	for port, o := range old {
		if _, held := h.ports[port]; held && h.original[port].IsNull() {
			h.original[port] = o.settings().object()
		}
	}
}

func (h *holding) forget(port int) {
	delete(h.ports, port)
	delete(h.original, port)
	delete(h.healthy, port)
}

// originals returns how ports were found, without those that were imported.
func (h *holding) originals(ctx context.Context) (map[int]original, diag.Diagnostics) {
	var diags diag.Diagnostics
	was := map[int]original{}
	for port, v := range h.original {
		if v.IsNull() || v.IsUnknown() {
			continue
		}
		s, sDiags := settingsOf(ctx, v)
		diags.Append(sDiags...)
		was[port] = *appliedOf(s)
	}
	return was, diags
}

// Update writes what the plan changed, takes over the ports that are new in it, and gives back those that are not in it any
// more. What fails stays in the state as it was, and is planned again.
func (k *keeper) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan, diags := k.decode(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	state, diags := k.decode(ctx, req.State)
	resp.Diagnostics.Append(diags...)
	config, diags := k.decode(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	notes, old, diags := loadNotes(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, bed, diags := k.begin(ctx, plan, plan.Timeouts.Update)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	state.remember(old)
	added, removed := without(plan.ports, state.ports), without(state.ports, plan.ports)
	taken := bed.take(ctx, added)
	want, mend := map[int]api.Desired{}, []int{}
	rewrites := k.meta.rewrites(state.managed, plan.managed)
	for port, s := range plan.ports {
		if !plan.healthy[port].IsUnknown() || slices.Contains(taken.missing, port) {
			continue
		}
		known, held := state.ports[port]
		want[port] = s.configured(config.ports[port])
		if !held || rewrites {
			continue
		}
		if changed := s.changed(k.meta.lastKnown(known, notes[port], plan.managed), config.ports[port]); !isNothing(changed) {
			want[port] = changed
		} else {
			mend = append(mend, port) // nothing to change: it is written to be healthy again
		}
	}
	done := bed.write(ctx, "setting", want, mend)
	resp.Diagnostics.Append(taken.warnings...)
	for _, p := range append(taken.problems, done.problems...) {
		addError(&resp.Diagnostics, p)
	}

	failed := append(taken.missing, done.failed...)
	for port, s := range plan.ports {
		n := notes[port]
		_, held := state.ports[port]
		_, handed := taken.handed[port]
		o, known := taken.of(port)
		switch {
		case !slices.Contains(failed, port):
		case held:
			n.Unsure = n.Unsure || done.unsure
			notes[port] = n
			continue
		case known && (done.unsure || handed): // nobody else knows how it was
			state.ports[port], state.original[port], notes[port] = s, o.settings().object(), note{Unset: true}
			continue
		default:
			bed.run.giveUp(bed.at(port), nil)
			continue
		}
		if !held {
			state.original[port] = o.settings().object()
		} else if !plan.original[port].IsNull() {
			state.original[port] = plan.original[port]
		}
		state.ports[port] = s
		state.healthy[port] = plan.healthy[port]
		if now, ok := done.now[port]; ok && plan.healthy[port].IsUnknown() {
			state.healthy[port], n.Heals = types.BoolValue(now.Healthy), heals(now)
		}
		n.Unset, n.Applied = false, nil
		n.Imported = n.Imported && config.ports[port].Dropped.IsNull()
		notes[port] = n
	}
	_, diags = bed.drop(ctx, removed, &state, notes, plan.restores())
	resp.Diagnostics.Append(diags...)
	if !resp.Diagnostics.HasError() {
		state.managed = plan.managed
	}
	resp.Diagnostics.Append(saveNotes(ctx, resp.Private, notes)...)
	resp.Diagnostics.Append(k.encode(ctx, &resp.State, state)...)
	resp.Diagnostics.Append(k.identify(ctx, resp.Identity, state)...)
}

// Delete forgets the ports, or puts them back as they were found.
func (k *keeper) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state, diags := k.decode(ctx, req.State)
	resp.Diagnostics.Append(diags...)
	notes, old, diags := loadNotes(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, bed, diags := k.begin(ctx, state, state.Timeouts.Delete)
	if state.restores() {
		if bed.agent == nil && !diags.HasError() {
			addError(&diags, endpointUnknown("A restore needs the agent."))
		}
		resp.Diagnostics.Append(diags...)
	}
	if resp.Diagnostics.HasError() || bed.agent == nil {
		return
	}

	state.remember(old)
	ports := slices.Sorted(maps.Keys(state.ports))
	kept, diags := bed.drop(ctx, ports, &state, notes, state.restores())
	resp.Diagnostics.Append(diags...)
	if len(kept) > 0 {
		resp.Diagnostics.Append(saveNotes(ctx, resp.Private, notes)...)
		resp.Diagnostics.Append(k.encode(ctx, &resp.State, state)...)
	}
}

// without returns the ports of a that are not in b, in order.
func without(a, b map[int]portSettings) []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(port int) bool {
		_, ok := b[port]
		return ok
	})
}

// taken are ports that were taken over.
type taken struct {
	original map[int]original // as they were found
	handed   map[int]original // by a resource that gave the port up in this run, also of those that are missing
	missing  []int
	problems []problem
	warnings diag.Diagnostics
}

// of returns how a port was, as far as that is known.
func (t taken) of(port int) (o original, known bool) {
	if o, known = t.original[port]; !known {
		o, known = t.handed[port]
	}
	return o, known
}

// take finds out how ports are before they are first written to. A port that another resource gave up in this run has the
// original of that one.
func (b testbed) take(ctx context.Context, ports []int) taken {
	t := taken{original: map[int]original{}, handed: map[int]original{}}
	if len(ports) == 0 {
		return t
	}
	all, missing, err := b.find(ctx, ports, false)
	t.missing = missing
	if err != nil {
		p := b.cannotReach(ctx, missing, "reading", err)
		p.each = map[int]string{}
		summary, _, _ := strings.Cut(p.detail, "\n\n")
		for _, port := range missing {
			p.each[port] = p.title + ". " + summary
		}
		t.problems = append(t.problems, p)
	}
	for _, port := range ports {
		o, twice := b.run.takeOver(b.at(port))
		if twice {
			t.warnings.Append(managedTwice(b.vmSet, port))
		}
		if o != nil {
			t.handed[port] = *o
		}
		switch now, ok := all[port]; {
		case !ok:
		case o != nil:
			t.original[port] = *o
		default:
			t.original[port] = originalOf(now)
		}
	}
	return t
}

func managedTwice(vmSet string, port int) diag.Diagnostic {
	return diag.NewWarningDiagnostic("A port is managed twice", upperFirst(portRef{vmSet, port}.String())+" belongs to more than one resource. "+
		"They undo each other's settings where they differ, and none knows how the port was before the other. Take it out of all but one of them.")
}

// written is what became of a write.
type written struct {
	now      map[int]api.Status // the last that is known
	failed   []int
	unsure   bool // a port that failed may have been changed all the same
	problems []problem
}

// write sets ports and makes sure that they are as they should be; those to mend must be mended as well. doing is the word
// for it, such as "setting".
func (b testbed) write(ctx context.Context, doing string, want map[int]api.Desired, mend []int) written {
	now, wrote, err := b.set(ctx, want, mend)
	w := written{now: now}
	if err == nil {
		return w
	}
	ports := slices.Sorted(maps.Keys(want))
	refused := refusals(err)
	for _, port := range ports {
		s, ok := now[port]
		if _, no := refused[port]; no || !ok || !settled(s, want[port], slices.Contains(mend, port)) {
			w.failed = append(w.failed, port)
		}
	}
	w.problems = append(w.problems, explain(doing+" "+portsOf(b.vmSet, w.failed), err))
	w.unsure = wrote || mayHaveLanded(err, w.failed)
	return w
}

// drop gives ports up: it leaves them as they are, or puts them back as they were found, and the holding and the notes forget
// them. It returns those that it could not put back, which stay, with an error.
func (b testbed) drop(ctx context.Context, ports []int, h *holding, notes map[int]note, restores bool) (kept []int, diags diag.Diagnostics) {
	defer func() {
		for _, port := range ports {
			if !slices.Contains(kept, port) {
				h.forget(port)
				delete(notes, port)
			}
		}
	}()
	originals, diags := h.originals(ctx)
	was := map[int]original{}
	var unknown, replaced []int
	for _, port := range ports {
		o, ok := originals[port]
		var left *original
		if ok && !restores {
			left = &o
		}
		switch isReplaced := b.run.giveUp(b.at(port), left); {
		case !restores:
		case isReplaced:
			replaced = append(replaced, port)
		case ok:
			was[port] = o
		default:
			unknown = append(unknown, port)
		}
	}
	if len(unknown) > 0 {
		diags.Append(nothingToRestore(b.vmSet, unknown))
	}
	if len(replaced) > 0 {
		diags.AddWarning("The port was not restored", fmt.Sprintf("The resource that replaces this one was created before this one was destroyed (create_before_destroy) "+
			"and holds %s; so nothing was put back. This is how it was before both:%s", portsOf(b.vmSet, replaced), byHand(replaced, originals)))
	}
	if len(was) == 0 {
		return nil, diags
	}
	w := b.restore(ctx, was)
	for _, port := range w.failed {
		n := notes[port]
		n.Unsure = n.Unsure || w.unsure
		notes[port] = n
	}
	if kept = w.failed; len(kept) > 0 {
		p := w.problems[0]
		if p.detail != "" { // else another error tells it
			p.detail += "\n\nThe state still holds " + portsOf(b.vmSet, kept) + ", and the next apply tries again. Without the agent, one of these ends it:\n" + waysOut +
				"\n\nThis is how it was before:" + byHand(kept, was)
		}
		addError(&diags, p)
	}
	return kept, diags
}

// waysOut are what works without an agent.
const waysOut = `  * terraform state rm ADDRESS
  * a removed block in place of the resource, with lifecycle { destroy = false }
  * on_destroy = "keep", then terraform apply -refresh=false, then terraform destroy -refresh=false`

// byHand says how ports were, a line each.
func byHand(ports []int, was map[int]original) string {
	var lines strings.Builder
	for _, port := range ports {
		fmt.Fprintf(&lines, "\nport %d: %s with dropped %q", port, was[port].ActiveSide, was[port].Dropped)
	}
	return lines.String()
}

func nothingToRestore(vmSet string, ports []int) diag.Diagnostic {
	return diag.NewWarningDiagnostic("Nothing to restore", upperFirst(portsOf(vmSet, ports))+" came by an import, so Terraform does not know how it was before. "+
		"Destroying the resource leaves it as it is, in spite of on_destroy = \"restore\".")
}

// restore puts ports back as they were. Those where it can't have one problem together. Ports that are gone are no failure, and
// keep no other from being put back.
func (b testbed) restore(ctx context.Context, was map[int]original) written {
	want := map[int]api.Desired{}
	for port, o := range was {
		want[port] = o.settings().desired()
	}
	w := b.write(ctx, "restoring", want, nil)
	if len(w.failed) == 0 {
		return w
	}
	p := w.problems[0]
	if p.code != api.CodeUnknownPort && p.code != api.CodeRejectedMux {
		w.problems = []problem{restoring(p)}
		return w
	}
	all, missing, err := b.find(ctx, w.failed, false)
	if all == nil {
		w.problems = []problem{restoring(b.cannotReach(ctx, missing, "reading", err))}
		return w
	}
	var kept []int
	left := map[int]api.Desired{}
	for _, port := range w.failed {
		if _, ok := all[port]; ok {
			left[port] = want[port]
		}
	}
	if len(missing) > 0 {
		if gone, why := b.judgeAbsence(ctx, missing, "restoring "+portsOf(b.vmSet, missing), err); !gone {
			kept, p = missing, why
		}
	}
	again := b.write(ctx, "restoring", left, nil)
	if len(again.failed) > 0 {
		q := again.problems[0]
		if kept != nil {
			q.detail = strings.TrimSpace(q.detail + "\n\n" + p.title + ". " + p.detail)
		}
		kept, p = append(kept, again.failed...), q
	}
	return written{failed: kept, unsure: again.unsure, problems: []problem{restoring(p)}}
}

// restoring says of a failure that it kept ports from being restored.
func restoring(p problem) problem {
	if p.detail != "" {
		p.title, p.detail = "The port was not restored", p.title+". "+p.detail
	}
	return p
}
