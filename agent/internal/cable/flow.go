package cable

import (
	"fmt"
	"slices"
	"strings"
)

// Priority is that of all flows of a mux. It is what ovs-ofctl gives a flow without one, so that the testbed's own
// script replaces our flows rather than doubling them, and the replaced service can take them over.
const Priority = 32768

// A Flow is one OpenFlow rule, as far as a mux cares. It is comparable; flows that do the same thing are equal.
type Flow struct {
	Table    uint8
	Priority uint16
	InPort   uint32    // 0 matches any port
	Match    string    // matches beyond the in-port, in ovs-ofctl's words; "" when there are none
	Out      [2]uint32 // output ports in ascending order, 0 for none; none at all is a drop
	Action   string    // everything that a plain output is not, in ovs-ofctl's words; then Out means nothing
}

// NewFlow returns the flow of a mux's own shape: packets from inPort go to out, at most two ports.
func NewFlow(inPort uint32, out ...uint32) Flow {
	f := Flow{Priority: Priority, InPort: inPort}
	copy(f.Out[:], out)
	if f.Out[1] != 0 && f.Out[0] > f.Out[1] {
		f.Out[0], f.Out[1] = f.Out[1], f.Out[0]
	}
	return f
}

// Normal is the action by which OVS bridges all ports as an ordinary learning switch.
const Normal = "NORMAL"

// String writes the flow much as ovs-ofctl does, with port numbers.
func (f Flow) String() string {
	var b strings.Builder
	if f.Table != 0 {
		fmt.Fprintf(&b, "table=%d,", f.Table)
	}
	if f.Priority != Priority {
		fmt.Fprintf(&b, "priority=%d,", f.Priority)
	}
	if f.InPort != 0 {
		fmt.Fprintf(&b, "in_port=%d,", f.InPort)
	}
	if f.Match != "" {
		b.WriteString(f.Match + ",")
	}
	match := strings.TrimSuffix(b.String(), ",")
	if match != "" {
		match += " "
	}
	return match + "actions=" + f.actions()
}

func (f Flow) actions() string {
	if f.Action != "" {
		return f.Action
	}
	var outs []string
	for _, n := range f.outs() {
		outs = append(outs, fmt.Sprintf("output:%d", n))
	}
	if outs == nil {
		return "drop"
	}
	return strings.Join(outs, ",")
}

func (f Flow) outs() []uint32 {
	n := slices.Index(f.Out[:], 0)
	if n < 0 {
		n = len(f.Out)
	}
	return f.Out[:n]
}

func (f Flow) sameMatch(g Flow) bool {
	return f.Table == g.Table && f.Priority == g.Priority && f.InPort == g.InPort && f.Match == g.Match
}

// Forward returns the ports where a packet with no special header comes out that enters at inPort, by the highest
// matching flow of table 0. ok is false when the flows leave that open: a flow with an action other than output decides,
// or two of equal priority disagree.
func Forward(flows []Flow, inPort uint32) (out []uint32, ok bool) {
	var best *Flow
	ok = true
	for i := range flows {
		f := &flows[i]
		if f.Table != 0 || f.Match != "" || (f.InPort != 0 && f.InPort != inPort) {
			continue
		}
		switch {
		case best == nil || f.Priority > best.Priority:
			best, ok = f, true
		case f.Priority == best.Priority && (f.Out != best.Out || f.Action != best.Action):
			ok = false
		}
	}
	if best == nil {
		return nil, true
	}
	if !ok || best.Action != "" {
		return nil, false
	}
	for _, n := range best.outs() {
		if n != inPort { // OpenFlow never sends a packet back to where it came from
			out = append(out, n)
		}
	}
	return out, true
}

// Want returns the two flows of a cable in state s: upstream, then downstream. Both are always there, with a drop where
// nothing passes, so that a later reader of the switch finds the active side even while the NIC is dropped. The ports
// must be numbered.
func (p Ports) Want(s State) [2]Flow {
	up := make([]uint32, 0, 2)
	for _, r := range [...]Role{Upper, Lower} {
		if !s.Dropped.Has(r) {
			up = append(up, p[r].Number)
		}
	}
	var down []uint32
	if !s.Dropped.Has(NIC) {
		down = []uint32{p[NIC].Number}
	}
	return [2]Flow{NewFlow(p[NIC].Number, up...), NewFlow(p[s.Active.Role()].Number, down...)}
}

