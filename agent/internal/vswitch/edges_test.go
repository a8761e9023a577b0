package vswitch_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// The tests of this file are about what strangers met with real devices: veths, of which one goes, is down, or is told not to
// pass, and packets that are counted at their far ends.

// newVeths starts a switch with real devices and n muxes whose lower ToR is active.
func newVeths(t *testing.T, n int) *world {
	t.Helper()
	o := ovstest.Start(t, ovstest.Veths())
	w := &world{T: t, o: o, muxes: o.AddMuxes(vmSet, n)}
	for i := range w.muxes {
		w.setFlows(i, lower)
	}
	return w
}

// setFlows writes the flows of a mux as the testbed's script does.
func (w *world) setFlows(i int, s cable.State) {
	w.Helper()
	m := w.muxes[i]
	nic, up, low := w.number(i)
	active := map[cable.Side]uint32{cable.UpperToR: up, cable.LowerToR: low}[s.Active]
	w.o.Ofctl("del-flows", m.Bridge)
	w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("table=0,in_port=%d,action=output:%d,%d", nic, up, low))
	w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("table=0,in_port=%d,action=output:%d", active, nic))
}

// start starts an engine on the switch, after another one has ended.
func (w *world) start(by way) {
	w.Helper()
	if w.stop != nil {
		w.stop()
	}
	w.Engine, w.stop = startEngine(w.T, w.o, by)
	w.waitReady()
}

// shows waits until mux 0 is in a state, with a code as the first of its conditions.
func (w *world) shows(want cable.State, code string) {
	w.Helper()
	last := "not served"
	defer func() {
		if w.Failed() {
			w.Log(last)
		}
	}()
	wait.For(w, fmt.Sprintf("mux 0: %v, %q", want, code), func() bool {
		s := w.Snapshot(0)
		if s == nil {
			return false
		}
		got := ""
		if len(s.Conditions) > 0 {
			got = s.Conditions[0].Code
		}
		last = fmt.Sprintf("%v, %+v", s.State, s.Conditions)
		return s.State == want && got == code && s.Healthy() == (!api.Unhealthy(code) && want.Dropped == 0)
	})
}

// sends sends packets into all ports of mux 0, and wants those between the ports of the missing roles to come out nowhere.
func (w *world) sends(state cable.State, missing ...string) {
	w.Helper()
	m := w.muxes[0]
	ways := m.Ways(state.Active.String(), switchtest.Names(state.Dropped)...)
	for from := range maps.Keys(ways) {
		if slices.Contains(missing, from) {
			ways[from] = nil
		}
		ways[from] = slices.DeleteFunc(ways[from], func(to string) bool { return slices.Contains(missing, to) })
	}
	w.o.CheckSent(m.Bridge, ways)
}

