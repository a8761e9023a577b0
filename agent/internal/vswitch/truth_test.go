package vswitch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// The tests of this file do to a real Open vSwitch what people and faults do, while an engine serves it, and ask where
// packets go. Each runs twice: with an Open vSwitch that tells of changes, and with one that is polled.

var (
	upper  = cable.State{}
	lower  = cable.State{Active: cable.LowerToR}
	toggle = cable.Change{Move: cable.MoveToggle}
)

// TestTruthOfOneBridge does each thing to a mux of its own, whose lower ToR is active.
func TestTruthOfOneBridge(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		stories := []struct {
			name   string
			act    func(w *world, i int, m ovstest.Mux)
			want   cable.State
			reason string
			cause  engine.Cause
			mend   func(w *world, m ovstest.Mux) // nil where a reset is enough, or nothing is to be mended
		}{
			{name: "flushed", want: lower, reason: "the flow from lower_tor", cause: engine.External, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Ofctl("del-flows", m.Bridge)
			}},
			{name: "downstream flushed", want: lower, reason: "the flow from lower_tor", cause: engine.External, act: func(w *world, i int, m ovstest.Mux) {
				_, _, low := w.number(i)
				w.o.Ofctl("del-flows", m.Bridge, fmt.Sprintf("in_port=%d", low))
			}},
			{name: "switched by hand", want: upper, cause: engine.External, act: func(w *world, i int, m ovstest.Mux) {
				nic, up, low := w.number(i)
				w.o.Ofctl("del-flows", m.Bridge, fmt.Sprintf("in_port=%d", low))
				w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", up, nic))
			}},
			{name: "doubled", want: lower, reason: "packets of both ToRs reach the NIC", cause: engine.External, act: func(w *world, i int, m ovstest.Mux) {
				nic, up, _ := w.number(i)
				w.o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", up, nic))
			}},
			{name: "foreign", want: lower, reason: "foreign flow: priority=40000,arp actions=drop", cause: engine.External, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Ofctl("add-flow", m.Bridge, "priority=40000,arp,actions=drop")
			}},
			{name: "replaced", want: lower, reason: "the flow from lower_tor", cause: engine.External, act: func(w *world, i int, m ovstest.Mux) {
				_, up, low := w.number(i)
				w.o.Ofctl("mod-flows", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", low, up))
			}},
			{name: "NORMAL", want: lower, cause: engine.Recovery, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Ofctl("add-flow", m.Bridge, "priority=0,actions=NORMAL")
			}},
			{name: "fail_mode taken away", want: lower, cause: engine.Recovery, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Vsctl("del-fail-mode", m.Bridge)
			}},
			{name: "fail_mode standalone", want: lower, cause: engine.Recovery, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Vsctl("set-fail-mode", m.Bridge, "standalone")
			}},
			{name: "the NIC under a new number", want: lower, cause: engine.Recovery, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Vsctl("del-port", m.NIC)
				w.o.AddPort(m.Bridge, m.NIC)
			}},
			{name: "a ToR under a new number", want: lower, cause: engine.Recovery, act: func(w *world, _ int, m ovstest.Mux) {
				w.o.Vsctl("set", "Interface", m.Lower, "ofport_request=77")
			}},
			{
				name: "a port gone", want: lower, reason: "it has 2 ports", cause: engine.External,
				act:  func(w *world, _ int, m ovstest.Mux) { w.o.Vsctl("del-port", m.Lower) },
				mend: func(w *world, m ovstest.Mux) { w.o.AddPort(m.Bridge, m.Lower) },
			},
			{
				name: "OpenFlow 1.4 excluded", want: lower, reason: "ovs-vsctl clear bridge", cause: engine.External,
				act:  func(w *world, _ int, m ovstest.Mux) { w.o.Vsctl("set", "Bridge", m.Bridge, "protocols=OpenFlow10") },
				mend: func(w *world, m ovstest.Mux) { w.o.Vsctl("clear", "bridge", m.Bridge, "protocols") },
			},
			{
				name: "the sides changed over", want: upper, cause: engine.External,
				act: func(w *world, i int, m ovstest.Mux) {
					w.o.Vsctl("set", "Port", m.Upper, "external_ids:mux-side=lower_tor")
					w.muxes[i].Upper, w.muxes[i].Lower = m.Lower, m.Upper
				},
			},
		}
		w := newWorld(t, by, len(stories))
		all := map[int]cable.Change{}
		for i := range stories {
			all[i] = toggle
		}
		for i, res := range w.Do(t.Context(), all, engine.Origin{Cause: engine.API}) {
			if res.Err != nil {
				t.Fatalf("mux %d: %v", i, res.Err)
			}
		}
		for i, story := range stories {
			events := len(w.Journal.History(i))
			story.act(w, i, w.muxes[i])
			w.settles(i, story.want, story.reason)
			if story.mend == nil {
				waitFor(t, story.name+": an event", func() bool { return story.cause == engine.Recovery || len(w.Journal.History(i)) > events })
			}
			if causes := w.causes(i, events); story.cause == engine.External && !slices.Equal(causes, []engine.Cause{story.cause}) {
				t.Errorf("%s: events by %v, want %v", story.name, causes, story.cause)
			} else if story.cause == engine.Recovery {
				waitFor(t, story.name+": recovered", func() bool { return slices.Contains(w.causes(i, events), engine.Recovery) })
				w.settles(i, story.want, "")
			}
			if story.mend != nil {
				if res := w.do(i, toggle); res.Err == nil {
					t.Errorf("%s: a change succeeded on what is not a mux", story.name)
				}
				story.mend(w, w.muxes[i])
				w.settles(i, story.want, "")
			}
			if got := w.Snapshot(i).Flaps; got != 1 {
				t.Errorf("%s: %d flaps, want the one that was asked for", story.name, got)
			}
			w.mustDo(i, cable.Reset())
			w.settles(i, cable.State{Active: story.want.Active}, "")
		}
	})
}

