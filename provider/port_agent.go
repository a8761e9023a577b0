package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// settleDelay is how long a port that was switched back at once is left alone before it is looked at again.
const settleDelay = 300 * time.Millisecond

// set brings ports to the desired state and makes sure that they are in it. Those that differ right after the write are
// looked at again, then written once more by a call of its own, and then they are a *mismatchError. All other failures are
// the client's. It returns the last known status of each port, as far as there is one, also when it fails.
func set(ctx context.Context, agent *client.Client, vmSet string, want map[int]api.Desired) (map[int]api.Status, error) {
	now := map[int]api.Status{}
	open := maps.Clone(want)
	maps.DeleteFunc(open, func(_ int, d api.Desired) bool { return d.ActiveSide == nil && d.Dropped == nil })
	settled := func(port int, d api.Desired) bool {
		s, ok := now[port]
		return ok && satisfies(s, d)
	}
	for try := 1; len(open) > 0; try++ {
		got, err := agent.SetPorts(ctx, vmSet, open)
		maps.Copy(now, got)
		if err != nil {
			if e := (*client.Error)(nil); errors.As(err, &e) && try > 1 {
				e.MayHaveLanded = true // the first write has
			}
			return now, err
		}
		if maps.DeleteFunc(open, settled); len(open) == 0 {
			break
		}
		mismatch := &mismatchError{want: open, got: now}
		tflog.Info(ctx, "mux ports differ from what was just set", map[string]any{"vm_set": vmSet, "difference": mismatch.Error()})
		select {
		case <-ctx.Done():
			return now, mismatch
		case <-time.After(settleDelay):
		}
		if all, err := agent.All(ctx, vmSet); err == nil {
			maps.Copy(now, client.ByPort(all))
			maps.DeleteFunc(open, settled)
		}
		if try == 2 && len(open) > 0 {
			return now, mismatch
		}
	}
	return now, nil
}

// restore puts ports back as they were. Ports that are gone are no failure, and keep no other from being put back.
func restore(ctx context.Context, agent *client.Client, vmSet string, was map[int]original) error {
	want := map[int]api.Desired{}
	for port, o := range was {
		want[port] = api.Desired{ActiveSide: &o.ActiveSide, Dropped: &o.Dropped}
	}
	_, err := set(ctx, agent, vmSet, want)
	code := client.Code(err)
	if code != api.CodeUnknownPort && code != api.CodeRejectedMux {
		return err
	}
	all, aerr := agent.All(ctx, vmSet)
	if aerr != nil {
		return aerr
	}
	served := client.ByPort(all)
	maps.DeleteFunc(want, func(port int, _ api.Desired) bool {
		_, ok := served[port]
		return !ok
	})
	if _, serr := set(ctx, agent, vmSet, want); serr != nil || code == api.CodeUnknownPort {
		return serr
	}
	return err
}

// restored does restore and says in a warning what could not be put back: a testbed that is being torn down must not keep
// Terraform from finishing. Ports without an original were imported.
func restored(ctx context.Context, agent *client.Client, vmSet string, ports []int, originals map[int]original) diag.Diagnostics {
	var diags diag.Diagnostics
	was := map[int]original{}
	var unknown []int
	for _, port := range ports {
		if o, ok := originals[port]; ok {
			was[port] = o
		} else {
			unknown = append(unknown, port)
		}
	}
	if len(unknown) > 0 {
		diags.Append(nothingToRestore(vmSet, unknown))
	}
	if len(was) == 0 {
		return diags
	}
	err := restore(ctx, agent, vmSet, was)
	if err == nil {
		return diags
	}
	var byHand strings.Builder
	for _, port := range slices.Sorted(maps.Keys(was)) {
		fmt.Fprintf(&byHand, "\nport %d: %s with dropped %q", port, was[port].ActiveSide, was[port].Dropped)
	}
	p := explain("restoring "+portsOf(vmSet, slices.Collect(maps.Keys(was))), err)
	diags.AddWarning("The port was not restored", strings.TrimSpace(p.title+". "+p.detail)+
		"\n\nTerraform no longer manages it. This is how it was, to be set by hand:"+byHand.String())
	return diags
}

