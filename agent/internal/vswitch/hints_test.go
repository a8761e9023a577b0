package vswitch_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A counter is a Conn that counts how often the flows of each bridge are read.
type counter struct {
	*openflow.Pool

	mu    sync.Mutex
	reads map[string]int
}

func (c *counter) Flows(ctx context.Context, bridge string) ([]cable.Entry, error) {
	c.mu.Lock()
	c.reads[bridge]++
	c.mu.Unlock()
	return c.Pool.Flows(ctx, bridge)
}

// take returns how often the flows of a bridge and of all others were read since it was called last.
func (c *counter) take(bridge string) (its, others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.reads {
		if name == bridge {
			its += n
		} else {
			others += n
		}
	}
	clear(c.reads)
	return its, others
}

// TestAHintReadsOneBridge: what is told of one bridge costs no look at the others.
func TestAHintReadsOneBridge(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	muxes := o.AddMuxes(vmSet, 20)
	pool := openflow.NewPool(openflow.Config{Dir: o.RunDir, Timeout: wait.Limit})
	t.Cleanup(pool.Close)
	c := &counter{Pool: pool, reads: map[string]int{}}
	s := newSwitch(t, o, func(cfg *vswitch.Config) { cfg.Conn, cfg.PollInterval = c, time.Hour })
	for _, sight := range discover(t, s) {
		settle(t, s, sight.Mux, cable.State{})
	}
	wait := watch(t, s)
	m := muxes[7]
	quiet := func() {
		for its, others := 1, 0; its+others > 0; its, others = c.take(m.Bridge) {
			time.Sleep(300 * time.Millisecond) // that nothing more is read can't be waited for: a pause without a read stands for it
		}
	}
	flowsAreTold := !strings.Contains(o.Appctl("version"), "(Open vSwitch) 2.")
	for _, hint := range []struct {
		name  string
		flows bool
		act   func()
		fits  func(cable.Sight) bool
	}{
		{
			"a flow", true,
			func() { o.Ofctl("add-flow", m.Bridge, "priority=7,actions=drop") },
			func(s cable.Sight) bool { return len(s.Flows) == 3 },
		},
		{
			"a port's bits", false,
			func() { o.Ofctl("mod-port", m.Bridge, m.NIC, "no-forward") },
			func(s cable.Sight) bool { return s.Mux.Ports[cable.NIC].NoForward },
		},
		{
			"a row", false,
			func() { o.Vsctl("set", "Port", m.Upper, "external_ids:mux-side=lower_tor") },
			func(s cable.Sight) bool { return s.Mux.Ports[cable.Lower].Name == m.Upper },
		},
	} {
		if hint.flows && !flowsAreTold {
			continue
		}
		quiet()
		hint.act()
		wait(hint.name, func(s cable.Sight) bool { return s.Bridge == m.Bridge && hint.fits(s) })
		// One of the others may have had its turn to show that Open vSwitch answers.
		if its, others := c.take(m.Bridge); its == 0 || its > 4 || others > 1 {
			t.Errorf("%s: its flows were read %d times, those of other bridges %d times", hint.name, its, others)
		}
	}
}