func TestTruthOfBridgesThatComeAndGo(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		w := newWorld(t, by, 2)
		w.mustDo(1, toggle)
		w.o.Vsctl("del-br", w.muxes[0].Bridge)
		waitFor(t, "the mux is gone", func() bool { return w.Snapshot(0) == nil })
		if evs := w.Journal.History(0); evs[len(evs)-1].To != nil {
			t.Errorf("the last event is %+v, want one that says that the mux is gone", evs[len(evs)-1])
		}
		w.build(w.muxes[0])
		w.settles(0, lower, "")
		if got := strings.TrimSpace(w.o.Vsctl("get-fail-mode", w.muxes[0].Bridge)); got != "secure" {
			t.Errorf("fail_mode is %q, want secure", got)
		}

		// Made anew in one go, as by a script that does not wait: the same mux, with nothing on it.
		m := w.muxes[1]
		w.o.Vsctl("del-br", m.Bridge)
		w.o.AddMux(m.Bridge, m.NIC, m.Upper, m.Lower)
		waitFor(t, "it is a mux again", func() bool { s := w.Snapshot(1); return s != nil && s.Healthy() && w.goesSo(1, s.State) })

		// Bridges that are none, beside.
		w.o.AddMux("mbr-"+vmSet+"-7", "eth7", "a7", "b7")
		w.o.AddMux("mb-"+vmSet+"-1", "mu1", "a1", "b1")
		w.o.AddMux("mbr-"+vmSet+"-1-0", "mu8", "a8", "b8")
		want := []string{"mb-" + vmSet + "-1", "mbr-" + vmSet + "-7"}
		waitFor(t, "the stray bridges are listed", func() bool { return slices.Equal(w.rejected(), want) })
		w.o.Vsctl("set", "Port", "eth7", "external_ids:mux-side=nic")
		waitFor(t, "one that was mended is served", func() bool { return w.Snapshot(7) != nil && slices.Equal(w.rejected(), want[:1]) })
		w.o.Vsctl("del-br", want[0])
		waitFor(t, "one that is gone is no longer listed", func() bool { return len(w.Rejected()) == 0 })
	})
}

func (w *world) rejected() []string {
	var bridges []string
	for _, r := range w.Rejected() {
		bridges = append(bridges, r.Bridge)
	}
	slices.Sort(bridges)
	return bridges
}