func nothingToRestore(vmSet string, ports []int) diag.Diagnostic {
	return diag.NewWarningDiagnostic("Nothing to restore", upperFirst(portsOf(vmSet, ports))+" came by an import, so Terraform does not know how it was before. "+
		"Destroying the resource leaves it as it is, in spite of on_destroy = \"restore\".")
}

// find reads ports, nil for all of the vm_set, by one request; those that are not in its answer it asks for one by one. With
// shared it may be the request of others who read at the same time, for a refresh. err is the failure to read, or the
// agent's answer for the last of the missing ports.
func find(ctx context.Context, agent *client.Client, vmSet string, ports []int, shared bool) (now map[int]api.Status, missing []int, err error) {
	var all map[int]api.Status
	if shared {
		all, err = agent.Shared(ctx, vmSet)
	} else {
		var muxes api.Muxes
		muxes, err = agent.All(ctx, vmSet)
		all = client.ByPort(muxes)
	}
	if err != nil {
		return nil, ports, err
	}
	if ports == nil {
		return all, nil, nil
	}
	now = make(map[int]api.Status, len(ports))
	for _, port := range ports {
		s, ok := all[port]
		if !ok {
			var serr error
			if s, serr = agent.Status(ctx, vmSet, port); serr != nil {
				missing, err = append(missing, port), serr
				continue
			} // else it came up just now
		}
		now[port] = s
	}
	return now, missing, err
}

// judgeAbsence finds out what an agent means that does not serve some ports: they are truly absent (gone), or there is a
// problem that somebody has to look at. err is its answer for one of them; a failure of any other kind is a problem too.
func judgeAbsence(ctx context.Context, agent *client.Client, vmSet string, ports []int, asked string, err error) (gone bool, p problem) {
	p = explain(asked, err)
	code := client.Code(err)
	switch code {
	case api.CodeUnknownVMSet, api.CodeUnknownPort, api.CodeRejectedMux:
	default:
		return false, p
	}
	if repeated(err) {
		return false, p
	}
	overview, oerr := agent.Overview(ctx)
	switch client.Code(oerr) {
	case "":
	case api.CodeNotFound: // mux_simulator.py has no overview: its answer must do
		return code == api.CodeUnknownPort, p
	default:
		return false, explain("asking the agent for its vm_sets", oerr)
	}

	served, ok := overview.VMSets[vmSet]
	if !ok {
		p.title = "The agent serves another vm_set"
		p.detail = fmt.Sprintf("The agent at %s does not serve %s; it serves %s. Check that endpoint and vm_set belong to the same testbed.\n\n%s",
			agent.Endpoint(), vmSet, strings.Join(slices.Sorted(maps.Keys(overview.VMSets)), ", "), p.detail)
		return false, p
	}
	var rejected []string
	for _, r := range served.Rejected {
		if slices.Contains(ports, r.PortIndex) {
			rejected = append(rejected, fmt.Sprintf("The agent rejects bridge %s of %s: %s.", r.Bridge, portRef{vmSet, r.PortIndex}, r.Reason))
		}
	}
	if rejected != nil {
		return false, problem{"The bridge is not a mux", strings.Join(rejected, "\n") + "\n\n" + p.detail}
	}
	if !served.Ready {
		return false, problem{"The agent is not ready", fmt.Sprintf("The agent has not read %s yet: %s.\n\n%s", vmSet, served.Reason, p.detail)}
	}
	return code == api.CodeUnknownPort, p
}

// cannotReach explains a failure with ports, none for all, that should be there; when there are no such ports, it names those
// there are. doing says what was to be done with them, such as "reading".
func cannotReach(ctx context.Context, agent *client.Client, vmSet string, ports []int, doing string, err error) diag.Diagnostic {
	gone, p := judgeAbsence(ctx, agent, vmSet, ports, doing+" "+portsOf(vmSet, ports), err)
	if gone && len(ports) > 0 {
		if all, err := agent.All(ctx, vmSet); err == nil {
			p.detail = fmt.Sprintf("%s has no port %s. Ports that exist: %s.\n\n%s", vmSet, ranges(ports),
				ranges(slices.Collect(maps.Keys(client.ByPort(all)))), p.detail)
		}
	}
	return diag.NewErrorDiagnostic(p.title, p.detail)
}

func mayHaveLanded(err error) bool {
	if e := (*client.Error)(nil); errors.As(err, &e) {
		return e.MayHaveLanded
	}
	return true
}
