package vswitch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ofctl"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	overOpenFlow := func(t *testing.T, runDir string) vswitch.Conn {
		pool := openflow.NewPool(openflow.Config{Dir: runDir, Timeout: wait.Limit})
		t.Cleanup(pool.Close)
		return pool
	}
	for name, conn := range map[string]func(t *testing.T, runDir string) vswitch.Conn{
		"ofctl": func(_ *testing.T, runDir string) vswitch.Conn {
			return ofctl.New(ofctl.Config{RunDir: runDir, Timeout: wait.Limit})
		},
		"openflow": overOpenFlow,
		"polled":   overOpenFlow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switchtest.Run(t, func(t *testing.T) (engine.Switch, switchtest.Hands) {
				o := ovstest.Start(t)
				c := conn(t, o.RunDir)
				return newSwitch(t, o, func(cfg *vswitch.Config) { cfg.Conn, cfg.Poll = c, name == "polled" }), hands{o}
			})
		})
	}
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

// TestEngineAdoptsALateBridge is about the flows that go when fail_mode is set on a bridge which appears while the agent
// runs.
func TestEngineAdoptsALateBridge(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	cfg := config(t, o.RunDir)
	e := engine.New(engine.Config{Names: cfg.Names, Switch: switchOf(t, cfg), Log: cfg.Log})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	waitFor(t, "the engine is ready", func() bool { return e.Ready() == nil })

	m := o.AddMuxes(vmSet, 1)[0]
	number := o.Ports(m.Bridge)
	o.Ofctl("del-flows", m.Bridge)
	o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d,%d", number[m.NIC], number[m.Upper], number[m.Lower]))
	o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", number[m.Lower], number[m.NIC]))
	waitFor(t, "the bridge is served", func() bool { return e.Snapshot(0) != nil })
	want := cable.State{Active: cable.LowerToR}
	if got := e.Snapshot(0); got.State != want || !got.Healthy() {
		t.Errorf("got %v, reason %q; want %v", got.State, got.Reason, want)
	}
	checkCable(t, o, m, want)
	if got := strings.TrimSpace(o.Vsctl("get-fail-mode", m.Bridge)); got != "secure" {
		t.Errorf("fail_mode: got %q, want secure", got)
	}

	// Taking fail_mode away makes Open vSwitch an ordinary switch again, with all flows gone.
	o.Vsctl("del-fail-mode", m.Bridge)
	waitFor(t, "fail_mode is secure again", func() bool { return strings.TrimSpace(o.Vsctl("get-fail-mode", m.Bridge)) == "secure" })
	waitFor(t, "the mux is healthy again", func() bool { return e.Snapshot(0).Healthy() && e.Snapshot(0).State == want })
	waitFor(t, "flows are put back", func() bool { return slices.Equal(o.Trace(m.Bridge, m.Lower), []string{m.NIC}) })
	checkCable(t, o, m, want)
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait.For(t, what, ok)
}
