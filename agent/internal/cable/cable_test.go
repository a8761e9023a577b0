package cable_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

var ports = cable.Ports{
	cable.NIC:   {Name: "muxy-vms17-8-0", Number: 7},
	cable.Upper: {Name: "p0.9", Number: 3},
	cable.Lower: {Name: "p0.10", Number: 5},
}

func mux(p cable.Ports) *cable.Mux {
	return &cable.Mux{VMSet: "vms17-8", Index: 0, Bridge: "mbr-vms17-8-0", Ports: p}
}

// without returns the ports with those of some roles missing.
func without(roles cable.Roles) cable.Ports {
	p := ports
	for _, r := range roles.List() {
		p[r].Number, p[r].Fault = 0, "could not open network device "+p[r].Name+" (No such device)"
	}
	return p
}

// everyState returns the sixteen states that a cable can be in.
func everyState() []cable.State {
	var states []cable.State
	for _, side := range []cable.Side{cable.UpperToR, cable.LowerToR} {
		for dropped := range cable.AllRoles + 1 {
			states = append(states, cable.State{Active: side, Dropped: dropped})
		}
	}
	return states
}

func codes(conditions []api.Condition) string {
	var list []string
	for _, c := range conditions {
		list = append(list, c.Code)
	}
	return strings.Join(list, " ")
}

// What Program writes, Read must find again, and a packet must take the way that the state promises.
func TestEveryStateSurvivesTheSwitch(t *testing.T) {
	for _, s := range everyState() {
		t.Run(s.String(), func(t *testing.T) {
			want := ports.Program(s, 77)
			for _, flows := range [][]cable.Entry{want, {want[1], want[0]}} {
				got := mux(ports).Read(flows, cable.Settings{}, cable.State{Active: s.Active.Other(), Dropped: cable.AllRoles &^ s.Dropped})
				if diff := cmp.Diff(cable.Reading{State: s, Proper: true, SideKnown: true, Request: 77}, got); diff != "" {
					t.Errorf("Read(Program(s)) (-want +got):\n%s", diff)
				}
			}
			for _, side := range []cable.Side{cable.UpperToR, cable.LowerToR} {
				passes := s.Active == side && !s.Dropped.Has(cable.NIC)
				wantForward(t, want, side.Role(), map[cable.Role]bool{cable.NIC: passes})
			}
			wantForward(t, want, cable.NIC, map[cable.Role]bool{
				cable.Upper: !s.Dropped.Has(cable.Upper), cable.Lower: !s.Dropped.Has(cable.Lower),
			})
		})
	}
}

func wantForward(t *testing.T, flows []cable.Entry, from cable.Role, want map[cable.Role]bool) {
	t.Helper()
	out, ok := cable.Forward(flows, ports[from].Number)
	if !ok {
		t.Errorf("Forward from %s is open", from)
	}
	for _, to := range []cable.Role{cable.NIC, cable.Upper, cable.Lower} {
		if got := slices.Contains(out, ports[to].Number); got != want[to] {
			t.Errorf("from %s to %s: passes = %v, want %v", from, to, got, want[to])
		}
	}
}

// apply does to flows what a switch does at an update.
func apply(flows []cable.Entry, u cable.Update) []cable.Entry {
	flush, del, add := u.Steps()
	if flush {
		flows = nil
	}
	remove := func(f cable.Flow) {
		flows = slices.DeleteFunc(slices.Clone(flows), func(e cable.Entry) bool { return e.SameMatch(f) })
	}
	for _, f := range del {
		remove(f)
	}
	for _, e := range add {
		remove(e.Flow)
		flows = append(flows, e)
	}
	return flows
}

