package vswitch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A world is an engine on a real Open vSwitch.
type world struct {
	*testing.T
	*engine.Engine
	o     *ovstest.OVS
	muxes []ovstest.Mux
	stop  func()
}

// A way is how the engine of a world sees what happens.
type way struct {
	poll    bool
	timeout time.Duration // for the switch's answer; 0 ends only what hangs
}

// bothWays runs a test with an Open vSwitch that tells, and with one that is polled.
func bothWays(t *testing.T, test func(t *testing.T, by way)) {
	t.Helper()
	t.Parallel()
	for name, poll := range map[string]bool{"told": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, way{poll: poll})
		})
	}
}

// newWorld starts an engine on an Open vSwitch with n muxes as the testbed makes them, and waits until it is ready.
func newWorld(t *testing.T, by way, n int) *world {
	t.Helper()
	o := ovstest.Start(t)
	w := &world{T: t, o: o, muxes: o.AddMuxes(vmSet, n)}
	o.SetTestbedFlows(w.muxes...)
	w.Engine, w.stop = startEngine(t, o, by)
	w.waitReady()
	return w
}

// startEngine starts an engine that ends with the test.
func startEngine(t *testing.T, o *ovstest.OVS, by way) (e *engine.Engine, stop func()) {
	t.Helper()
	if by.timeout == 0 {
		by.timeout = wait.Limit
	}
	pool := openflow.NewPool(openflow.Config{Dir: o.RunDir, Timeout: by.timeout})
	cfg := config(t, o.RunDir, func(cfg *vswitch.Config) {
		cfg.Conn, cfg.Poll, cfg.PollInterval, cfg.Timeout = pool, by.poll, 200*time.Millisecond, by.timeout
	})
	sw := vswitch.New(cfg)
	e = engine.New(engine.Config{Names: cfg.Names, Switch: sw, Log: cfg.Log, Timeout: by.timeout})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("engine: %v", err)
		}
		sw.Close()
		pool.Close()
	}
	t.Cleanup(stop)
	return e, stop
}

func (w *world) waitReady() {
	w.Helper()
	waitFor(w.T, "the engine is ready", func() bool { return w.NotReady() == nil })
}

func (w *world) do(i int, c cable.Change, by ...string) engine.Result {
	origin := engine.Origin{Cause: engine.API, ReqID: strings.Join(by, "")}
	return w.Do(w.Context(), map[int]cable.Change{i: c}, origin)[i]
}

func (w *world) mustDo(i int, c cable.Change) {
	w.Helper()
	if res := w.do(i, c); res.Err != nil {
		w.Fatal(res.Err)
	}
}

// settles waits until mux i shows a state and, where one is given, a reason, and packets go so.
func (w *world) settles(i int, want cable.State, reason string) {
	w.Helper()
	var last string
	for deadline := time.Now().Add(wait.Limit); ; time.Sleep(5 * time.Millisecond) {
		s := w.Snapshot(i)
		last = "not served"
		if s != nil {
			last = fmt.Sprintf("%v, reason %q", s.State, s.Reason())
			if s.State == want && strings.Contains(s.Reason(), reason) && (reason != "" || s.Reason() == "") {
				if reason != "" || w.goesSo(i, want) {
					return
				}
				last += ", but packets go elsewhere"
			}
		}
		if time.Now().After(deadline) {
			w.Fatalf("mux %d: %s; want %v, reason %q; %+v; flows:\n%s", i, last, want, reason, s, w.o.Ofctl("dump-flows", w.muxes[i].Bridge))
		}
	}
}

// goesSo reports whether packets go as in a state.
func (w *world) goesSo(i int, want cable.State) bool {
	return cabletest.Switch(w.o.Trace).Astray(w.muxes[i], want.Active.String(), switchtest.Names(want.Dropped)...) == ""
}

// causes returns the causes of the events of mux i after the first n.
func (w *world) causes(i, n int) []engine.Cause {
	var causes []engine.Cause
	for _, ev := range w.Journal.History(i)[n:] {
		causes = append(causes, ev.Cause)
	}
	return slices.Compact(causes)
}

// number returns OpenFlow port numbers by name.
func (w *world) number(i int) (nic, upper, lower uint32) {
	n, m := w.o.Ports(w.muxes[i].Bridge), w.muxes[i]
	return n[m.NIC], n[m.Upper], n[m.Lower]
}

// build makes a mux as sonic-mgmt's testbed script does, step by step, with the lower ToR active.
func (w *world) build(m ovstest.Mux) {
	w.o.AddBridge(m.Bridge)
	for _, port := range []string{m.NIC, m.Upper, m.Lower} {
		w.o.AddPort(m.Bridge, port)
	}
	n := w.o.Ports(m.Bridge)
	w.o.Ofctl("del-flows", m.Bridge)
	w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("table=0,in_port=%d,action=output:%d,%d", n[m.NIC], n[m.Upper], n[m.Lower]))
	w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("table=0,in_port=%d,action=output:%d", n[m.Lower], n[m.NIC]))
}
