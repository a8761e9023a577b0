package vswitch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// openFlow is a Config with the native client.
func openFlow(t *testing.T, o *ovstest.OVS) func(*vswitch.Config) {
	pool := openflow.NewPool(openflow.Config{Dir: o.RunDir, Timeout: wait.Limit})
	t.Cleanup(pool.Close)
	return func(cfg *vswitch.Config) { cfg.Conn = pool }
}

// TestWatchTellsFacts: what stops packets beside flows is seen of the port or bridge that has it, and when it is over.
func TestWatchTellsFacts(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"openflow", "ovs-ofctl"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			o := ovstest.Start(t)
			m := o.AddMuxes(vmSet, 2)[0]
			var conn []func(*vswitch.Config)
			if driver == "openflow" {
				conn = append(conn, openFlow(t, o))
			}
			s := newSwitch(t, o, conn...)
			settle(t, s, discover(t, s)[m.Bridge].Mux, cable.State{})
			before := read(t, s, m.Bridge)
			wait := watch(t, s)
			for _, fact := range []struct {
				name        string
				begin, end  func()
				change      func(*cable.Sight)
				onlyByFresh bool // ovs-ofctl would need a process for each look
			}{
				{
					"no-receive",
					func() { o.Ofctl("mod-port", m.Bridge, m.Upper, "no-receive") },
					func() { o.Ofctl("mod-port", m.Bridge, m.Upper, "receive") },
					func(s *cable.Sight) { s.Mux.Ports[cable.Upper].NoReceive = true },
					true,
				},
				{
					"no-forward",
					func() { o.Ofctl("mod-port", m.Bridge, m.NIC, "no-forward") },
					func() { o.Ofctl("mod-port", m.Bridge, m.NIC, "forward") },
					func(s *cable.Sight) { s.Mux.Ports[cable.NIC].NoForward = true },
					true,
				},
				{
					"down",
					func() { o.Ofctl("mod-port", m.Bridge, m.Lower, "down") },
					func() { o.Ofctl("mod-port", m.Bridge, m.Lower, "up") },
					func(s *cable.Sight) { s.Mux.Ports[cable.Lower].Down = true },
					false,
				},
				{
					"controller",
					func() { o.Vsctl("set-controller", m.Bridge, "unix:"+o.RunDir+"/nobody") },
					func() { o.Vsctl("del-controller", m.Bridge) },
					func(s *cable.Sight) { s.Settings.Controller = true },
					false,
				},
				{
					"protocols",
					func() { o.Vsctl("set", "Bridge", m.Bridge, "protocols=OpenFlow10,OpenFlow14") },
					func() { o.Vsctl("clear", "Bridge", m.Bridge, "protocols") },
					func(s *cable.Sight) { s.Settings.Protocols = "OpenFlow10,OpenFlow14" },
					false,
				},
				{
					"restore wait",
					func() { o.Vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true") },
					func() { o.Vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait") },
					func(s *cable.Sight) { s.Settings.RestoreWait = true },
					false,
				},
				{
					"remembered",
					func() { o.Vsctl("set", "Bridge", m.Bridge, "external_ids:mux-agent-side=lower_tor") },
					func() { o.Vsctl("remove", "Bridge", m.Bridge, "external_ids", "mux-agent-side") },
					func(s *cable.Sight) { s.Remembered = "lower_tor" },
					false,
				},
			} {
				if fact.onlyByFresh && driver == "ovs-ofctl" {
					continue
				}
				want := before
				fact.change(&want)
				shows := func(want cable.Sight) func(cable.Sight) bool {
					return func(got cable.Sight) bool {
						return got.Bridge == m.Bridge && got.Mux == want.Mux && got.Settings == want.Settings && got.Remembered == want.Remembered
					}
				}
				fact.begin()
				wait(fact.name, shows(want))
				fact.end()
				wait(fact.name+" is over", shows(before))
			}
		})
	}
}

// TestWatchTellsOfSpanningTrees: a port passes nothing while its spanning tree listens and learns, and Open vSwitch says so in
// the database alone.
func TestWatchTellsOfSpanningTrees(t *testing.T) {
	t.Parallel()
	for tree, state := range map[string]string{"stp": "listening", "rstp": "discarding"} {
		t.Run(tree, func(t *testing.T) {
			t.Parallel()
			o := ovstest.Start(t)
			m := o.AddMuxes(vmSet, 1)[0]
			s := newSwitch(t, o, openFlow(t, o))
			settle(t, s, discover(t, s)[m.Bridge].Mux, cable.State{})
			wait := watch(t, s)
			o.Vsctl("set", "Bridge", m.Bridge, tree+"_enable=true")
			wait("the ports are blocked", func(s cable.Sight) bool {
				return s.Settings.SpanningTree == tree && s.Mux.Ports[cable.Upper].Blocked == state
			})
			if tree == "stp" {
				o.Vsctl("set", "Bridge", m.Bridge, "other_config:stp-forward-delay=4")
			}
			wait("the ports forward", func(s cable.Sight) bool {
				return s.Settings.SpanningTree == tree && s.Mux.Ports[cable.Upper].Blocked == ""
			})
		})
	}
}