// An update must lead from any state to any other, with any ports missing before and after, whatever is known of what stands
// there, and what it leaves must tell the state to somebody who knows nothing else.
func TestUpdateLeadsFromAnyStateToAnyOther(t *testing.T) {
	for missing := range cable.AllRoles + 1 {
		for missingAfter := range cable.AllRoles + 1 {
			for _, from := range everyState() {
				for _, to := range everyState() {
					have, after := without(missing).Program(from, 0), without(missingAfter)
					for _, known := range []bool{true, false} {
						for _, request := range []uint64{0, 5} {
							u := cable.Update{Have: have, Want: after.Program(to, request), Known: known}
							got := mux(after).Read(apply(have, u), cable.Settings{}, cable.State{Active: to.Active.Other()})
							if !got.Proper || got.State != to || got.Request != request {
								t.Fatalf("%v → %v (missing %v, then %v; known %v, request %d): got %+v", from, to, missing, missingAfter, known, request, got)
							}
						}
					}
				}
			}
		}
	}
}

// When ports go, the flows that stand tell the side still, and when they are back, a placeholder is known to be unfinished.
func TestASideOutlivesItsPorts(t *testing.T) {
	for missing := cable.Roles(1); missing <= cable.AllRoles; missing++ {
		for _, s := range everyState() {
			last := cable.State{Active: s.Active.Other()}
			if missing&cable.RolesOf(cable.Upper, cable.Lower) != cable.RolesOf(cable.Upper, cable.Lower) && !s.Dropped.Has(cable.NIC) {
				got := mux(without(missing)).Read(ports.Program(s, 0), cable.Settings{}, last)
				if got.State.Active != s.Active || !got.SideKnown {
					t.Errorf("%v, then %v went: read as %+v", s, missing, got)
				}
				first := api.ConditionPortMissing
				if missing == cable.RolesOf(s.Active.Other().Role()) {
					first = api.ConditionStandbyMissing
				}
				if strings.Contains(codes(got.Conditions), api.ConditionForeignFlow) || !strings.HasPrefix(codes(got.Conditions), first) {
					t.Errorf("%v, then %v went: conditions %v, want %s first and no foreign flow", s, missing, codes(got.Conditions), first)
				}
			}
			got := mux(ports).Read(without(missing).Program(s, 9), cable.Settings{}, last)
			if got.State.Active != s.Active || !got.Unfinished || got.Proper {
				t.Errorf("%v written without %v, then all were there: read as %+v", s, missing, got)
			}
		}
	}
}