// A ToR whose device is gone, as when a KVM ToR is destroyed, takes nothing from the other one.
func TestAMissingDevice(t *testing.T) {
	t.Run("at a start", func(t *testing.T) {
		for name, secure := range map[string]bool{"fail_mode unset": false, "already secure": true} {
			t.Run(name, func(t *testing.T) {
				w := newVeths(t, 1)
				m := w.muxes[0]
				if secure {
					w.o.Vsctl("set-fail-mode", m.Bridge, "secure")
					w.setFlows(0, lower)
				}
				w.o.DeleteDevice(m.Upper)
				w.sends(lower, m.Upper)
				w.start(way{})
				w.shows(lower, api.ConditionStandbyMissing)
				w.sends(lower, m.Upper)
				w.o.MakeDevice(m.Upper)
				w.shows(lower, "")
				w.sends(lower)
			})
		}
	})
	t.Run("of a running agent", func(t *testing.T) {
		w := newVeths(t, 2)
		m := w.muxes[0]
		w.setFlows(0, upper)
		w.start(way{})
		w.shows(upper, "")
		w.o.DeleteDevice(m.Upper)
		w.shows(upper, api.ConditionPortMissing)
		for _, change := range []cable.Change{{Move: cable.MoveTo, Side: cable.LowerToR}, {Drop: cable.RolesOf(cable.Lower)}, cable.Reset()} {
			if res := w.do(0, change); res.Err != nil {
				t.Errorf("%+v: %v", change, res.Err)
			}
		}
		w.sends(lower, m.Upper)
		all := map[int]cable.Change{0: {Move: cable.MoveTo, Side: cable.UpperToR}, 1: toggle}
		for i, res := range w.Do(t.Context(), all, engine.Origin{Cause: engine.API}) {
			if res.Err != nil {
				t.Errorf("all: mux %d: %v", i, res.Err)
			}
		}
		w.shows(upper, api.ConditionPortMissing)
		w.mustDo(0, cable.Change{Move: cable.MoveTo, Side: cable.LowerToR})

		w.o.Vswitchd.Stop() // whose new life knows the missing device no more than the old one
		w.o.Vswitchd.Start()
		wait.For(t, "the surviving side is restored", func() bool {
			s := w.Snapshot(0)
			return s.State == lower && len(s.Conditions) > 0 && s.Conditions[0].Code == api.ConditionStandbyMissing && slices.Equal(w.o.Trace(m.Bridge, m.Lower), []string{m.NIC})
		})
		w.sends(lower, m.Upper)

		w.start(way{}) // another agent
		w.shows(lower, api.ConditionStandbyMissing)
		w.mustDo(0, cable.Change{Move: cable.MoveTo, Side: cable.UpperToR})
		w.start(way{})
		w.shows(upper, api.ConditionPortMissing) // a side whose port is missing outlives the agent
		w.o.MakeDevice(m.Upper)
		w.shows(upper, "")
		w.sends(upper)
	})
	t.Run("with a capture port", func(t *testing.T) {
		w := newVeths(t, 1)
		m := w.muxes[0]
		w.o.AddPort(m.Bridge, "tap0")
		w.start(way{})
		w.shows(lower, "")
		w.o.DeleteDevice(m.Upper)
		w.shows(lower, api.ConditionStandbyMissing)
		w.mustDo(0, cable.Reset())
		w.sends(lower, m.Upper)
	})
}

