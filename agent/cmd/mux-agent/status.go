package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

func newStatus() *cobra.Command {
	var unhealthy bool
	_, cmd := newPortsCommand(&cobra.Command{
		Use:   "status [PORTS]",
		Short: "Show which side is active, since when, and who changed it",
		Long: `status lists the ports with their active side, their health, what is dropped, how often they flapped, when they were
last changed and by whom, and the bridges that are named like a mux but are not a usable one. The last line counts them. With
--output wide it has the interfaces too.

With --unhealthy it lists only what is not healthy, and the exit code is 3 when there is any.`,
		Example: "  mux-agent status\n  mux-agent status 0-11,20\n  mux-agent status lower\n  mux-agent status --unhealthy -o json",
		Args:    cobra.MaximumNArgs(1),
	}, nil, func(cmd *cobra.Command, r *remote, args []string) error {
		q, err := queryArg(args)
		if err != nil {
			return err
		}
		ports, err := r.ports(cmd.Context(), q)
		if err != nil {
			return err
		}
		rejected, err := r.rejected(cmd.Context(), q)
		if err != nil {
			return err
		}
		total := len(ports)
		if unhealthy {
			ports = slices.DeleteFunc(ports, func(s api.Status) bool { return s.Healthy })
		}
		bad := unhealthy && len(ports)+len(rejected) > 0
		switch {
		case !r.json:
			nothing := fmt.Sprintf("no port of %s is \"%s\"", r.vmSet, q)
			switch {
			case total > 0:
				nothing = fmt.Sprintf("%s, none of them unhealthy", countPorts(total))
			case q.All():
				nothing = r.vmSet + " has no ports"
			}
			err = r.printStatus(cmd, ports, rejected, nothing)
		case !bad: // else the report has it
			err = printJSON(cmd, byBridge(ports))
		}
		if err != nil || !bad {
			return err
		}
		why := fmt.Errorf("%d of %s are unhealthy, %s", len(ports), countPorts(total), notUsable(len(rejected)))
		return reportedError{exitError{exitFound, why}, report{Muxes: byBridge(ports), Rejected: rejected}}
	})
	cmd.Flags().BoolVar(&unhealthy, "unhealthy", false, "only what is not healthy; exit code 3 when there is any")
	return cmd
}

// rejected reads the bridges that are named like a mux but are not a usable one, of a query that names ports by their indexes or all.
func (r *remote) rejected(ctx context.Context, q api.PortQuery) ([]api.Rejected, error) {
	overview, err := r.client.Overview(ctx)
	if err != nil && client.Code(err) != api.CodeNotFound { // mux_simulator.py does not have it
		return nil, err
	}
	list, named := q.Indexes()
	return slices.DeleteFunc(overview.VMSets[r.vmSet].Rejected, func(b api.Rejected) bool {
		return !q.All() && (!named || !list.Has(b.PortIndex))
	}), nil
}

// printStatus prints a table, or what stands for one that would be empty.
func (r *remote) printStatus(cmd *cobra.Command, ports []api.Status, rejected []api.Rejected, nothing string) error {
	events, err := r.client.History(cmd.Context(), r.vmSet)
	if err != nil && client.Code(err) != api.CodeNotFound { // mux_simulator.py does not have it
		return err
	}
	last := map[string]api.Event{}
	for _, ev := range events {
		last[ev.Bridge] = ev
	}
	out := newScreen(cmd.OutOrStdout())
	if len(ports)+len(rejected) == 0 {
		return out.printf("%s\n", nothing)
	}
	rows := statusRows(ports, last, r.wide)
	if !r.wide {
		rows = fit(rows, 3, 6)
	}
	if err := out.table(rows); err != nil {
		return err
	}
	for _, s := range ports {
		for _, c := range conditionsOf(s) {
			paint := red
			if !api.Unhealthy(c.Code) && s.Healthy {
				paint = yellow
			}
			out.note(paint, fmt.Sprintf("port %d:", s.PortIndex), c.Reason)
		}
	}
	for _, b := range rejected {
		out.note(red, fmt.Sprintf("bridge %s is not a usable mux:", b.Bridge), b.Reason)
	}
	summary := totals(ports)
	if len(rejected) > 0 {
		summary += fmt.Sprintf("; %d rejected", len(rejected))
	}
	return out.printf("%s\n", summary)
}