// TestTruthOverOutages ends and restarts Open vSwitch's processes. While they are away, or hang, the last state is read,
// and changes fail.
func TestTruthOverOutages(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		w := newWorld(t, by, 3)
		w.mustDo(1, toggle)
		w.mustDo(2, cable.Change{Drop: cable.RolesOf(cable.Upper)})
		want := map[int]cable.State{0: upper, 1: lower, 2: {Dropped: cable.RolesOf(cable.Upper)}}
		vswitchd, server := w.o.Vswitchd, w.o.Server
		var saved map[string]string
		for _, outage := range []struct {
			name       string
			begin, end func()
		}{
			{"ovs-vswitchd stopped", vswitchd.Stop, vswitchd.Start},
			{"ovs-vswitchd killed", vswitchd.Kill, vswitchd.Start},
			{"ovsdb-server stopped", server.Stop, server.Start},
			{"ovs-ctl restart", func() {
				saved = map[string]string{}
				for _, m := range w.muxes {
					saved[m.Bridge] = w.o.Ofctl("--no-names", "--no-stats", "dump-flows", m.Bridge)
				}
				w.o.Vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
				vswitchd.Stop()
			}, func() {
				vswitchd.Start()
				for bridge, flows := range saved {
					w.restoreFlows(bridge, flows)
				}
				w.o.Vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait")
			}},
			{"both killed", func() { vswitchd.Kill(); server.Kill() }, func() { server.Start(); vswitchd.Start() }},
		} {
			events := map[int]int{}
			for i := range want {
				events[i] = len(w.Journal.History(i))
			}
			waits := outage.name == "ovs-ctl restart"
			outage.begin()
			waitFor(t, outage.name+" shows", func() bool {
				return !slices.ContainsFunc(w.Snapshots(), func(s *engine.Snapshot) bool { return !unreadable(s) })
			})
			for i, state := range want {
				if s := w.Snapshot(i); s.State != state {
					t.Errorf("%s: mux %d is %v meanwhile, was %v", outage.name, i, s.State, state)
				}
				since := slices.DeleteFunc(w.Journal.History(i)[events[i]:], func(ev engine.Event) bool {
					return waits && ev.Cause == engine.External // it was seen that flow-restore-wait is set
				})
				if len(since) != 1 || since[0].Cause != engine.Outage {
					t.Errorf("%s: mux %d has %d events of it, want one: %v", outage.name, i, len(since), since)
				}
			}
			outage.end()
			for i, state := range want {
				w.settles(i, state, "")
			}
		}
		if got := w.Snapshot(1).Flaps; got != 1 {
			t.Errorf("%d flaps, want 1", got)
		}
	})
}

func unreadable(s *engine.Snapshot) bool {
	return slices.ContainsFunc(s.Conditions, func(c api.Condition) bool { return c.Code == api.ConditionUnreadable })
}

// restoreFlows writes flows back as Open vSwitch's own restart does.
func (w *world) restoreFlows(bridge, flows string) {
	cmd := w.o.Command("ovs-ofctl", "--bundle", "replace-flows", bridge, "-")
	cmd.Stdin = strings.NewReader(flows)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("restore flows: %v: %s", err, out)
	}
}

// TestTruthOfAHungSwitch: what a switch does late is published under the request that asked for it.
func TestTruthOfAHungSwitch(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		by.timeout = time.Second
		w := newWorld(t, by, 2)
		w.settles(0, upper, "")
		w.settles(1, upper, "")
		w.o.Vswitchd.Pause()
		var refused *cable.SwitchError
		res := w.do(0, toggle, "late")
		if refused, _ = res.Err.(*cable.SwitchError); refused == nil || !refused.Unknown {
			t.Errorf("error %v, want an unknown outcome", res.Err)
		}
		if s := w.Snapshot(0); s.State != upper || s.Healthy() {
			t.Errorf("meanwhile %v, healthy %v; want the last state, unhealthy", s.State, s.Healthy())
		}
		w.o.Vswitchd.Continue()
		w.settles(0, lower, "")
		w.settles(1, upper, "")
		evs := w.Journal.History(0)
		i := slices.IndexFunc(evs, func(ev engine.Event) bool { return ev.To.State == lower })
		if i < 0 || evs[i].ReqID != "late" || evs[i].Cause != engine.API || w.Snapshot(0).Flaps != 1 {
			t.Errorf("%d flaps, history %v; want the change under its request, and one flap", w.Snapshot(0).Flaps, evs)
		}
	})
}

func TestTruthWhenTheFlowTableIsFull(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		w := newWorld(t, by, 1)
		m := w.muxes[0]
		w.o.Vsctl("--", "--id=@t", "create", "Flow_Table", "flow_limit=1", "overflow_policy=refuse", "--", "set", "Bridge", m.Bridge, "flow_tables:0=@t")
		res := w.do(0, toggle)
		if res.Err == nil || !strings.Contains(res.Err.Error(), "TABLE_FULL") {
			t.Errorf("error %v, want OVS's own words", res.Err)
		}
		w.settles(0, upper, "")
		w.o.Vsctl("clear", "Bridge", m.Bridge, "flow_tables")
		w.mustDo(0, toggle)
		w.settles(0, lower, "")
	})
}