// What stops packets beside the flows is shown, with a cure that, carried out as it is written, mends it.
func TestWhatStopsPackets(t *testing.T) {
	for _, story := range []struct {
		name    string
		act     func(w *world, m ovstest.Mux)
		code    string
		passing bool // packets of the active ToR pass meanwhile
	}{
		{"a ToR told not to receive", func(w *world, m ovstest.Mux) { w.o.Ofctl("mod-port", m.Bridge, m.Lower, "no-receive") }, api.ConditionPortBlocked, false},
		{"the server's port told not to forward", func(w *world, m ovstest.Mux) { w.o.Ofctl("mod-port", m.Bridge, m.NIC, "no-forward") }, api.ConditionPortBlocked, false},
		{"a ToR taken down by OpenFlow", func(w *world, m ovstest.Mux) { w.o.Ofctl("mod-port", m.Bridge, m.Lower, "down") }, api.ConditionPortBlocked, false},
		{"the standby ToR told not to forward", func(w *world, m ovstest.Mux) { w.o.Ofctl("mod-port", m.Bridge, m.Upper, "no-forward") }, api.ConditionStandbyBlocked, true},
		{"the standby ToR's device down", func(w *world, m ovstest.Mux) { w.o.SetDown(m.Upper) }, api.ConditionStandbyBlocked, true},
		{"the server's device down", func(w *world, m ovstest.Mux) { w.o.SetDown(m.NIC) }, api.ConditionPortBlocked, false},
		{"a spanning tree that blocks", func(w *world, m ovstest.Mux) { w.o.Vsctl("set", "bridge", m.Bridge, "stp_enable=true") }, api.ConditionPortBlocked, false},
		{"a controller, which flushes", func(w *world, m ovstest.Mux) { w.o.Vsctl("set-controller", m.Bridge, "tcp:127.0.0.1:1") }, api.ConditionFlowsMissing, false},
		{"a lost flow", func(w *world, m ovstest.Mux) {
			_, _, low := w.number(0)
			w.o.Ofctl("--strict", "del-flows", m.Bridge, fmt.Sprintf("priority=32768,in_port=%d", low))
		}, api.ConditionFlowsMissing, false},
		{"a flow that times out", func(w *world, m ovstest.Mux) {
			nic, _, low := w.number(0)
			w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("hard_timeout=600,in_port=%d,actions=output:%d", low, nic))
		}, api.ConditionForeignFlow, true},
		{"both ToRs", func(w *world, m ovstest.Mux) {
			nic, up, _ := w.number(0)
			w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", up, nic))
		}, api.ConditionBothForward, true},
		{"flow-restore-wait for later", func(w *world, m ovstest.Mux) {
			w.o.Vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
		}, api.ConditionRestoreWaitSet, true},
		{"protocols", func(w *world, m ovstest.Mux) { w.o.Vsctl("set", "bridge", m.Bridge, "protocols=OpenFlow10,OpenFlow14") }, api.ConditionProtocols, true},
	} {
		t.Run(story.name, func(t *testing.T) {
			w := newVeths(t, 1)
			m := w.muxes[0]
			w.start(way{})
			w.shows(lower, "")
			story.act(w, m)
			w.shows(lower, story.code)
			if story.code == api.ConditionFlowsMissing {
				if got := w.Snapshot(0).State.Dropped; got != 0 {
					t.Errorf("what was flushed reads as dropped: %v", got)
				}
			}
			if got := w.o.Send(m.Bridge)[ovstest.Way{Protocol: ovstest.UDP, From: m.Lower, To: m.NIC}]; (got > 0) != story.passing {
				t.Errorf("%d packets pass meanwhile, want some: %v", got, story.passing)
			}
			// The cures, one after the other, until all is well: a controller that is removed flushes once more.
			for range 4 {
				// Changed protocols have Open vSwitch make the bridge's socket anew.
				wait.For(t, "the bridge can be read", func() bool { return !unreadable(w.Snapshot(0)) })
				s := w.Snapshot(0)
				if len(s.Conditions) == 0 {
					break
				}
				w.cure(s.Conditions[0].Cure)
				code := s.Conditions[0].Code
				wait.For(t, "the cure "+s.Conditions[0].Cure+" helps", func() bool {
					now := w.Snapshot(0).Conditions
					return len(now) == 0 || now[0].Code != code
				})
			}
			w.shows(lower, "")
			w.sends(lower)
		})
	}
}

// cure carries a cure out: the first of alternatives, each of its commands. mux-agent's own is played through the engine.
func (w *world) cure(text string) {
	w.Helper()
	first, _, _ := strings.Cut(text, ", or ")
	for command := range strings.SplitSeq(first, " && ") {
		words := strings.Fields(command)
		switch words[0] {
		case "mux-agent":
			w.mustDo(0, cable.Reset())
		case "ovs-vsctl":
			w.o.Vsctl(words[1:]...)
		case "ovs-ofctl":
			w.o.Ofctl(words[1:]...)
		case "ip":
			w.o.SetUp(words[4])
		default:
			w.Fatalf("nobody can carry out %q", text)
		}
	}
}

// A missing carrier is told, and leaves the mux healthy: sonic-mgmt's sanity check ends a session on unhealthy ports.
func TestAMissingCarrier(t *testing.T) {
	w := newVeths(t, 1)
	w.start(way{})
	w.shows(lower, "")
	w.o.Unplug(w.muxes[0].Upper)
	w.shows(lower, api.ConditionPortDown)
	w.sends(lower, w.muxes[0].Upper)
	w.o.Plug(w.muxes[0].Upper)
	w.shows(lower, "")
}

