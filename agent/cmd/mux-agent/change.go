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

func newSet() *cobra.Command {
	return newChange(&cobra.Command{
		Use:               "set PORTS SIDE",
		Short:             "Make a side the active one: upper or lower",
		Example:           "  mux-agent set 3 lower\n  mux-agent set 0-11,20 upper\n  mux-agent set all upper",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeSides("upper", "lower"),
	}, func(r *remote, args []string) (change, error) {
		side, err := parseSide(args[0])
		return r.toSide(side), err
	})
}

func newToggle() *cobra.Command {
	return newChange(&cobra.Command{
		Use:               "toggle PORTS",
		Short:             "Switch each port to its other side",
		Example:           "  mux-agent toggle 3\n  mux-agent toggle all",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePorts,
	}, func(r *remote, _ []string) (change, error) { return r.toSide(api.Toggle), nil })
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
		Use:               "drop PORTS SIDES",
		Short:             "Stop packets to the NIC, or from the NIC to a ToR: nic, upper, lower",
		Example:           "  mux-agent drop 3 nic\n  mux-agent drop 0-11 upper,lower",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeSides("nic", "upper", "lower"),
	}, onSides((*client.Client).Drop, (*client.Client).DropAll))
}

func newOutput() *cobra.Command {
	return newChange(&cobra.Command{
		Use:               "output PORTS SIDES",
		Short:             "Let packets that were dropped pass again: nic, upper, lower",
		Example:           "  mux-agent output 3 nic\n  mux-agent output all nic,upper,lower",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeSides("nic", "upper", "lower"),
	}, onSides((*client.Client).Output, (*client.Client).OutputAll))
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
		Use:               "reset PORTS",
		Short:             "Let everything pass again and write the flows anew",
		Example:           "  mux-agent reset 3\n  mux-agent reset all",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePorts,
	}, func(r *remote, _ []string) (change, error) {
		return change{
			one: func(ctx context.Context, port int) (api.Status, error) { return r.client.Reset(ctx, r.vmSet, port) },
			all: func(ctx context.Context) (api.Muxes, error) { return r.client.ResetAll(ctx, r.vmSet) },
		}, nil
	})
}

// newChange makes a command whose first argument is ports. parse gets the others.
func newChange(cmd *cobra.Command, parse func(r *remote, args []string) (change, error)) *cobra.Command {
	return newRemoteCommand(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		list, err := parsePorts(args[0])
		if err != nil {
			return err
		}
		what, err := parse(r, args[1:])
		if err != nil {
			return err
		}
		before, err := r.ports(cmd.Context(), list)
		if err != nil {
			return err
		}
		muxes, failed, err := r.do(cmd.Context(), list, what)
		if err != nil {
			return err
		}
		if r.json {
			err = printJSON(cmd, muxes)
		} else {
			err = printChanges(newScreen(cmd.OutOrStdout()), before, muxes)
		}
		complaints := newScreen(cmd.ErrOrStderr())
		if list == nil {
			r.nameRejected(cmd.Context(), complaints)
		}
		if err != nil || len(failed) == 0 {
			return err
		}
		for _, bridge := range slices.SortedFunc(maps.Keys(failed), byIndex) {
			_ = complaints.printf("%s %s\n", complaints.paint(red, bridge+":"), failed[bridge])
		}
		return fmt.Errorf("%d of %d ports failed", len(failed), len(before))
	})
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

// do changes the ports of a list, and returns their status, and by bridge why one failed.
func (r *remote) do(ctx context.Context, list api.PortList, what change) (muxes api.Muxes, failed map[string]string, err error) {
	failed = map[string]string{}
	if list == nil {
		muxes, err = what.all(ctx)
		e := (*client.Error)(nil)
		if !errors.As(err, &e) || e.Code != api.CodePartial {
			return muxes, failed, err
		}
		for bridge, f := range e.Failed {
			failed[bridge] = f.ErrMsg
		}
		return e.Muxes, failed, nil
	}
	muxes = api.Muxes{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, port := range list {
		all.Go(func() {
			status, err := what.one(ctx, port)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[fmt.Sprintf("port %d", port)] = r.explain(err).Error()
				return
			}
			muxes[status.Bridge] = status
		})
	}
	all.Wait()
	return muxes, failed, nil
}

// fewPorts is how many are shown one by one.
const fewPorts = 24

func printChanges(out screen, before []api.Status, after api.Muxes) error {
	was := map[string]api.Status{}
	for _, s := range before {
		was[s.Bridge] = s
	}
	now := pick(nil, after)
	sides, dropped := map[string]int{}, 0
	for _, s := range now {
		sides[s.ActiveSide]++
		if len(s.DroppedSides()) > 0 {
			dropped++
		}
		if len(now) <= fewPorts {
			_ = out.printf("port %d: %s%s\n", s.PortIndex, out.paint(sidePaint(s.ActiveSide), describe(s)), out.paint(faint, difference(was[s.Bridge], s)))
		}
	}
	if len(now) == 1 {
		return nil
	}
	summary := fmt.Sprintf("%d ports: %d %s, %d %s", len(now), sides[api.UpperToR], api.UpperToR, sides[api.LowerToR], api.LowerToR)
	if dropped > 0 {
		summary += fmt.Sprintf("; %d with drops", dropped)
	}
	return out.printf("%s\n", summary)
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
