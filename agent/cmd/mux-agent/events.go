package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

func newHistory() *cobra.Command {
	since := time.Duration(0)
	_, cmd := newPortsCommand(&cobra.Command{
		Use:   "history [PORTS]",
		Short: "Show what happened to ports: when, why, by whom",
		Long: `history lists what happened to the ports, the latest last: when, to which side, in what state they were then, by whom,
and how long it took. The agent keeps the last 100 events of a port; without PORTS it tells the last 1,000 of all.

With --output wide each line has the state before and after in full, and the request id.`,
		Example: "  mux-agent history 3\n  mux-agent history --since 10m\n  mux-agent history unhealthy -o wide",
		Args:    cobra.MaximumNArgs(1),
	}, nil, func(cmd *cobra.Command, r *remote, args []string) error {
		if since < 0 {
			return usageError{fmt.Errorf("--since %v: want a time such as 10m", since)}
		}
		q, err := queryArg(args)
		if err != nil {
			return err
		}
		events, err := r.history(cmd.Context(), q)
		if err != nil {
			return err
		}
		if since > 0 {
			from := time.Now().Add(-since)
			events = slices.DeleteFunc(events, func(ev api.Event) bool { return ev.Time.Before(from) })
		}
		if r.json {
			return printJSON(cmd, api.History{Events: events})
		}
		out := newScreen(cmd.OutOrStdout())
		if r.wide {
			return out.table(wideHistory(events))
		}
		return out.table(fit(narrowHistory(events), 3, 4))
	})
	cmd.Flags().DurationVar(&since, "since", 0, "only what happened in this `time` until now by the clock of this machine, such as 10m; 0 is all that the agent keeps")
	return cmd
}