// A Reading is what the flows of a bridge make of its cable.
type Reading struct {
	State State
	// Proper is true when the flows are exactly those that Want returns for State.
	Proper bool
	// Reason says what on the bridge is no cable's; "" when all is, drops included.
	Reason string
	// SideKnown is false when nothing on the switch tells the side, and State.Active is the last one.
	SideKnown bool
}

// Healthy reports whether packets pass as on a cable with nothing dropped: exactly one downstream output, exactly two
// upstream ones, and nothing foreign beside them.
func (r Reading) Healthy() bool { return r.Reason == "" && r.State.Dropped == 0 }

// Read tells the state from the flows that stand on the bridge. It judges by where a packet goes, not by whose flow it
// is. last is the side to keep when the flows tell none.
func (p Ports) Read(flows []Flow, last Side) Reading {
	r := Reading{State: State{Active: last}}
	if fault := p.Fault(); fault != "" {
		r.Reason = fault
		r.State.Dropped = RolesOf(NIC, Upper, Lower)
		return r
	}
	var reasons []string

	var passes [2]bool
	for _, side := range [...]Side{UpperToR, LowerToR} {
		out, ok := Forward(flows, p[side.Role()].Number)
		passes[side] = slices.Contains(out, p[NIC].Number)
		if !ok || (len(out) > 0 && !slices.Equal(out, []uint32{p[NIC].Number})) {
			reasons = append(reasons, fmt.Sprintf("packets from %s (%s) do not simply go to the NIC", side, p[side.Role()].Name))
		}
	}
	switch {
	case passes[UpperToR] && passes[LowerToR]:
		reasons = append(reasons, "packets of both ToRs reach the NIC")
	case passes[UpperToR] || passes[LowerToR]:
		r.SideKnown = true
		r.State.Active = UpperToR
		if passes[LowerToR] {
			r.State.Active = LowerToR
		}
	default:
		r.State.Dropped |= RolesOf(NIC)
		upper, lower := slices.Contains(flows, NewFlow(p[Upper].Number)), slices.Contains(flows, NewFlow(p[Lower].Number))
		if upper != lower {
			r.SideKnown = true
			r.State.Active = UpperToR
			if lower {
				r.State.Active = LowerToR
			}
		}
	}

	out, ok := Forward(flows, p[NIC].Number)
	if !ok {
		reasons = append(reasons, fmt.Sprintf("packets from the NIC (%s) do not simply go to the ToRs", p[NIC].Name))
	}
	for _, role := range [...]Role{Upper, Lower} {
		if !slices.Contains(out, p[role].Number) {
			r.State.Dropped |= RolesOf(role)
		}
	}
	for _, n := range out {
		if n != p[Upper].Number && n != p[Lower].Number {
			reasons = append(reasons, fmt.Sprintf("packets from the NIC go to port %d, which is no ToR", n))
		}
	}

	want := p.Want(r.State)
	r.Proper = len(flows) == 2 && slices.Contains(flows, want[0]) && slices.Contains(flows, want[1])
	if !r.Proper {
		for _, f := range flows {
			if !p.owns(f) {
				reasons = append(reasons, "foreign flow: "+f.String())
			}
		}
	}
	r.Reason = strings.Join(reasons, "; ")
	return r
}

// owns reports whether f has the shape of a cable's flow: from one of the three ports, at our priority, to the ports
// that a cable connects.
func (p Ports) owns(f Flow) bool {
	if f.Table != 0 || f.Priority != Priority || f.Match != "" || f.Action != "" {
		return false
	}
	for _, n := range f.outs() {
		switch f.InPort {
		case p[NIC].Number:
			if n != p[Upper].Number && n != p[Lower].Number {
				return false
			}
		case p[Upper].Number, p[Lower].Number:
			if n != p[NIC].Number {
				return false
			}
		}
	}
	return f.InPort == p[NIC].Number || f.InPort == p[Upper].Number || f.InPort == p[Lower].Number
}
