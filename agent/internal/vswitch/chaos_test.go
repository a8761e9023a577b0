package vswitch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

func TestChaos(t *testing.T) {
	for name, poll := range map[string]bool{"told": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			switchtest.Chaos(t, func(t *testing.T) (engine.Switch, switchtest.Hands, switchtest.Faults) {
				o := ovstest.Start(t)
				pool := openflow.NewPool(openflow.Config{Dir: o.RunDir, Timeout: switchtest.ChaosTimeout})
				t.Cleanup(pool.Close)
				return newSwitch(t, o, func(cfg *vswitch.Config) {
					cfg.Conn, cfg.Poll, cfg.PollInterval, cfg.Timeout = pool, poll, 200*time.Millisecond, switchtest.ChaosTimeout
				}), hands{o}, hands{o}
			})
		})
	}
}

func (h hands) Restart(testing.TB) {
	h.o.Vswitchd.Kill()
	h.o.Vswitchd.Start()
}

func (h hands) Stall(testing.TB) (resume func()) {
	h.o.Vswitchd.Pause()
	return h.o.Vswitchd.Continue
}

func (h hands) RestartToRestore(testing.TB) (end func()) {
	h.o.Vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
	h.o.Vswitchd.Kill()
	h.o.Vswitchd.Start()
	return func() { h.o.Vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait") }
}

func (h hands) TakeDevice(t testing.TB, _, port string) (back func()) {
	t.Helper()
	// ovs-vsctl complains that there is no such device, which is what it is told for.
	if out, err := h.o.Command("ovs-vsctl", "--timeout=60", "set", "Interface", port, `type=""`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func() { h.o.Vsctl("set", "Interface", port, "type=dummy") }
}

func (h hands) Block(_ testing.TB, bridge, port string) (unblock func()) {
	h.o.Ofctl("mod-port", bridge, port, "no-receive")
	return func() { h.o.Ofctl("mod-port", bridge, port, "receive") }
}

func (h hands) Disturb(_ testing.TB, n int, bridge, port string) {
	switch n % 4 {
	case 0:
		h.o.Vsctl("del-fail-mode", bridge)
	case 1:
		h.o.Vsctl("set-fail-mode", bridge, "standalone")
	case 2:
		h.o.Vsctl("set", "Interface", port, fmt.Sprintf("ofport_request=%d", 100+n))
	case 3:
		h.o.Vsctl("set", "Bridge", bridge, "protocols=OpenFlow10")
		h.o.Vsctl("clear", "Bridge", bridge, "protocols")
	}
}
