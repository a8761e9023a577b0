package vswitch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// watch starts a Watch that ends with the test. The function it returns waits for a sight that fits.
func watch(t *testing.T, s *vswitch.Switch) (see func(what string, fits func(cable.Sight) bool) cable.Sight) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	sights := make(chan cable.Sight, 1000)
	ended := make(chan error)
	go func() { ended <- s.Watch(ctx, func(sight cable.Sight) { sights <- sight }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch ended with %v", err)
		}
	})
	return func(what string, fits func(cable.Sight) bool) cable.Sight {
		t.Helper()
		timeout := time.After(wait.Limit)
		for {
			select {
			case sight := <-sights:
				if fits(sight) {
					return sight
				}
			case <-timeout:
				t.Fatalf("not seen: %s", what)
			}
		}
	}
}

func TestWatchSeesWhatChanges(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 2)[1]
	s := newSwitch(t, o)
	mux := discover(t, s)[m.Bridge].Mux
	settle(t, s, mux, cable.State{})
	wait := watch(t, s)

	wait("our own flows", func(s cable.Sight) bool { return len(s.Flows) == 2 && s.Bridge == m.Bridge })
	o.Ofctl("del-flows", m.Bridge, fmt.Sprintf("in_port=%d", mux.Ports[cable.NIC].Number))
	wait("one flow less", func(s cable.Sight) bool { return len(s.Flows) == 1 && s.Bridge == m.Bridge })

	o.Vsctl("del-port", m.NIC)
	wait("no mux without its NIC", func(s cable.Sight) bool { return s.Rejected != "" && s.Bridge == m.Bridge })
	o.AddPort(m.Bridge, m.NIC)
	wait("the NIC with a new number", func(s cable.Sight) bool {
		return s.Bridge == m.Bridge && s.Mux.Ports.Numbered() && s.Mux.Ports[cable.NIC] != mux.Ports[cable.NIC]
	})

	o.Vsctl("del-br", m.Bridge)
	if sight := wait("the bridge gone", func(s cable.Sight) bool { return s.Gone }); sight.Bridge != m.Bridge || sight.Index != 1 {
		t.Errorf("gone is %s with index %d, want %s with 1", sight.Bridge, sight.Index, m.Bridge)
	}
	o.AddMux(m.Bridge, m.NIC, m.Upper, m.Lower)
	wait("the bridge made again", func(s cable.Sight) bool {
		return s.Bridge == m.Bridge && slices.Equal(s.Flows, []cable.Flow{{Action: cable.Normal}})
	})
}

func TestWatchOutlivesOpenVSwitch(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 1)[0]
	s := newSwitch(t, o)
	settle(t, s, discover(t, s)[m.Bridge].Mux, cable.State{})
	wait := watch(t, s)
	flows := func(n int) func(cable.Sight) bool {
		return func(s cable.Sight) bool { return s.Err == nil && len(s.Flows) == n }
	}
	failed := func(s cable.Sight) bool { return s.Err != nil && s.Mux.Bridge == m.Bridge }

	wait("two flows", flows(2))
	o.Server.Stop()
	wait("no database", failed)
	o.Server.Start()
	wait("the database back", flows(2))

	o.Vswitchd.Kill()
	wait("no ovs-vswitchd", failed)
	o.Vswitchd.Start()
	// fail_mode is secure: it bridges nothing by itself.
	wait("ovs-vswitchd back, without flows", flows(0))
}

// mute is a Conn of an Open vSwitch that does not tell of flows, as before version 3.0.
type mute struct{ vswitch.Conn }

func (mute) Follow(ctx context.Context, _ string, _ bool, changed func(told bool)) {
	changed(false)
	<-ctx.Done()
}

func TestWatchLooksWhereNothingIsTold(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 2)[1]
	s := newSwitch(t, o, func(cfg *vswitch.Config) { cfg.Conn = mute{cfg.Conn} })
	settle(t, s, discover(t, s)[m.Bridge].Mux, cable.State{})
	wait := watch(t, s)
	for range 2 {
		o.Ofctl("del-flows", m.Bridge)
		wait("no flows", func(s cable.Sight) bool { return s.Bridge == m.Bridge && len(s.Flows) == 0 })
		o.Ofctl("add-flow", m.Bridge, "actions=NORMAL")
		wait("a flow", func(s cable.Sight) bool { return s.Bridge == m.Bridge && len(s.Flows) == 1 })
	}
}
