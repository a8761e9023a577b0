package cable_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

var ports = cable.Ports{
	cable.NIC:   {Name: "muxy-vms17-8-0", Number: 7},
	cable.Upper: {Name: "p0.9", Number: 3},
	cable.Lower: {Name: "p0.10", Number: 5},
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

// What Want writes, Read must find again, and a packet must take the way that the state promises.
func TestEveryStateSurvivesTheSwitch(t *testing.T) {
	for _, s := range everyState() {
		t.Run(s.String(), func(t *testing.T) {
			want := ports.Want(s)
			for _, flows := range [][]cable.Flow{{want[0], want[1]}, {want[1], want[0]}} {
				got := ports.Read(flows, s.Active.Other())
				if diff := cmp.Diff(cable.Reading{State: s, Proper: true, SideKnown: true}, got); diff != "" {
					t.Errorf("Read(Want(s)) (-want +got):\n%s", diff)
				}
			}
			for _, side := range []cable.Side{cable.UpperToR, cable.LowerToR} {
				passes := s.Active == side && !s.Dropped.Has(cable.NIC)
				wantForward(t, want[:], side.Role(), map[cable.Role]bool{cable.NIC: passes})
			}
			wantForward(t, want[:], cable.NIC, map[cable.Role]bool{
				cable.Upper: !s.Dropped.Has(cable.Upper), cable.Lower: !s.Dropped.Has(cable.Lower),
			})
		})
	}
}

func wantForward(t *testing.T, flows []cable.Flow, from cable.Role, want map[cable.Role]bool) {
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

// An update must lead from any state to any other, whatever is known of what stands there.
func TestUpdateLeadsFromAnyStateToAnyOther(t *testing.T) {
	for _, from := range everyState() {
		for _, to := range everyState() {
			for _, known := range []bool{true, false} {
				u := cable.Update{Have: ports.Want(from), Want: ports.Want(to), Known: known}
				flows := slices.Clone(u.Have[:])
				flush, del, add := u.Steps()
				if flush {
					flows = nil
				}
				for _, f := range del {
					flows = slices.DeleteFunc(flows, func(g cable.Flow) bool { return g.InPort == f.InPort })
				}
				for _, f := range add {
					flows = slices.DeleteFunc(flows, func(g cable.Flow) bool { return g.InPort == f.InPort })
					flows = append(flows, f)
				}
				got := ports.Read(flows, to.Active.Other())
				if !got.Proper || got.State != to {
					t.Errorf("%v → %v (known %v): got %+v by %v, %v, %v", from, to, known, got, flush, del, add)
				}
				if known && len(del)+len(add) > 3 {
					t.Errorf("%v → %v: %d steps", from, to, len(del)+len(add))
				}
			}
		}
	}
}

func TestReadJudgesByWherePacketsGo(t *testing.T) {
	up := cable.NewFlow(7, 3, 5)
	upperToNIC, lowerToNIC := cable.NewFlow(3, 7), cable.NewFlow(5, 7)
	normal := cable.Flow{Priority: 0, Action: cable.Normal}
	nic, both := cable.RolesOf(cable.NIC), cable.RolesOf(cable.Upper, cable.Lower)
	tests := []struct {
		name    string
		flows   []cable.Flow
		want    cable.State
		known   bool
		healthy bool
		proper  bool
		reason  string
	}{
		{name: "no flows", want: cable.State{Active: cable.LowerToR, Dropped: nic | both}},
		{name: "no downstream flow", flows: []cable.Flow{up}, want: cable.State{Active: cable.LowerToR, Dropped: nic}},
		{name: "no upstream flow", flows: []cable.Flow{upperToNIC}, want: cable.State{Dropped: both}, known: true},
		{
			name: "two downstream flows", flows: []cable.Flow{up, upperToNIC, lowerToNIC}, want: cable.State{Active: cable.LowerToR},
			reason: "packets of both ToRs reach the NIC",
		},
		{
			name: "standby ToR dropped beside the active one", flows: []cable.Flow{up, upperToNIC, cable.NewFlow(5)},
			want: cable.State{}, known: true, healthy: true,
		},
		{
			name: "both ToRs dropped", flows: []cable.Flow{up, cable.NewFlow(3), cable.NewFlow(5)},
			want: cable.State{Active: cable.LowerToR, Dropped: nic},
		},
		{
			name: "outputs in the other order", flows: []cable.Flow{cable.NewFlow(7, 5, 3), upperToNIC},
			want: cable.State{}, known: true, healthy: true, proper: true,
		},
		{
			name: "after OVS restarted", flows: []cable.Flow{normal}, want: cable.State{Active: cable.LowerToR, Dropped: nic | both},
			reason: "packets from upper_tor (p0.9) do not simply go to the NIC; packets from lower_tor (p0.10) do not simply go to the NIC; " +
				"packets from the NIC (muxy-vms17-8-0) do not simply go to the ToRs; foreign flow: priority=0 actions=NORMAL",
		},
		{
			name: "NORMAL beside ours", flows: []cable.Flow{normal, up, upperToNIC}, want: cable.State{}, known: true,
			reason: "packets from lower_tor (p0.10) do not simply go to the NIC; foreign flow: priority=0 actions=NORMAL",
		},
		{
			name: "a person's flow on top", flows: []cable.Flow{up, upperToNIC, {Priority: 40000, InPort: 3}},
			want: cable.State{Active: cable.LowerToR, Dropped: nic}, reason: "foreign flow: priority=40000,in_port=3 actions=drop",
		},
		{
			name: "a match of its own", flows: []cable.Flow{up, upperToNIC, {Priority: cable.Priority, InPort: 3, Match: "arp"}},
			want: cable.State{}, known: true, reason: "foreign flow: in_port=3,arp actions=drop",
		},
		{
			name: "ToRs bridged", flows: []cable.Flow{up, cable.NewFlow(3, 5, 7)}, want: cable.State{}, known: true,
			reason: "packets from upper_tor (p0.9) do not simply go to the NIC; foreign flow: in_port=3 actions=output:5,output:7",
		},
		{
			name: "dead port numbers", flows: []cable.Flow{cable.NewFlow(9, 3, 5), cable.NewFlow(3, 9)},
			want: cable.State{Active: cable.LowerToR, Dropped: nic | both},
			reason: "packets from upper_tor (p0.9) do not simply go to the NIC; foreign flow: in_port=9 actions=output:3,output:5; " +
				"foreign flow: in_port=3 actions=output:9",
		},
		{
			name: "another table", flows: []cable.Flow{up, upperToNIC, {Table: 1, Priority: cable.Priority}}, want: cable.State{}, known: true,
			reason: "foreign flow: table=1 actions=drop",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ports.Read(tt.flows, cable.LowerToR)
			if got.State != tt.want || got.SideKnown != tt.known {
				t.Errorf("state = %v (side known: %v), want %v (%v)", got.State, got.SideKnown, tt.want, tt.known)
			}
			if got.Reason != tt.reason {
				t.Errorf("reason = %q\n    want %q", got.Reason, tt.reason)
			}
			if got.Healthy() != tt.healthy {
				t.Errorf("healthy = %v, want %v", got.Healthy(), tt.healthy)
			}
			if got.Proper != tt.proper {
				t.Errorf("proper = %v, want %v", got.Proper, tt.proper)
			}
		})
	}
}

func TestReadWithAPortMissing(t *testing.T) {
	broken := ports
	broken[cable.NIC] = cable.Port{Name: "muxy-vms17-8-0", Fault: "could not open network device muxy-vms17-8-0 (No such device)"}
	got := broken.Read([]cable.Flow{cable.NewFlow(3, 7)}, cable.LowerToR)
	if want := "port muxy-vms17-8-0: could not open network device muxy-vms17-8-0 (No such device)"; got.Reason != want {
		t.Errorf("reason = %q, want %q", got.Reason, want)
	}
	if got.State.Active != cable.LowerToR || got.Healthy() {
		t.Errorf("got %+v, want the last side, unhealthy", got)
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