func TestReadJudgesByWherePacketsGo(t *testing.T) {
	entry := func(f cable.Flow) cable.Entry { return cable.Entry{Flow: f} }
	flow := func(in uint32, out ...uint32) cable.Entry { return entry(cable.NewFlow(in, out...)) }
	up, upperToNIC, lowerToNIC := flow(7, 3, 5), flow(3, 7), flow(5, 7)
	normal := entry(cable.Flow{Action: cable.Normal})
	timed := upperToNIC
	timed.HardTimeout = 60
	nic, both := cable.RolesOf(cable.NIC), cable.RolesOf(cable.Upper, cable.Lower)
	last := cable.State{Active: cable.LowerToR, Dropped: cable.RolesOf(cable.Upper)}
	tests := []struct {
		name   string
		flows  []cable.Entry
		want   cable.State
		known  bool
		proper bool
		codes  string
		reason string
	}{
		{name: "no flows", want: last, codes: "flows_missing flows_missing", reason: "the flow from lower_tor (p0.10) to the NIC is missing"},
		{name: "no downstream flow", flows: []cable.Entry{up}, want: cable.State{Active: cable.LowerToR}, codes: "flows_missing"},
		{
			name: "no upstream flow", flows: []cable.Entry{upperToNIC}, want: cable.State{Dropped: last.Dropped}, known: true, codes: "flows_missing",
			reason: "the flow from the NIC (muxy-vms17-8-0) to the ToRs is missing",
		},
		{name: "an upstream flow with one output", flows: []cable.Entry{flow(7, 3), upperToNIC}, want: cable.State{Dropped: cable.RolesOf(cable.Lower)}, known: true, proper: true},
		{name: "drops", flows: []cable.Entry{flow(7), flow(3)}, want: cable.State{Dropped: cable.AllRoles}, known: true, proper: true},
		{
			name: "two downstream flows", flows: []cable.Entry{up, upperToNIC, lowerToNIC}, want: cable.State{Active: cable.LowerToR}, codes: "both_forward",
			reason: "packets of both ToRs reach the NIC",
		},
		{name: "standby ToR dropped beside the active one", flows: []cable.Entry{up, upperToNIC, flow(5)}, want: cable.State{}, known: true},
		{name: "both ToRs dropped", flows: []cable.Entry{up, flow(3), flow(5)}, want: cable.State{Active: cable.LowerToR, Dropped: nic}},
		{name: "outputs in the other order", flows: []cable.Entry{flow(7, 5, 3), upperToNIC}, want: cable.State{}, known: true, proper: true},
		{
			name: "after OVS restarted", flows: []cable.Entry{normal}, want: last, codes: "flows_missing flows_missing foreign_flow",
		},
		{
			name: "NORMAL beside ours", flows: []cable.Entry{normal, up, upperToNIC}, want: cable.State{}, known: true, codes: "foreign_flow",
			reason: "foreign flow: priority=0 actions=NORMAL",
		},
		{
			name: "a person's flow on top", flows: []cable.Entry{up, upperToNIC, entry(cable.Flow{Priority: 40000, InPort: 3})},
			want: cable.State{}, known: true, codes: "foreign_flow", reason: "foreign flow: priority=40000,in_port=3 actions=drop",
		},
		{
			name: "a match of its own", flows: []cable.Entry{up, upperToNIC, entry(cable.Flow{Priority: cable.Priority, InPort: 3, Match: "arp"})},
			want: cable.State{}, known: true, codes: "foreign_flow", reason: "foreign flow: in_port=3,arp actions=drop",
		},
		{name: "ToRs bridged", flows: []cable.Entry{up, flow(3, 5, 7)}, want: cable.State{}, known: true, codes: "foreign_flow", reason: "foreign flow: in_port=3 actions=output:5,output:7"},
		{
			name: "dead port numbers", flows: []cable.Entry{flow(9, 3, 5), flow(3, 9)}, want: last,
			codes: "flows_missing flows_missing foreign_flow foreign_flow",
		},
		{
			name: "another table", flows: []cable.Entry{up, upperToNIC, entry(cable.Flow{Table: 1, Priority: cable.Priority})}, want: cable.State{}, known: true,
			codes: "foreign_flow", reason: "foreign flow: table=1 actions=drop",
		},
		{name: "one of ours that times out", flows: []cable.Entry{up, timed}, want: cable.State{}, known: true, codes: "foreign_flow", reason: "flow that times out: in_port=3,hard_timeout=60 actions=output:7"},
		{name: "many foreign flows", flows: append([]cable.Entry{up, upperToNIC}, manyFlows(22_000)...), want: cable.State{}, known: true, codes: "foreign_flow foreign_flow foreign_flow foreign_flow"},
		{name: "a side by another priority", flows: []cable.Entry{up, entry(cable.Flow{Priority: 9, InPort: 3, Out: [2]uint32{7}})}, want: cable.State{}, known: true, codes: "foreign_flow"},
		{name: "both drop, at the bottom of nothing", flows: []cable.Entry{flow(7)}, want: cable.State{Active: cable.LowerToR, Dropped: both}, codes: "flows_missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mux(ports).Read(tt.flows, cable.Settings{}, last)
			if got.State != tt.want || got.SideKnown != tt.known {
				t.Errorf("state = %v (side known: %v), want %v (%v)", got.State, got.SideKnown, tt.want, tt.known)
			}
			if codes(got.Conditions) != tt.codes {
				t.Errorf("conditions = %q, want %q", codes(got.Conditions), tt.codes)
			}
			if tt.reason != "" && got.Conditions[0].Reason != tt.reason {
				t.Errorf("reason = %q\n    want %q", got.Conditions[0].Reason, tt.reason)
			}
			if got.Proper != tt.proper {
				t.Errorf("proper = %v, want %v", got.Proper, tt.proper)
			}
		})
	}
}

