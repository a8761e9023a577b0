package simswitch_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	switchtest.Run(t, func(t *testing.T) (engine.Switch, switchtest.Hands) {
		names, err := cable.NewNames(switchtest.VMSet)
		if err != nil {
			t.Fatal(err)
		}
		sw := simswitch.New(names, 0)
		return sw, hands{sw}
	})
}

func TestChaos(t *testing.T) {
	switchtest.Chaos(t, func(t *testing.T) (engine.Switch, switchtest.Hands, switchtest.Faults) {
		names, err := cable.NewNames(switchtest.VMSet)
		if err != nil {
			t.Fatal(err)
		}
		sw := simswitch.New(names, 0)
		sw.SetTimeout(switchtest.ChaosTimeout)
		return sw, hands{sw}, hands{sw}
	})
}

// hands turn the suite's verbs into the switch's own.
type hands struct{ sw *simswitch.Switch }

func (h hands) AddBridge(_ testing.TB, bridge string, ports ...string) {
	h.sw.AddBridge(bridge, ports...)
}
func (h hands) RemoveBridge(_ testing.TB, bridge string)     { h.sw.RemoveBridge(bridge) }
func (h hands) RemovePort(_ testing.TB, bridge, port string) { h.sw.RemovePort(bridge, port) }
func (h hands) AddPort(_ testing.TB, bridge, port string)    { h.sw.AddPort(bridge, port) }
func (h hands) DelFlows(_ testing.TB, bridge string)         { h.sw.DelFlows(bridge) }

func (h hands) Restart(testing.TB)               { h.sw.Restart() }
func (h hands) Stall(testing.TB) (resume func()) { return h.sw.Stall() }

func (h hands) RestartToRestore(testing.TB) (end func()) {
	h.sw.SetRestoreWait(true)
	h.sw.Restart()
	return func() { h.sw.SetRestoreWait(false) }
}

func (h hands) TakeDevice(_ testing.TB, bridge, port string) (back func()) {
	h.sw.BreakPort(bridge, port)
	return func() { h.sw.MendPort(bridge, port) }
}

func (h hands) Block(_ testing.TB, bridge, port string) (unblock func()) {
	set := func(blocked bool) { h.sw.SetPort(bridge, port, func(p *cable.Port) { p.NoReceive = blocked }) }
	set(true)
	return func() { set(false) }
}

func (h hands) Disturb(_ testing.TB, _ int, bridge, port string) {
	h.sw.BreakPort(bridge, port)
	h.sw.MendPort(bridge, port)
}

func (h hands) SetSide(_ testing.TB, bridge, port, side string) { h.sw.SetSide(bridge, port, side) }

func (h hands) Packet(_ testing.TB, bridge, from string) []string { return h.sw.Inject(bridge, from) }

func (h hands) AddFlow(_ testing.TB, bridge string, priority int, from string, to ...string) {
	h.sw.AddFlow(bridge, priority, from, to...)
}
