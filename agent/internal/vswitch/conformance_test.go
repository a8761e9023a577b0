package vswitch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

func TestConformanceOverOfctl(t *testing.T) {
	t.Parallel()
	switchtest.Run(t, func(t *testing.T) (engine.Switch, switchtest.Hands) {
		o := ovstest.Start(t)
		return newSwitch(t, o), hands{o}
	})
}

// hands do with Open vSwitch's own tools what a person does.
type hands struct{ o *ovstest.OVS }

func (h hands) AddBridge(t testing.TB, bridge string, ports ...string) {
	t.Helper()
	h.o.AddBridge(bridge, ports...)
	h.o.Ofctl("del-flows", bridge)
}

func (h hands) RemoveBridge(t testing.TB, bridge string) {
	t.Helper()
	h.o.Vsctl("del-br", bridge)
}

func (h hands) RemovePort(t testing.TB, bridge, port string) {
	t.Helper()
	h.o.Vsctl("del-port", bridge, port)
}

func (h hands) AddPort(t testing.TB, bridge, port string) {
	t.Helper()
	h.o.AddPort(bridge, port)
}

func (h hands) SetSide(t testing.TB, _, port, side string) {
	t.Helper()
	h.o.Vsctl("set", "Port", port, "external_ids:mux-side="+side)
}

func (h hands) AddFlow(t testing.TB, bridge string, priority int, from string, to ...string) {
	t.Helper()
	number := h.o.Ports(bridge)
	flow := fmt.Sprintf("in_port=%d", number[from])
	if priority != 0 {
		flow += fmt.Sprintf(",priority=%d", priority)
	}
	var actions []string
	for _, port := range to {
		if port == "NORMAL" {
			actions = append(actions, port)
			continue
		}
		actions = append(actions, fmt.Sprintf("output:%d", number[port]))
	}
	if actions == nil {
		actions = []string{"drop"}
	}
	h.o.Ofctl("add-flow", bridge, flow+",actions="+strings.Join(actions, ","))
}

func (h hands) DelFlows(t testing.TB, bridge string) {
	t.Helper()
	h.o.Ofctl("del-flows", bridge)
}

func (h hands) Packet(t testing.TB, bridge, from string) []string {
	t.Helper()
	return h.o.Trace(bridge, from)
}