func statusRows(ports []api.Status, last map[string]api.Event, wide bool) [][]cell {
	head := header("PORT", "SIDE", "HEALTH", "DROPPED", "FLAPS", "CHANGED", "BY")
	if wide {
		head = append(head, header("NIC", "UPPER", "LOWER")...)
	}
	rows := [][]cell{head}
	for _, s := range ports {
		health := cell{"ok", green}
		if !s.Healthy {
			health = cell{"unhealthy", red}
		}
		changed, by := "-", "-"
		if ev, ok := last[s.Bridge]; ok {
			changed, by = ago(ev.Time), who(ev)
		}
		dropped := short(s.DroppedSides())
		if wide {
			dropped = strings.Join(s.DroppedSides(), ",")
		}
		row := []cell{
			{strconv.Itoa(s.PortIndex), bold},
			{s.ActiveSide, sidePaint(s.ActiveSide)},
			health,
			{orDash(dropped), purple},
			{strconv.Itoa(s.FlapCounter), plain},
			{changed, plain},
			{by, plain},
		}
		if wide {
			row = append(row, cell{s.Ports.NIC, faint}, cell{s.Ports.UpperToR, faint}, cell{s.Ports.LowerToR, faint})
		}
		rows = append(rows, row)
	}
	return rows
}

// short lists sides as the command line takes them.
func short(sides []string) string { return strings.ReplaceAll(strings.Join(sides, ","), "_tor", "") }

// conditionsOf returns what is to be known of a mux; of an agent before 0.2.0 the one reason that it gives.
func conditionsOf(s api.Status) []api.Condition {
	if s.Conditions == nil && s.Reason != "" {
		return []api.Condition{{Code: s.ReasonCode, Reason: s.Reason}}
	}
	return s.Conditions
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func newCounters() *cobra.Command {
	var zero bool
	r, cmd := newPortsCommand(&cobra.Command{
		Use:     "counters [PORTS]",
		Short:   "Show, or clear, how often each port flapped",
		Example: "  mux-agent counters\n  mux-agent counters 0-11 --clear",
		Args:    cobra.MaximumNArgs(1),
	}, nil, func(cmd *cobra.Command, r *remote, args []string) error {
		q, err := queryArg(args)
		if err != nil {
			return err
		}
		ports, err := r.ports(cmd.Context(), q)
		if err != nil {
			return err
		}
		if zero && len(ports) > 0 {
			if err := r.confirm(cmd, "clear the counters of", q, len(ports)); err != nil {
				return err
			}
			var which []int // all, when there are none
			for _, s := range ports {
				if !q.All() {
					which = append(which, s.PortIndex)
				}
			}
			if _, err := r.client.ClearFlapCounters(cmd.Context(), r.vmSet, which...); err != nil {
				return err
			}
			for i := range ports {
				ports[i].FlapCounter = 0
			}
		}
		if r.json {
			counters := map[string]int{}
			for _, s := range ports {
				counters[s.Bridge] = s.FlapCounter
			}
			return printJSON(cmd, counters)
		}
		rows := [][]cell{header("PORT", "BRIDGE", "FLAPS")}
		for _, s := range ports {
			rows = append(rows, []cell{{strconv.Itoa(s.PortIndex), bold}, {s.Bridge, faint}, {strconv.Itoa(s.FlapCounter), plain}})
		}
		return newScreen(cmd.OutOrStdout()).table(rows)
	})
	cmd.Flags().BoolVar(&zero, "clear", false, "set them to 0")
	r.addYes(cmd)
	return cmd
}

func newReload() *cobra.Command {
	r, cmd := addRemoteCommand(&cobra.Command{
		Use:   "reload",
		Short: "Have the agent read the switch anew and repair it, as at a start",
		Long: `reload has the agent look for the bridges of the testbed again, and write the flows of each mux that is not a proper
cable. That ends drops too, unless the agent runs with --keep-drops. Flap counters stay.

Settings of the agent are not read again: systemctl reload does that for tokens and certificates, and opens the log anew.`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, r *remote, _ []string) error {
		q, err := parseQuery("all")
		if err != nil {
			return err
		}
		before, err := r.ports(cmd.Context(), q)
		if err != nil {
			return err
		}
		if err := r.confirm(cmd, "reload", q, len(before)); err != nil {
			return err
		}
		muxes, failed, err := r.doAll(cmd.Context(), change{all: func(ctx context.Context) (api.Muxes, error) { return r.client.Reload(ctx, r.vmSet) }})
		if err != nil {
			return err
		}
		return r.printOutcome(cmd, q, before, muxes, failed)
	})
	r.addYes(cmd)
	return cmd
}

func newLog() *cobra.Command {
	return newRemoteCommand(&cobra.Command{
		Use:     "log MESSAGE",
		Short:   "Write a message into the agent's log",
		Long:    `log writes a message into the agent's log, so that what a test did stands between what happened to the ports.`,
		Example: "  mux-agent log 'test_heartbeat starts'",
		Args:    cobra.MinimumNArgs(1),
	}, func(cmd *cobra.Command, r *remote, args []string) error {
		if err := r.client.Log(cmd.Context(), r.vmSet, strings.Join(args, " ")); err != nil {
			return err
		}
		if r.json {
			return printJSON(cmd, map[string]bool{"success": true})
		}
		return newScreen(cmd.OutOrStdout()).printf("written into the log of the agent\n")
	})
}
