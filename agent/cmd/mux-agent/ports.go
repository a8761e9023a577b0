package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A portList is port indexes in ascending order; nil is all ports.
type portList []int

// maxPort bounds a range, so that a slip of the finger is not a list of a billion.
const maxPort = 99_999

// parsePorts reads "all", or indexes and ranges such as "0-11,20".
func parsePorts(text string) (portList, error) {
	if text == "all" {
		return nil, nil
	}
	list := portList{}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := parsePort(first)
		to, err2 := parsePort(last)
		if err := cmp.Or(err1, err2); err != nil || from > to {
			return nil, usageError{fmt.Errorf("bad ports %q: want indexes and ranges such as 0-11,20, or all", text)}
		}
		for port := from; port <= to; port++ {
			list = append(list, port)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 32)
	if err != nil || port > maxPort {
		return 0, usageError{fmt.Errorf("bad port %q: want an index such as 3", text)}
	}
	return int(port), nil
}

// portsArg reads the first argument as ports; without one it is all.
func portsArg(args []string) (portList, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return parsePorts(args[0])
}

// String writes a list as parsePorts reads it.
func (l portList) String() string {
	if l == nil {
		return "all"
	}
	var parts []string
	for i := 0; i < len(l); {
		j := i
		for j+1 < len(l) && l[j+1] == l[j]+1 {
			j++
		}
		part := strconv.Itoa(l[i])
		if j > i {
			part += "-" + strconv.Itoa(l[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func (l portList) has(port int) bool {
	_, found := slices.BinarySearch(l, port)
	return l == nil || found
}

// missing returns what of the list there is no mux of, nil when there is nothing.
func (l portList) missing(muxes api.Muxes) portList {
	var missing portList
	for _, port := range l {
		if !slices.ContainsFunc(slices.Collect(maps.Values(muxes)), func(s api.Status) bool { return s.PortIndex == port }) {
			missing = append(missing, port)
		}
	}
	return missing
}

// pick returns the muxes of the list by port index.
func (l portList) pick(muxes api.Muxes) []api.Status {
	var picked []api.Status
	for _, s := range muxes {
		if l.has(s.PortIndex) {
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