func manyFlows(n int) []cable.Entry {
	flows := make([]cable.Entry, n)
	for i := range flows {
		flows[i].Flow = cable.Flow{Priority: uint16(i), Match: "arp"}
	}
	return flows
}

// Each fact about ports and settings has its condition, and the conditions come in the order of the wire's table.
func TestConditionsOfPortsAndSettings(t *testing.T) {
	set := func(r cable.Role, f func(*cable.Port)) cable.Ports {
		p := ports
		f(&p[r])
		return p
	}
	tests := []struct {
		name     string
		ports    cable.Ports
		settings cable.Settings
		code     string
		cure     string
	}{
		{"gone", without(cable.RolesOf(cable.Upper)), cable.Settings{}, api.ConditionPortMissing, "ip link show p0.9"},
		{"down", set(cable.NIC, func(p *cable.Port) { p.Down = true }), cable.Settings{}, api.ConditionPortBlocked, "ip link set dev muxy-vms17-8-0 up"},
		{"no-receive", set(cable.Upper, func(p *cable.Port) { p.NoReceive = true }), cable.Settings{}, api.ConditionPortBlocked, "ovs-ofctl mod-port mbr-vms17-8-0 p0.9 receive"},
		{"gone, of the standby ToR", without(cable.RolesOf(cable.Lower)), cable.Settings{}, api.ConditionStandbyMissing, "ip link show p0.10"},
		{"no-forward", set(cable.NIC, func(p *cable.Port) { p.NoForward = true }), cable.Settings{}, api.ConditionPortBlocked, "ovs-ofctl mod-port mbr-vms17-8-0 muxy-vms17-8-0 forward"},
		{"no-forward to the standby ToR", set(cable.Lower, func(p *cable.Port) { p.NoForward = true }), cable.Settings{}, api.ConditionStandbyBlocked, "ovs-ofctl mod-port mbr-vms17-8-0 p0.10 forward"},
		{"stp blocks", set(cable.Upper, func(p *cable.Port) { p.Blocked = "listening" }), cable.Settings{SpanningTree: "stp"}, api.ConditionPortBlocked, "ovs-vsctl set bridge mbr-vms17-8-0 stp_enable=false"},
		{"rstp forwards", ports, cable.Settings{SpanningTree: "rstp"}, api.ConditionSpanningTree, "ovs-vsctl set bridge mbr-vms17-8-0 rstp_enable=false"},
		{"no carrier", set(cable.Upper, func(p *cable.Port) { p.NoCarrier = true }), cable.Settings{}, api.ConditionPortDown, ""},
		{"fail_mode", ports, cable.Settings{Standalone: true}, api.ConditionFailMode, "ovs-vsctl set-fail-mode mbr-vms17-8-0 secure"},
		{"controller", ports, cable.Settings{Controller: true}, api.ConditionController, "ovs-vsctl del-controller mbr-vms17-8-0"},
		{"protocols", ports, cable.Settings{Protocols: "OpenFlow10,OpenFlow14"}, api.ConditionProtocols, "ovs-vsctl clear bridge mbr-vms17-8-0 protocols"},
		{"restore wait", ports, cable.Settings{RestoreWait: true}, api.ConditionRestoreWaitSet, "ovs-vsctl --no-wait remove Open_vSwitch . other_config flow-restore-wait"},
	}
	for _, tt := range tests {
		got := mux(tt.ports).Read(tt.ports.Program(cable.State{}, 0), tt.settings, cable.State{})
		if codes(got.Conditions) != tt.code || !strings.HasPrefix(got.Conditions[0].Cure, tt.cure) && !strings.Contains(got.Conditions[0].Cure, tt.cure) {
			t.Errorf("%s: %+v, want %s with the cure %q", tt.name, got.Conditions, tt.code, tt.cure)
		}
	}

	all := ports
	all[cable.NIC].Number, all[cable.NIC].Fault = 0, "gone"
	all[cable.Upper].NoForward, all[cable.Lower].NoCarrier = true, true
	r := mux(all).Read(manyFlows(1), cable.Settings{true, "OpenFlow14", "stp", true, true}, cable.State{})
	if !slices.IsSortedFunc(r.Conditions, func(a, b api.Condition) int { return api.Rank(a.Code) - api.Rank(b.Code) }) {
		t.Errorf("conditions are not in the order of the table: %s", codes(r.Conditions))
	}
}