// TestCodesOfRejection: each reason has its code.
func TestCodesOfRejection(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	o.AddMux("mbr-vms17-8-0", "muxy-vms17-8-0", "a", "b")
	o.AddMux("mb-vms17-8-0", "mu0", "h", "i")
	o.AddMux("mbr-vms17-8-2", "mu2", "c", "d")
	o.Vsctl("set", "Bridge", "mbr-vms17-8-2", "protocols=OpenFlow10,OpenFlow13")
	o.AddMux("mbr-vms17-8-3", "mu3", "e", "f")
	o.AddPort("mbr-vms17-8-3", "g")
	got := map[string]string{}
	for bridge, sight := range discover(t, newSwitch(t, o, openFlow(t, o))) {
		got[bridge] = sight.Code
		if (sight.Code == "") != (sight.Rejected == "") {
			t.Errorf("%s: code %q, reason %q", bridge, sight.Code, sight.Rejected)
		}
	}
	want := map[string]string{
		"mbr-vms17-8-0": "", "mb-vms17-8-0": api.RejectedIndex, "mbr-vms17-8-2": api.RejectedProtocols, "mbr-vms17-8-3": api.RejectedPorts,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

// TestPrepareRemembersTheSide: what flows told is noted in the step that removes them, for whoever comes after an agent that was
// killed there; and is gone after the first change.
func TestPrepareRemembersTheSide(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	muxes := o.AddMuxes(vmSet, 2)
	o.SetTestbedFlows(muxes[0])
	p := o.Ports(muxes[0].Bridge)
	m := muxes[0]
	lowerFlows := cable.Ports{{Number: p[m.NIC]}, {Number: p[m.Upper]}, {Number: p[m.Lower]}}.Want(lower)
	first := newSwitch(t, o, openFlow(t, o))
	if err := apply(t, first, cable.Update{Bridge: m.Bridge, Want: lowerFlows})[0]; err != nil {
		t.Fatal(err)
	}
	side := func(bridge string) string {
		return strings.TrimSpace(o.Vsctl("get", "Bridge", bridge, "external_ids"))
	}
	if got := discover(t, first)[m.Bridge]; !got.Flushed || got.Remembered != "lower_tor" {
		t.Errorf("flushed %v, remembered %q", got.Flushed, got.Remembered)
	}
	if got := side(m.Bridge); got != "{mux-agent-side=lower_tor}" {
		t.Errorf("external_ids %s, want the side that was read", got)
	}
	if got := side(muxes[1].Bridge); got != "{}" {
		t.Errorf("external_ids %s of a bridge whose flows tell no side", got)
	}

	// The agent is killed here, and another one starts.
	s := newSwitch(t, o, openFlow(t, o))
	sight := discover(t, s)[m.Bridge]
	if len(sight.Flows) != 0 || sight.Remembered != "lower_tor" {
		t.Errorf("flows %v, remembered %q; want none, and the side", sight.Flows, sight.Remembered)
	}
	wait := watch(t, s)
	settle(t, s, sight.Mux, lower)
	wait("the side is forgotten", func(s cable.Sight) bool { return s.Bridge == m.Bridge && s.Remembered == "" && len(s.Flows) == 2 })
	if got := side(m.Bridge); got != "{}" {
		t.Errorf("external_ids %s after the first change", got)
	}
}

// TestFailModeIsNotFought: whoever unsets fail_mode over and over has it set again once, and then once a minute.
func TestFailModeIsNotFought(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 1)[0]
	s := newSwitch(t, o, openFlow(t, o))
	discover(t, s)
	o.Vsctl("del-fail-mode", m.Bridge)
	if got := read(t, s, m.Bridge); !got.Flushed || got.Settings.Standalone {
		t.Errorf("flushed %v, standalone %v; want it set again", got.Flushed, got.Settings.Standalone)
	}
	o.Vsctl("del-fail-mode", m.Bridge)
	if got := read(t, s, m.Bridge); got.Flushed || got.Unprepared || !got.Settings.Standalone {
		t.Errorf("flushed %v, unprepared %v, standalone %v; want it shown and left alone", got.Flushed, got.Unprepared, got.Settings.Standalone)
	}
}
