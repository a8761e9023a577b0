package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// A testbed is a vm_set, its agent, and what this run did with its ports.
type testbed struct {
	agent *client.Client
	vmSet string
	run   *run
}

func (b testbed) at(port int) place { return place{b.agent.Endpoint(), b.vmSet, port} }

// key names the testbed, for run.
func (b testbed) key() string { return b.agent.Endpoint() + " " + b.vmSet }

// settleDelay is how long a port that was switched back at once is left alone before it is looked at again.
const settleDelay = 300 * time.Millisecond

// set brings ports to the desired state and makes sure that they are in it; those to mend have to be mended, too. Those that
// differ right after the write are looked at again, then written once more by a call of its own, and then they are a
// *mismatchError. All other failures are the client's, of a write or of a look. It returns the last known status of each port,
// as far as there is one, and whether a write has been done, also when it fails.
func (b testbed) set(ctx context.Context, want map[int]api.Desired, mend []int) (now map[int]api.Status, wrote bool, err error) {
	now = map[int]api.Status{}
	open := maps.Clone(want)
	maps.DeleteFunc(open, func(_ int, d api.Desired) bool { return isNothing(d) })
	done := func(port int, d api.Desired) bool {
		s, ok := now[port]
		return ok && settled(s, d, slices.Contains(mend, port))
	}
	for try := 1; len(open) > 0; try++ {
		got, err := b.agent.SetPorts(ctx, b.vmSet, open)
		maps.Copy(now, got)
		if err != nil {
			return now, wrote, err
		}
		wrote = true
		if maps.DeleteFunc(open, done); len(open) == 0 {
			break
		}
		mismatch := &mismatchError{want: open, got: now}
		tflog.Info(ctx, "mux ports differ from what was just set", map[string]any{"vm_set": b.vmSet, "difference": mismatch.Error()})
		select {
		case <-ctx.Done():
			return now, wrote, mismatch
		case <-time.After(settleDelay):
		}
		all, err := b.agent.All(ctx, b.vmSet)
		if err != nil {
			return now, wrote, err // nobody else tells of it
		}
		maps.Copy(now, client.ByPort(all))
		if maps.DeleteFunc(open, done); try == 2 && len(open) > 0 {
			return now, wrote, mismatch
		}
	}
	return now, wrote, nil
}

// A mismatchError is ports that the agent reports otherwise than they were just set.
type mismatchError struct {
	want map[int]api.Desired
	got  map[int]api.Status
}

func (e *mismatchError) Error() string {
	var parts []string
	for _, port := range slices.Sorted(maps.Keys(e.want)) {
		parts = append(parts, e.of(port)...)
	}
	return strings.Join(parts, "; ")
}

// of says how a port differs.
func (e *mismatchError) of(port int) (parts []string) {
	want, got := e.want[port], e.got[port]
	if want.ActiveSide != nil && *want.ActiveSide != got.ActiveSide {
		parts = append(parts, fmt.Sprintf("port %d: asked for %s, the agent reports %s", port, *want.ActiveSide, got.ActiveSide))
	}
	if dropped := droppedSides(got); want.Dropped != nil && !sameSides(*want.Dropped, dropped) {
		parts = append(parts, fmt.Sprintf("port %d: asked for dropped %q, the agent reports %q", port, *want.Dropped, dropped))
	}
	if words := complaint(got); words != "" {
		parts = append(parts, fmt.Sprintf("port %d: %s", port, words))
	}
	return parts
}

// stays reports whether all ports are as they were set, so that only their health is wrong.
func (e *mismatchError) stays() bool {
	for port, want := range e.want {
		if !satisfies(e.got[port], want) {
			return false
		}
	}
	return true
}

