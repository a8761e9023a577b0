package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// parseQuery reads the ports that a command is about.
func parseQuery(text string) (api.PortQuery, error) {
	q, err := api.ParsePortQuery(text)
	if err != nil {
		return q, usageError{err}
	}
	return q, nil
}

// queryArg reads the first argument as ports; without one it is all.
func queryArg(args []string) (api.PortQuery, error) {
	if len(args) == 0 {
		return parseQuery("all")
	}
	return parseQuery(args[0])
}

// ports reads the ports that a query names, by index. One that isn't there is an error.
func (r *remote) ports(ctx context.Context, q api.PortQuery) ([]api.Status, error) {
	muxes, err := r.client.All(ctx, r.vmSet)
	if err != nil {
		return nil, err
	}
	ports, err := q.Pick(muxes)
	if err != nil {
		return nil, fmt.Errorf("vm_set %s: %w; mux-agent status lists its ports", r.vmSet, err)
	}
	return ports, nil
}

// byPort returns muxes by port index.
func byPort(muxes api.Muxes) []api.Status {
	ports := make([]api.Status, 0, len(muxes))
	for _, s := range muxes {
		ports = append(ports, s)
	}
	slices.SortFunc(ports, func(a, b api.Status) int { return cmp.Compare(a.PortIndex, b.PortIndex) })
	return ports
}

// byBridge returns ports as the API has them.
func byBridge(ports []api.Status) api.Muxes {
	muxes := api.Muxes{}
	for _, s := range ports {
		muxes[s.Bridge] = s
	}
	return muxes
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

// totals says of ports what one asks first.
func totals(ports []api.Status) string {
	sides, unhealthy, dropped := map[string]int{}, 0, 0
	for _, s := range ports {
		sides[s.ActiveSide]++
		if !s.Healthy {
			unhealthy++
		}
		if len(s.DroppedSides()) > 0 {
			dropped++
		}
	}
	text := fmt.Sprintf("%s: %d %s, %d %s", countPorts(len(ports)), sides[api.UpperToR], api.UpperToR, sides[api.LowerToR], api.LowerToR)
	var notes []string
	if unhealthy > 0 {
		notes = append(notes, fmt.Sprintf("%d unhealthy", unhealthy))
	}
	if dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d dropped", dropped))
	}
	if notes != nil {
		text += "; " + strings.Join(notes, ", ")
	}
	return text
}

// notUsable counts bridges that are named like a mux.
func notUsable(n int) string {
	if n == 1 {
		return "1 bridge is not a usable mux"
	}
	return fmt.Sprintf("%d bridges are not a usable mux", n)
}

func countPorts(n int) string {
	if n == 1 {
		return "1 port"
	}
	return fmt.Sprintf("%d ports", n)
}
