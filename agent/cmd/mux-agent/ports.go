package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// parsePorts reads "all", or indexes and ranges such as "0-11,20".
func parsePorts(text string) (api.PortList, error) {
	list, err := api.ParsePorts(text)
	if err != nil {
		return nil, usageError{err}
	}
	return list, nil
}

func parsePort(text string) (int, error) {
	port, err := api.ParsePort(text)
	if err != nil {
		return 0, usageError{err}
	}
	return port, nil
}

// portsArg reads the first argument as ports; without one it is all.
func portsArg(args []string) (api.PortList, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return parsePorts(args[0])
}

// missing returns what of a list there is no mux of, nil when there is nothing.
func missing(list api.PortList, muxes api.Muxes) api.PortList {
	served := map[int]bool{}
	for _, s := range muxes {
		served[s.PortIndex] = true
	}
	var missing api.PortList
	for _, port := range list {
		if !served[port] {
			missing = append(missing, port)
		}
	}
	return missing
}

// pick returns the muxes of a list by port index.
func pick(list api.PortList, muxes api.Muxes) []api.Status {
	var picked []api.Status
	for _, s := range muxes {
		if list.Has(s.PortIndex) {
			picked = append(picked, s)
		}
	}
	slices.SortFunc(picked, func(a, b api.Status) int { return cmp.Compare(a.PortIndex, b.PortIndex) })
	return picked
}

// parseSide reads a side by its name, or short: upper, lower.
func parseSide(text string) (string, error) {
	switch text {
	case "upper", api.UpperToR:
		return api.UpperToR, nil
	case "lower", api.LowerToR:
		return api.LowerToR, nil
	}
	return "", usageError{fmt.Errorf("bad side %q: want upper or lower", text)}
}

// parseSides reads the ends of a cable, separated by commas or as arguments of their own.
func parseSides(args []string) ([]string, error) {
	var sides []string
	for name := range strings.SplitSeq(strings.Join(args, ","), ",") {
		side, err := parseSide(name)
		if name == api.NIC {
			side, err = api.NIC, nil
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("bad side %q: want nic, upper or lower", name)}
		}
		sides = append(sides, side)
	}
	return sides, nil
}

// completeSides offers the sides behind the ports.
func completeSides(sides ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return []string{"all"}, cobra.ShellCompDirectiveNoFileComp
		}
		return sides, cobra.ShellCompDirectiveNoFileComp
	}
}

// completePorts offers the one word that stands for ports.
func completePorts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"all"}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
