package main

import (
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
	cmd := &cobra.Command{
		Use:   "status [PORTS]",
		Short: "Show which side is active, since when, and who changed it",
		Long: `status lists the ports with their active side, their health, what is dropped, how often they flapped, when they were
last changed and by whom, and the bridges that are named like a mux and are not usable as one.

With --unhealthy it lists only what is not healthy, and the exit code is 3 when there is any.`,
		Example:           "  mux-agent status\n  mux-agent status 0-11,20\n  mux-agent status --unhealthy --json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePorts,
	}
	cmd.Flags().BoolVar(&unhealthy, "unhealthy", false, "only what is not healthy; exit code 3 when there is any")
	return newRemoteCommand(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		list, err := portsArg(args)
		if err != nil {
			return err
		}
		ports, err := r.ports(cmd.Context(), list)
		if err != nil {
			return err
		}
		total := len(ports)
		var rejected []api.Rejected
		overview, err := r.client.Overview(cmd.Context())
		if err != nil && client.Code(err) != api.CodeNotFound { // mux_simulator.py has none
			return err
		}
		for _, b := range overview.VMSets[r.vmSet].Rejected {
			if list.Has(b.PortIndex) {
				rejected = append(rejected, b)
			}
		}
		if unhealthy {
			ports = slices.DeleteFunc(ports, func(s api.Status) bool { return s.Healthy })
		}
		if r.json {
			muxes := api.Muxes{}
			for _, s := range ports {
				muxes[s.Bridge] = s
			}
			err = printJSON(cmd, muxes)
		} else {
			err = r.printStatus(cmd, ports, rejected)
		}
		if bad := len(ports) + len(rejected); err == nil && unhealthy && bad > 0 {
			return exitError{exitFound, fmt.Errorf("%d of %d ports are unhealthy, %d bridges are not a usable mux", len(ports), total, len(rejected))}
		}
		return err
	})
}

func (r *remote) printStatus(cmd *cobra.Command, ports []api.Status, rejected []api.Rejected) error {
	events, err := r.client.History(cmd.Context(), r.vmSet)
	if err != nil && client.Code(err) != api.CodeNotFound { // mux_simulator.py has none
		return err
	}
	last := map[string]api.Event{}
	for _, ev := range events {
		last[ev.Bridge] = ev
	}
	rows := [][]cell{header("PORT", "SIDE", "HEALTH", "DROPPED", "FLAPS", "CHANGED", "BY", "NIC", "UPPER", "LOWER")}
	for _, s := range ports {
		health := cell{"ok", green}
		if !s.Healthy {
			health = cell{"unhealthy", red}
		}
		changed, by := "-", "-"
		if ev, ok := last[s.Bridge]; ok {
			changed, by = ago(ev.Time), who(ev)
		}
		dropped := s.DroppedSides()
		rows = append(rows, []cell{
			{strconv.Itoa(s.PortIndex), bold},
			{s.ActiveSide, sidePaint(s.ActiveSide)},
			health,
			{orDash(strings.Join(dropped, ",")), purple},
			{strconv.Itoa(s.FlapCounter), plain},
			{changed, plain},
			{by, plain},
			{s.Ports.NIC, faint},
			{s.Ports.UpperToR, faint},
			{s.Ports.LowerToR, faint},
		})
	}
	out := newScreen(cmd.OutOrStdout())
	if err := out.table(rows); err != nil {
		return err
	}
	for _, s := range ports {
		for _, c := range conditionsOf(s) {
			paint := red
			if !api.Unhealthy(c.Code) && s.Healthy {
				paint = yellow
			}
			_ = out.printf("%s %s\n", out.paint(paint, fmt.Sprintf("port %d:", s.PortIndex)), c.Reason)
		}
	}
	for _, b := range rejected {
		_ = out.printf("%s %s\n", out.paint(red, fmt.Sprintf("bridge %s is not a usable mux:", b.Bridge)), b.Reason)
	}
	return nil
}

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
	cmd := &cobra.Command{
		Use:               "counters [PORTS]",
		Short:             "Show, or clear, how often each port flapped",
		Example:           "  mux-agent counters\n  mux-agent counters 0-11 --clear",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePorts,
	}
	cmd.Flags().BoolVar(&zero, "clear", false, "set them to 0")
	return newRemoteCommand(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		list, err := portsArg(args)
		if err != nil {
			return err
		}
		if zero {
			if _, err := r.client.ClearFlapCounters(cmd.Context(), r.vmSet, list...); err != nil {
				return err
			}
		}
		ports, err := r.ports(cmd.Context(), list)
		if err != nil {
			return err
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
}
