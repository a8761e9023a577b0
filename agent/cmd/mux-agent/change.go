package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// A change is what a command does: to one port, and to all with one request.
type change struct {
	one func(ctx context.Context, port int) (api.Status, error)
	all func(ctx context.Context) (api.Muxes, error)
}

// The sides that a shell offers behind ports.
var (
	torSides = []string{"upper", "lower"}
	allSides = []string{"nic", "upper", "lower"}
)

func newSet() *cobra.Command {
	return newChange(&cobra.Command{
		Use:     "set PORTS SIDE",
		Short:   "Make a side the active one: upper or lower",
		Example: "  mux-agent set 3 lower\n  mux-agent set 0-11,20 upper\n  mux-agent set all upper",
		Args:    cobra.ExactArgs(2),
	}, torSides, func(r *remote, args []string) (change, error) {
		side, err := parseSide(args[0])
		return r.toSide(side), err
	})
}

func newToggle() *cobra.Command {
	return newChange(&cobra.Command{
		Use:     "toggle PORTS",
		Short:   "Switch each port to its other side",
		Example: "  mux-agent toggle 3\n  mux-agent toggle all",
		Args:    cobra.ExactArgs(1),
	}, nil, func(r *remote, _ []string) (change, error) { return r.toSide(api.Toggle), nil })
}

func (r *remote) toSide(side string) change {
	return change{
		one: func(ctx context.Context, port int) (api.Status, error) {
			return r.client.SetSide(ctx, r.vmSet, port, side)
		},
		all: func(ctx context.Context) (api.Muxes, error) { return r.client.SetAllSides(ctx, r.vmSet, side) },
	}
}

func newDrop() *cobra.Command {
	return newChange(&cobra.Command{
		Use:     "drop PORTS SIDES",
		Short:   "Stop packets to the NIC, or from the NIC to a ToR: nic, upper, lower",
		Example: "  mux-agent drop 3 nic\n  mux-agent drop 0-11 upper,lower",
		Args:    cobra.MinimumNArgs(2),
	}, allSides, onSides((*client.Client).Drop, (*client.Client).DropAll))
}

func newOutput() *cobra.Command {
	return newChange(&cobra.Command{
		Use:     "output PORTS SIDES",
		Short:   "Let packets that were dropped pass again: nic, upper, lower",
		Example: "  mux-agent output 3 nic\n  mux-agent output all nic,upper,lower",
		Args:    cobra.MinimumNArgs(2),
	}, allSides, onSides((*client.Client).Output, (*client.Client).OutputAll))
}

// onSides makes the change of a command that names sides, of the client's calls for one port and for all.
func onSides(
	one func(c *client.Client, ctx context.Context, vmSet string, port int, sides ...string) (api.Status, error),
	all func(c *client.Client, ctx context.Context, vmSet string, sides ...string) (api.Muxes, error),
) func(*remote, []string) (change, error) {
	return func(r *remote, args []string) (change, error) {
		sides, err := parseSides(args)
		return change{
			one: func(ctx context.Context, port int) (api.Status, error) {
				return one(r.client, ctx, r.vmSet, port, sides...)
			},
			all: func(ctx context.Context) (api.Muxes, error) { return all(r.client, ctx, r.vmSet, sides...) },
		}, err
	}
}

func newReset() *cobra.Command {
	return newChange(&cobra.Command{
		Use:     "reset PORTS",
		Short:   "Let everything pass again and write the flows anew",
		Example: "  mux-agent reset 3\n  mux-agent reset all",
		Args:    cobra.ExactArgs(1),
	}, nil, func(r *remote, _ []string) (change, error) {
		return change{
			one: func(ctx context.Context, port int) (api.Status, error) { return r.client.Reset(ctx, r.vmSet, port) },
			all: func(ctx context.Context) (api.Muxes, error) { return r.client.ResetAll(ctx, r.vmSet) },
		}, nil
	})
}

// newChange makes a command that changes ports. parse gets the arguments behind them.
func newChange(cmd *cobra.Command, sides []string, parse func(r *remote, args []string) (change, error)) *cobra.Command {
	r, cmd := newPortsCommand(cmd, sides, func(cmd *cobra.Command, r *remote, args []string) error {
		q, err := parseQuery(args[0])
		if err != nil {
			return err
		}
		what, err := parse(r, args[1:])
		if err != nil {
			return err
		}
		before, err := r.ports(cmd.Context(), q)
		if err != nil {
			return err
		}
		if len(before) == 0 && !q.All() {
			return r.nothingToDo(cmd, q)
		}
		if err := r.confirm(cmd, cmd.Name(), q, len(before)); err != nil {
			return err
		}
		var muxes api.Muxes
		var failed map[string]api.Failure
		if q.All() {
			muxes, failed, err = r.doAll(cmd.Context(), what)
		} else {
			muxes, failed = r.do(cmd.Context(), before, what)
		}
		if err != nil {
			return err
		}
		return r.printOutcome(cmd, q, before, muxes, failed)
	})
	r.addYes(cmd)
	return cmd
}