// Open vSwitch restarted by its own script: nothing passes until the flows are restored, and what was acknowledged since they
// were saved is put back.
func TestFlowRestoreWaitOnOVS(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		w := newVeths(t, 1)
		m := w.muxes[0]
		w.start(by)
		saved := w.o.Ofctl("--no-names", "--no-stats", "dump-flows", m.Bridge)
		w.mustDo(0, toggle)
		w.o.Vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
		w.shows(upper, api.ConditionRestoreWaitSet)
		w.o.Vswitchd.Stop()
		w.o.Vswitchd.Start()
		w.shows(upper, api.ConditionRestoring)
		if got := w.o.Send(m.Bridge); len(got) != 0 {
			t.Errorf("%v pass though nothing may", got)
		}
		if res := w.do(0, toggle); res.Err == nil || !strings.Contains(res.Err.Error(), "flow-restore-wait") {
			t.Errorf("a change meanwhile: %v, want it to be tried again", res.Err)
		}
		w.restoreFlows(m.Bridge, saved)
		w.o.Vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait")
		w.shows(upper, "")
		w.sends(upper)
		if got := w.Snapshot(0).Flaps; got != 1 {
			t.Errorf("%d flaps, want the one that was asked for", got)
		}
	})
}

// An agent that starts while a script restores flows waits, and adopts what was restored.
func TestAStartWhileFlowsAreRestored(t *testing.T) {
	w := newVeths(t, 1)
	m := w.muxes[0]
	saved := w.o.Ofctl("--no-names", "--no-stats", "dump-flows", m.Bridge)
	w.o.Vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
	w.o.Vswitchd.Stop()
	w.o.Vswitchd.Start()
	w.Engine, w.stop = startEngine(t, w.o, way{})
	wait.For(t, "the agent says what it waits for", func() bool {
		why := w.NotReady()
		return why != nil && why.Code == api.NotReadyRestoring
	})
	w.restoreFlows(m.Bridge, saved)
	w.o.Vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait")
	w.waitReady()
	w.shows(lower, "")
	w.sends(lower)
}

// Killed at any moment of its first start, the agent loses no side and leaves no mux without flows: the next start finds the
// one and has written the other.
func TestKilledWhileItStartsFirst(t *testing.T) {
	for i := range 12 {
		o := ovstest.Start(t)
		w := &world{T: t, o: o, muxes: o.AddMuxes(vmSet, 3)}
		for i := range w.muxes {
			w.setFlows(i, lower)
		}
		p := newProcess(t, o, w.muxes, way{}, 0) // returns when it listens, which is when it begins to read
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		p.Kill()
		again := newProcess(t, o, w.muxes, way{}, 0)
		again.WaitReady()
		for i := range w.muxes {
			if s := again.Status(i); s.ActiveSide != api.LowerToR || !s.Healthy {
				t.Errorf("killed after %d ms: mux %d is %s, healthy %v (%s)", i*3, i, s.ActiveSide, s.Healthy, s.Reason)
			}
			if got := o.Trace(w.muxes[i].Bridge, w.muxes[i].Lower); !slices.Equal(got, []string{w.muxes[i].NIC}) {
				t.Errorf("mux %d: a packet of the lower ToR comes out at %v", i, got)
			}
		}
		again.Stop()
	}
}

// Killed right after fail_mode was set, and before any flow was written: the side is in the database.
func TestKilledBetweenFailModeAndFlows(t *testing.T) {
	o := ovstest.Start(t)
	w := &world{T: t, o: o, muxes: o.AddMuxes(vmSet, 2)}
	for i := range w.muxes {
		w.setFlows(i, lower)
	}
	if sights := discover(t, newSwitch(t, o, openFlow(t, o))); !sights[w.muxes[0].Bridge].Flushed {
		t.Fatal("the flows were not removed, so there is nothing to lose")
	}
	w.start(way{})
	for i := range w.muxes {
		w.settles(i, lower, "")
	}
}

// A log that nobody reads keeps no change waiting: standard error is a pipe that is full.
func TestALogThatBlocks(t *testing.T) {
	fifo := t.TempDir() + "/log"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := unix.FcntlInt(reader.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	o := ovstest.Start(t)
	o.AddMuxes(vmSet, 4)
	stderr, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	p := agentproc.StartReady(t, agentproc.Config{VMSet: vmSet, RunDir: o.RunDir, Stderr: stderr})
	for range 60 {
		p.ToggleAll()
	}
	if code, text := p.Post(api.PortPath(vmSet, 0), `{"active_side":"nonsense"}`); code != 400 {
		t.Errorf("a refused request, which is logged: %d %s", code, text)
	}
	p.Stop() // and it ends in spite of it
}
