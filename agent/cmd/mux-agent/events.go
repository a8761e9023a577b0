package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

func newHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history PORT",
		Short:   "Show what happened to a port: when, why, by whom",
		Example: "  mux-agent history 3",
		Args:    cobra.ExactArgs(1),
	}
	return newRemoteCommand(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		port, err := parsePort(args[0])
		if err != nil {
			return err
		}
		events, err := r.client.PortHistory(cmd.Context(), r.vmSet, port)
		if err != nil {
			return err
		}
		if r.json {
			return printJSON(cmd, api.History{Events: events})
		}
		out := newScreen(cmd.OutOrStdout())
		rows := [][]cell{header("TIME", "FROM", "TO", "BY", "TOOK", "REQUEST")}
		for _, ev := range events {
			rows = append(rows, []cell{
				{ev.Time.Local().Format(time.DateTime), plain},
				conditionCell(ev.From), conditionCell(ev.To),
				{who(ev), plain},
				{took(ev), plain},
				{orDash(ev.ReqID), faint},
			})
		}
		return out.table(rows)
	})
}

func newWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [PORTS]",
		Short: "Print every change as it happens, until Ctrl-C",
		Long: `watch prints a line for every change of the ports, until it is interrupted. It waits for an agent that goes away, and
says so. With --json each line is an event as the API has it.`,
		Example:           "  mux-agent watch\n  mux-agent watch 0-11 --json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePorts,
	}
	return newRemoteCommand(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		list, err := portsArg(args)
		if err != nil {
			return err
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
			case n.Change != nil && list.Has(n.Change.PortIndex):
				printEvent(out, *n.Change, r.json)
			}
		})
	})
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
	cmd := &cobra.Command{
		Use:               "wait PORT SIDE",
		Short:             "Wait until a side is the active one; exit code 3 when it is not in time",
		Example:           "  mux-agent wait 3 lower --timeout 10s && echo switched",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeSides("upper", "lower"),
	}
	newRemoteCommand(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		port, err := parsePort(args[0])
		if err != nil {
			return err
		}
		side, err := parseSide(args[1])
		if err != nil {
			return err
		}
		status, err := r.client.WaitForSide(cmd.Context(), r.vmSet, port, side, r.timeout)
		if err != nil {
			return err
		}
		if r.json {
			return printJSON(cmd, status)
		}
		return newScreen(cmd.OutOrStdout()).printf("port %d: %s\n", port, describe(status))
	})
	cmd.Flags().Lookup("timeout").Usage = "how long to wait"
	return cmd
}