// TestTruthOfALateStart starts before there is anything to serve.
func TestTruthOfALateStart(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		o := ovstest.Start(t)
		w := &world{T: t, o: o, muxes: o.AddMuxes(vmSet, 2)}
		o.SetTestbedFlows(w.muxes...)
		nic := w.muxes[1].NIC
		o.DeleteDevice(nic) // as it is before the test container runs
		o.Vswitchd.Kill()
		o.Server.Kill()
		w.Engine, w.stop = startEngine(t, o, by)
		waitFor(t, "the engine says why it is not ready", func() bool {
			return w.NotReady() != nil && strings.Contains(w.NotReady().Reason, "is ovsdb-server running")
		})
		o.Server.Start()
		o.Vswitchd.Start()
		w.waitReady()
		w.settles(0, upper, "")
		w.settles(1, upper, "No such device")
		o.MakeDevice(nic)
		w.settles(1, upper, "")
	})
}

// TestTruthOfTwoAgents: each adopts what the other does, and neither fights.
func TestTruthOfTwoAgents(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		w := newWorld(t, by, 3)
		other := &world{T: t, o: w.o, muxes: w.muxes}
		other.Engine, other.stop = startEngine(t, w.o, by)
		other.waitReady()
		events := len(w.Journal.History(0))
		for range 3 {
			for i := range w.muxes {
				w.mustDo(i, toggle)
				other.settles(i, w.Snapshot(i).State, "")
				other.mustDo(i, toggle)
				w.settles(i, other.Snapshot(i).State, "")
			}
		}
		for i := range w.muxes {
			if a, b := w.Snapshot(i).Flaps, other.Snapshot(i).Flaps; a != 3 || b != 3 {
				t.Errorf("mux %d: %d and %d flaps, want 3 each", i, a, b)
			}
			if causes := slices.Compact(slices.Sorted(slices.Values(w.causes(i, events)))); !slices.Equal(causes, []engine.Cause{engine.API, engine.External}) {
				t.Errorf("mux %d: events by %v, want the own and the other's", i, causes)
			}
		}
		w.o.Vswitchd.Kill()
		w.o.Vswitchd.Start()
		for i := range w.muxes {
			w.settles(i, upper, "")
			other.settles(i, upper, "")
		}
	})
}

// TestTruthOfAVeth removes the device of the NIC's port, as when the test container dies alone, and brings it back.
func TestTruthOfAVeth(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		o := ovstest.Start(t, ovstest.Userspace())
		m := ovstest.Mux{Bridge: "mbr-" + vmSet + "-0", NIC: "muxy-" + vmSet + "-0", Upper: "p0.9", Lower: "p0.10"}
		w := &world{T: t, o: o, muxes: []ovstest.Mux{m}}
		ip := func(args ...string) {
			if out, err := o.Command("ip", args...).CombinedOutput(); err != nil {
				t.Fatalf("ip %v: %v: %s", args, err, out)
			}
		}
		veth := []string{"link", "add", m.NIC, "type", "veth", "peer", "name", "container"}
		ip(veth...)
		o.AddBridge(m.Bridge, m.Upper, m.Lower)
		o.Vsctl("add-port", m.Bridge, m.NIC)
		up := func() {
			for _, port := range []string{m.NIC, m.Upper, m.Lower} {
				ip("link", "set", port, "up")
			}
			ip("link", "set", "container", "up")
		}
		up()
		o.SetTestbedFlows(m)
		w.Engine, w.stop = startEngine(t, o, by)
		w.waitReady()
		w.mustDo(0, toggle)
		w.settles(0, lower, "")
		ip("link", "del", m.NIC)
		w.settles(0, lower, m.NIC)
		ip(veth...)
		up()
		w.settles(0, lower, "")
		w.mustDo(0, toggle)
		w.settles(0, upper, "")
	})
}

// A change that comes right after a restart, perhaps before anybody has noticed it, meets an empty flow table.
func TestTruthOfAChangeRightAfterARestart(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		w := newWorld(t, by, 8)
		w.o.Vswitchd.Kill()
		w.o.Vswitchd.Start()
		for i := range w.muxes {
			toLower := cable.Change{Move: cable.MoveTo, Side: cable.LowerToR}
			waitFor(t, "the switch takes changes", func() bool { return w.do(i, toLower).Err == nil })
		}
		for i := range w.muxes {
			w.settles(i, lower, "")
		}
	})
}