// nothingToDo is for a query that is right, and names no port.
func (r *remote) nothingToDo(cmd *cobra.Command, q api.PortQuery) error {
	if r.json {
		return printJSON(cmd, api.Muxes{})
	}
	return newScreen(cmd.OutOrStdout()).printf("no port of %s is \"%s\": nothing to do\n", r.vmSet, q)
}

// printOutcome tells what became of ports, and which failed.
func (r *remote) printOutcome(cmd *cobra.Command, q api.PortQuery, before []api.Status, muxes api.Muxes, failed map[string]api.Failure) error {
	var err error
	switch {
	case !r.json:
		err = printChanges(newScreen(cmd.OutOrStdout()), before, muxes)
	case len(failed) == 0:
		err = printJSON(cmd, muxes)
	}
	complaints := newScreen(cmd.ErrOrStderr())
	if q.All() {
		r.nameRejected(cmd.Context(), complaints)
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	for _, bridge := range slices.SortedFunc(maps.Keys(failed), byIndex) {
		_ = complaints.printf("%s %s\n", complaints.paint(red, bridge+":"), failed[bridge].ErrMsg)
	}
	return reportedError{fmt.Errorf("%d of %s failed", len(failed), countPorts(len(before))), report{Failed: failed, Muxes: muxes}}
}

// nameRejected names the bridges that a change of all ports did not concern. mux_simulator.py tells of none.
func (r *remote) nameRejected(ctx context.Context, out screen) {
	overview, err := r.client.Overview(ctx)
	if err != nil {
		return
	}
	for _, b := range overview.VMSets[r.vmSet].Rejected {
		_ = out.printf("%s %s\n", out.paint(yellow, b.Bridge+" was left out, it is not a usable mux:"), b.Reason)
	}
}

// doAll changes all ports by one request, and returns their status, and by bridge why one failed.
func (r *remote) doAll(ctx context.Context, what change) (api.Muxes, map[string]api.Failure, error) {
	muxes, err := what.all(ctx)
	e := (*client.Error)(nil)
	if !errors.As(err, &e) || e.Code != api.CodePartial {
		return muxes, nil, err
	}
	return e.Muxes, e.Failed, nil
}

// do changes ports one by one, all at once.
func (r *remote) do(ctx context.Context, ports []api.Status, what change) (muxes api.Muxes, failed map[string]api.Failure) {
	muxes, failed = api.Muxes{}, map[string]api.Failure{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, port := range ports {
		all.Go(func() {
			status, err := what.one(ctx, port.PortIndex)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[port.Bridge] = r.failure(err)
				return
			}
			muxes[status.Bridge] = status
		})
	}
	all.Wait()
	return muxes, failed
}

// failure says why one port failed, in the API's form.
func (r *remote) failure(err error) api.Failure {
	code := client.Code(err)
	passes := code == client.CodeTimeout || code == client.CodeUnreachable || code == api.CodeNotReady
	return api.Failure{Code: code, ErrMsg: r.explain(err).Error(), Retryable: passes}
}

// fewPorts is how many are shown one by one.
const fewPorts = 24

func printChanges(out screen, before []api.Status, after api.Muxes) error {
	was := map[string]api.Status{}
	for _, s := range before {
		was[s.Bridge] = s
	}
	now := byPort(after)
	for _, s := range now {
		if len(now) <= fewPorts {
			_ = out.printf("port %d: %s%s\n", s.PortIndex, out.paint(sidePaint(s.ActiveSide), describe(s)), out.paint(faint, difference(was[s.Bridge], s)))
		}
	}
	if len(now) == 1 {
		return nil
	}
	return out.printf("%s\n", totals(now))
}

func describe(s api.Status) string {
	if dropped := s.DroppedSides(); len(dropped) > 0 {
		return s.ActiveSide + ", dropped " + strings.Join(dropped, ",")
	}
	return s.ActiveSide
}

func difference(was, is api.Status) string {
	if before := describe(was); was.Bridge != "" && before != describe(is) {
		return " (was " + before + ")"
	}
	return " (as it was)"
}

// byIndex orders names by the number at their end.
func byIndex(a, b string) int {
	number := func(s string) int {
		n, _ := strconv.Atoi(s[strings.LastIndexAny(s, "- ")+1:])
		return n
	}
	return number(a) - number(b)
}