// history reads the events of ports, oldest first. Those of a port that is named by its index can be read also when its bridge is
// gone.
func (r *remote) history(ctx context.Context, q api.PortQuery) ([]api.Event, error) {
	if q.All() {
		return r.client.History(ctx, r.vmSet)
	}
	list, named := q.Indexes()
	if !named {
		ports, err := r.ports(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, s := range ports {
			list = append(list, s.PortIndex)
		}
	}
	events := []api.Event{}
	for _, port := range list {
		its, err := r.client.PortHistory(ctx, r.vmSet, port)
		if err != nil {
			return nil, err
		}
		events = append(events, its...)
	}
	slices.SortFunc(events, func(a, b api.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events, nil
}

func wideHistory(events []api.Event) [][]cell {
	rows := [][]cell{header("TIME", "PORT", "FROM", "TO", "BY", "TOOK", "REQUEST")}
	for _, ev := range events {
		rows = append(rows, []cell{
			{ev.Time.Local().Format(time.DateTime), plain},
			{strconv.Itoa(ev.PortIndex), bold},
			conditionCell(ev.From), conditionCell(ev.To),
			{who(ev), plain},
			{took(ev), plain},
			{orDash(ev.ReqID), faint},
		})
	}
	return rows
}

func narrowHistory(events []api.Event) [][]cell {
	rows := [][]cell{header("TIME", "PORT", "SIDE", "STATE", "BY", "TOOK")}
	for _, ev := range events {
		side, state := "no mux", cell{"-", faint}
		if ev.To != nil {
			side, state = ev.To.ActiveSide, stateCell(ev.To)
		}
		paint := sidePaint(side)
		if ev.From != nil && (ev.To == nil || ev.From.ActiveSide != ev.To.ActiveSide) {
			side = "→ " + side
		}
		rows = append(rows, []cell{
			{ev.Time.Local().Format("01-02 15:04:05"), plain},
			{strconv.Itoa(ev.PortIndex), bold},
			{side, paint},
			state,
			{who(ev), plain},
			{took(ev), plain},
		})
	}
	return rows
}

// stateCell says in few words what is to be known of a mux beside its side.
func stateCell(c *api.MuxState) cell {
	words := []string{}
	if code := cmp.Or(c.ReasonCode, c.Reason); code != "" {
		words = append(words, code)
	}
	if len(c.Dropped) > 0 {
		words = append(words, "drops "+short(c.Dropped))
	}
	switch {
	case len(words) == 0 && c.Healthy:
		return cell{"ok", green}
	case len(words) == 0:
		return cell{"unhealthy", red}
	case c.Healthy:
		return cell{strings.Join(words, ", "), yellow}
	}
	return cell{strings.Join(words, ", "), red}
}

func newWatch() *cobra.Command {
	r, cmd := newPortsCommand(&cobra.Command{
		Use:   "watch [PORTS]",
		Short: "Print every change as it happens, until Ctrl-C",
		Long: `watch prints a line for every change of the ports, until it is interrupted. It waits for an agent that goes away, and
says so. With --json each line is an event as the API has it.`,
		Example: "  mux-agent watch\n  mux-agent watch 0-11 --json",
		Args:    cobra.MaximumNArgs(1),
	}, nil, func(cmd *cobra.Command, r *remote, args []string) error {
		q, err := queryArg(args)
		if err != nil {
			return err
		}
		list, named := q.Indexes()
		if !named && !q.All() {
			return usageError{fmt.Errorf("watch %q: name the ports by their indexes, such as 0-11,20; what they do changes while one watches", q)}
		}
		out, complaints := newScreen(cmd.OutOrStdout()), newScreen(cmd.ErrOrStderr())
		lost := false
		return r.client.Follow(cmd.Context(), r.vmSet, func(n client.Notice) {
			switch {
			case n.Connected && lost:
				_ = complaints.printf("%s\n", complaints.paint(green, "the agent is back"))
				lost = false
			case n.Connected:
				_ = complaints.printf("watching vm_set %s at %s\n", r.vmSet, r.endpoint)
			case n.Missed:
				_ = complaints.printf("%s\n", complaints.paint(yellow, "some changes were missed, since the agent was away; mux-agent status shows what is"))
			case n.Lost != nil && !lost:
				_ = complaints.printf("%s\n", complaints.paint(yellow, r.explain(n.Lost).Error()+"; trying again"))
				lost = true
			case n.Change != nil && (q.All() || list.Has(n.Change.PortIndex)):
				printEvent(out, *n.Change, r.json)
			}
		})
	})
	r.stream = true
	return cmd
}

func printEvent(out screen, ev api.Event, asJSON bool) {
	if asJSON {
		_ = out.json(ev, "")
		return
	}
	from, to := conditionCell(ev.From), conditionCell(ev.To)
	_ = out.printf("%s  %s  %s → %s  %s\n",
		out.paint(faint, ev.Time.Local().Format("15:04:05.000")), out.paint(bold, "port "+strconv.Itoa(ev.PortIndex)),
		out.paint(from.paint, from.text), out.paint(to.paint, to.text),
		out.paint(faint, strings.Join([]string{who(ev), took(ev), ev.ReqID}, " ")))
}

func conditionCell(c *api.MuxState) cell {
	if c == nil {
		return cell{"no mux", faint}
	}
	text := c.ActiveSide
	if len(c.Dropped) > 0 {
		text += ", dropped " + strings.Join(c.Dropped, ",")
	}
	if c.Reason != "" {
		return cell{text + ": " + c.Reason, red}
	}
	return cell{text, sidePaint(c.ActiveSide)}
}

// who says by whom, or by what, a mux was changed.
func who(ev api.Event) string {
	switch {
	case ev.Cause == api.CauseAPI:
		return orDash(cmp.Or(ev.By, ev.Client))
	case ev.Cause == api.CauseExternal && ev.From == nil:
		return "found"
	case ev.Cause == api.CauseExternal:
		return "somebody on the switch"
	case ev.Cause == api.CauseRecovery:
		return "the agent's repair"
	case ev.Cause == api.CauseOutage:
		return "an outage"
	}
	return string(ev.Cause)
}

func took(ev api.Event) string {
	if ev.TookUS == 0 {
		return "-"
	}
	if ev.TookUS < 1000 {
		return fmt.Sprintf("%dµs", ev.TookUS)
	}
	return fmt.Sprintf("%.1fms", float64(ev.TookUS)/1000)
}

func newWait() *cobra.Command {
	_, cmd := newPortsCommand(&cobra.Command{
		Use:   "wait PORTS SIDE",
		Short: "Wait until a side is the active one; exit code 3 when it is not in time",
		Long: `wait returns once the side is the active one of all the ports. When the time is over it names the ports that have the
other side, and the exit code is 3.`,
		Example: "  mux-agent wait 3 lower --timeout 10s && echo switched\n  mux-agent wait 0-11,20 upper",
		Args:    cobra.ExactArgs(2),
	}, torSides, func(cmd *cobra.Command, r *remote, args []string) error {
		q, err := parseQuery(args[0])
		if err != nil {
			return err
		}
		side, err := parseSide(args[1])
		if err != nil {
			return err
		}
		list, named := q.Indexes()
		if !named {
			ports, err := r.ports(cmd.Context(), q)
			if err != nil {
				return err
			}
			for _, s := range ports {
				list = append(list, s.PortIndex)
			}
		}
		seen, failed := r.wait(cmd.Context(), list, side)
		return r.printWait(cmd, list, seen, failed)
	})
	cmd.Flags().Lookup("timeout").Usage = "how long to wait"
	return cmd
}

// waitsAtOnce is how many ports are waited for at the same time: an agent lets one client have 256 connections.
const waitsAtOnce = 128

// wait returns the ports as they were seen last, and why some did not get the side in time.
func (r *remote) wait(ctx context.Context, list api.PortList, side string) (seen []api.Status, failed map[int]error) {
	failed = map[int]error{}
	deadline := time.Now().Add(r.timeout)
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(waitsAtOnce)
	for _, port := range list {
		all.Go(func() error {
			left := r.timeout
			if len(list) > waitsAtOnce {
				left = max(time.Until(deadline), 0)
			}
			status, err := r.client.WaitForSide(ctx, r.vmSet, port, side, left)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[port] = err
			}
			if status.Bridge != "" {
				seen = append(seen, status)
			}
			return nil
		})
	}
	_ = all.Wait() // each failure is kept by its port
	return seen, failed
}

func (r *remote) printWait(cmd *cobra.Command, list api.PortList, seen []api.Status, failed map[int]error) error {
	if len(list) == 1 { // as the API answers for one
		for _, err := range failed {
			return reportedError{err, report{Muxes: byBridge(seen)}}
		}
		if r.json {
			return printJSON(cmd, seen[0])
		}
		return newScreen(cmd.OutOrStdout()).printf("port %d: %s\n", seen[0].PortIndex, describe(seen[0]))
	}
	muxes := byBridge(seen)
	if len(failed) == 0 {
		if r.json {
			return printJSON(cmd, muxes)
		}
		return newScreen(cmd.OutOrStdout()).printf("%s\n", totals(byPort(muxes)))
	}
	code := exitFound
	complaints := newScreen(cmd.ErrOrStderr())
	said := report{Failed: map[string]api.Failure{}, Muxes: muxes}
	for _, port := range slices.Sorted(maps.Keys(failed)) {
		why := r.failure(failed[port])
		if why.Code == api.CodeNotReached { // its words begin with the port
			_ = complaints.printf("%s\n", complaints.paint(red, why.ErrMsg))
		} else {
			code = 1
			_ = complaints.printf("%s %s\n", complaints.paint(red, fmt.Sprintf("port %d:", port)), why.ErrMsg)
		}
		name := fmt.Sprintf("port %d", port)
		for bridge, s := range muxes {
			if s.PortIndex == port {
				name = bridge
			}
		}
		said.Failed[name] = why
	}
	return reportedError{exitError{code, fmt.Errorf("%d of %s did not have the side in time", len(failed), countPorts(len(list)))}, said}
}