func TestCookies(t *testing.T) {
	c := cable.NewCookie(cable.Placeholder, 1<<44-1)
	if kind, ours := c.Kind(); kind != cable.Placeholder || !ours || c.Value() != 1<<44-1 || c>>48 != 0x6d75 {
		t.Errorf("%#x: kind %v, ours %v, value %#x", uint64(c), kind, ours, c.Value())
	}
	for _, foreign := range []cable.Cookie{0, 1, 0x6d74 << 48, 0xffff_ffff_ffff_ffff} {
		if _, ours := foreign.Kind(); ours {
			t.Errorf("%#x is taken for ours", uint64(foreign))
		}
	}
	if cable.RequestHash("") != 0 || cable.RequestHash("a") == 0 || cable.RequestHash("a") == cable.RequestHash("b") || cable.RequestHash("a")>>40 != 0 {
		t.Error("a request's hash is 40 bits, and 0 for none only")
	}
	// A flow that stands is written again only to carry another request, or where it was not ours.
	old, age := ports.Program(cable.State{}, 4), time.Minute
	old[1].Age = age
	for request, want := range map[uint64]int{0: 0, 4: 0, 5: 1} {
		if _, del, add := (cable.Update{Have: old, Want: ports.Program(cable.State{}, request), Known: true}).Steps(); len(del) != 0 || len(add) != want {
			t.Errorf("request %d: %v deleted, %v added; want %d added", request, del, add, want)
		}
	}
}

func TestChange(t *testing.T) {
	random := func() cable.Side { return cable.LowerToR }
	nic, upper := cable.RolesOf(cable.NIC), cable.RolesOf(cable.Upper)
	none := cable.Roles(0)
	tests := []struct {
		name         string
		change       cable.Change
		before, want cable.State
	}{
		{"nothing", cable.Change{}, cable.State{Active: cable.LowerToR, Dropped: nic}, cable.State{Active: cable.LowerToR, Dropped: nic}},
		{"toggle", cable.Change{Move: cable.MoveToggle}, cable.State{}, cable.State{Active: cable.LowerToR}},
		{"set", cable.Change{Move: cable.MoveTo, Side: cable.LowerToR}, cable.State{}, cable.State{Active: cable.LowerToR}},
		{"random", cable.Change{Move: cable.MoveRandom}, cable.State{}, cable.State{Active: cable.LowerToR}},
		{"toggle while dropped", cable.Change{Move: cable.MoveToggle}, cable.State{Dropped: nic}, cable.State{Active: cable.LowerToR, Dropped: nic}},
		{"drop", cable.Change{Drop: upper}, cable.State{Dropped: nic}, cable.State{Dropped: nic | upper}},
		{"output", cable.Change{Output: upper}, cable.State{Dropped: nic | upper}, cable.State{Dropped: nic}},
		{"reset", cable.Reset(), cable.State{Active: cable.LowerToR, Dropped: nic | upper}, cable.State{Active: cable.LowerToR}},
		{"the whole set", cable.Change{SetDropped: &upper}, cable.State{Dropped: nic}, cable.State{Dropped: upper}},
		{"the empty set", cable.Change{SetDropped: &none}, cable.State{Dropped: nic}, cable.State{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.change.Apply(tt.before, random); got != tt.want {
				t.Errorf("%v → %v, want %v", tt.before, got, tt.want)
			}
		})
	}
}