// find reads all ports by one request, and the only one of ports by itself; the given ones that are not in the answer it asks
// for one by one. With shared it may be the request of others who read at the same time, for a refresh. err is the failure to
// read, then all is nil and none of ports is known of; or it is the agent's answer for one of those that are missing, a rejected
// one if there is any. all must not be changed.
func (b testbed) find(ctx context.Context, ports []int, shared bool) (all map[int]api.Status, missing []int, err error) {
	switch {
	case shared:
		all, err = b.agent.Shared(ctx, b.vmSet)
	case len(ports) == 1: // not a thousand statuses for each of a thousand resources
		all = map[int]api.Status{}
	default:
		var muxes api.Muxes
		muxes, err = b.agent.All(ctx, b.vmSet)
		all = client.ByPort(muxes)
	}
	if err != nil {
		return nil, ports, err
	}
	for _, port := range ports {
		if _, ok := all[port]; ok {
			continue
		}
		s, portErr := b.agent.Status(ctx, b.vmSet, port)
		switch client.Code(portErr) {
		case "":
			all = maps.Clone(all) // it came up just now, and others have the answer as well
			all[port] = s
		case api.CodeUnknownPort, api.CodeRejectedMux:
			missing = append(missing, port)
			if client.Code(err) != api.CodeRejectedMux {
				err = portErr
			}
		default:
			return nil, ports, portErr
		}
	}
	return all, missing, err
}

// judgeAbsence finds out what an agent means that does not serve some ports: they are truly absent (gone), or there is a
// problem that somebody has to look at. err is its answer for one of them; a failure of any other kind is a problem too.
func (b testbed) judgeAbsence(ctx context.Context, ports []int, asked string, err error) (gone bool, p problem) {
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
	overview, oerr := b.agent.Overview(ctx)
	switch client.Code(oerr) {
	case "":
	case api.CodeNotFound: // mux_simulator.py has no overview: its answer must do
		return code == api.CodeUnknownPort, p
	default:
		return false, explain("asking the agent for its vm_sets", oerr)
	}

	served, ok := overview.VMSets[b.vmSet]
	if !ok {
		p.title = "The agent serves another vm_set"
		p.detail = fmt.Sprintf("The agent at %s does not serve %s; it serves %s.\n\n%s",
			b.agent.Endpoint(), b.vmSet, api.Printable(strings.Join(slices.Sorted(maps.Keys(overview.VMSets)), ", ")), p.detail)
		return false, p
	}
	var rejected []string
	for _, r := range served.Rejected {
		if slices.Contains(ports, r.PortIndex) {
			rejected = append(rejected, api.Printable(fmt.Sprintf("The agent rejects bridge %s of %s: %s.", r.Bridge, portRef{b.vmSet, r.PortIndex}, r.Reason)))
		}
	}
	if rejected != nil {
		p.title, p.detail = "The bridge is not a usable mux", strings.Join(rejected, "\n")+"\n\n"+p.detail
		return false, p
	}
	if !served.Ready {
		p.title, p.detail = "The agent is not ready", api.Printable(fmt.Sprintf("The agent has not read %s yet: %s.", b.vmSet, served.Reason))+"\n\n"+p.detail
		return false, p
	}
	return code == api.CodeUnknownPort, p
}

// cannotReach explains a failure with ports, none for all, that should be there; when there are no such ports, it names those
// there are. doing says what was to be done with them, such as "reading".
func (b testbed) cannotReach(ctx context.Context, ports []int, doing string, err error) problem {
	gone, p := b.judgeAbsence(ctx, ports, doing+" "+portsOf(b.vmSet, ports), err)
	if gone && len(ports) > 0 {
		if all, ok := b.agent.Glance(ctx, b.vmSet); ok {
			p.detail = fmt.Sprintf("%s has no %s. Ports that exist: %s.\n\n%s", b.vmSet, indexes(ports), ranges(slices.Collect(maps.Keys(all))), p.detail)
		}
	}
	return p
}

// refusals returns why an agent did not change ports, by port, as far as it says so.
func refusals(err error) map[int]api.Failure {
	refused := map[int]api.Failure{}
	e := (*client.Error)(nil)
	if !errors.As(err, &e) {
		return refused
	}
	for name, f := range e.Failed { // a bridge, or the "port 3" of a service that sets one after the other
		if port, err := strconv.Atoi(name[strings.LastIndexFunc(name, notDigit)+1:]); err == nil {
			refused[port] = f
		}
	}
	return refused
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// mayHaveLanded reports whether a write may have changed ports of which it says that it failed.
func mayHaveLanded(err error, failed []int) bool {
	e := (*client.Error)(nil)
	if !errors.As(err, &e) {
		return true
	}
	refused := refusals(err)
	surely := slices.ContainsFunc(failed, func(port int) bool {
		return refused[port].Code != api.CodeSwitch && refused[port].Code != api.CodeUnknownPort
	})
	return e.MayHaveLanded && surely
}
