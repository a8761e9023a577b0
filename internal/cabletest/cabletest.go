// Package cabletest says where the packets of a mux go, and compares that with what a switch does with them. It knows
// neither switch nor agent: a test gives it the names of the ports and a way to send a packet. Only tests import it.
package cabletest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A Mux is the names of a mux's bridge and of its three ports.
type Mux struct {
	Bridge, NIC, Upper, Lower string
}

// port returns the name of the port of a side, or of the NIC, as the API names it.
func (m Mux) port(role string) string {
	switch role {
	case api.NIC:
		return m.NIC
	case api.UpperToR:
		return m.Upper
	case api.LowerToR:
		return m.Lower
	}
	panic("no port of a mux: " + role)
}

// Ways returns where packets come out, sorted, by the port where they enter: from the server to both ToRs, from the active
// ToR to the server, from the standby one nowhere. Nothing comes out at the dropped ports, which are named as in the API.
func (m Mux) Ways(active string, dropped ...string) map[string][]string {
	ways := map[string][]string{m.NIC: {}, m.Upper: {}, m.Lower: {}}
	for _, tor := range []string{api.UpperToR, api.LowerToR} {
		if !slices.Contains(dropped, tor) {
			ways[m.NIC] = append(ways[m.NIC], m.port(tor))
		}
	}
	slices.Sort(ways[m.NIC])
	if !slices.Contains(dropped, api.NIC) {
		ways[m.port(active)] = []string{m.NIC}
	}
	return ways
}

// A Switch sends a packet into a port of a bridge and returns the names of the ports where it comes out, sorted.
type Switch func(bridge, from string) []string

// Astray says which packets of a mux go elsewhere than they should, "" when none does.
func (s Switch) Astray(m Mux, active string, dropped ...string) string {
	var lines []string
	ways := m.Ways(active, dropped...)
	for _, from := range []string{m.NIC, m.Upper, m.Lower} {
		if got, want := s(m.Bridge, from), ways[from]; !slices.Equal(got, want) {
			lines = append(lines, fmt.Sprintf("%s, active %s, dropped %q: a packet from %s comes out at %q, want %q",
				m.Bridge, active, dropped, from, got, want))
		}
	}
	return strings.Join(lines, "\n")
}

// Check fails the test when packets of a mux go elsewhere than they should.
func (s Switch) Check(tb testing.TB, m Mux, active string, dropped ...string) {
	tb.Helper()
	if astray := s.Astray(m, active, dropped...); astray != "" {
		tb.Error(astray)
	}
}
