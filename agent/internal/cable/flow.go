package cable

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Priority is that of all flows of a mux. It is what ovs-ofctl gives a flow without one, so that the testbed's own
// script replaces our flows rather than doubling them, and the replaced service can take them over.
const Priority = 32768

// Local is the number of a bridge's own port (OFPP_LOCAL, OpenFlow 1.4, 7.2.1). No packet of a mux enters there.
const Local = 0xfffffffe

// A Flow is one OpenFlow rule, as far as a mux cares. It is comparable; flows that do the same thing are equal.
type Flow struct {
	Table    uint8
	Priority uint16
	InPort   uint32    // 0 matches any port
	Match    string    // matches beyond the in-port, in ovs-ofctl's words; "" when there are none
	Out      [2]uint32 // output ports in ascending order, 0 for none; none at all is a drop
	Action   string    // everything that a plain output is not, in ovs-ofctl's words; then Out means nothing

	IdleTimeout, HardTimeout uint16 // seconds after which OVS removes the flow; 0 is never
	Flags                    uint16 // those of Flags, as ofp_flow_mod_flags has them
}

// Flags of a flow (ofp_flow_mod_flags). OVS shows two more, OFPFF_CHECK_OVERLAP and OFPFF_RESET_COUNTS, which say only how the
// flow was written; ovs-ofctl sets one of them.
const (
	FlagSendFlowRem  = 1 << 0 // OVS tells when it removes the flow (OFPFF_SEND_FLOW_REM)
	FlagNoPktCounts  = 1 << 3 // OFPFF_NO_PKT_COUNTS
	FlagNoByteCounts = 1 << 4 // OFPFF_NO_BYT_COUNTS

	Flags = FlagSendFlowRem | FlagNoPktCounts | FlagNoByteCounts
)

// An Entry is a Flow as it stands in a flow table, or as it is to be written there.
type Entry struct {
	Flow
	Cookie  Cookie
	Age     time.Duration // since it was written last; nothing to a writer
	Packets uint64        // that it has matched; nothing to a writer
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
	switch f.InPort {
	case 0:
	case Local:
		b.WriteString("in_port=LOCAL,")
	default:
		fmt.Fprintf(&b, "in_port=%d,", f.InPort)
	}
	if f.Match != "" {
		b.WriteString(f.Match + ",")
	}
	if f.IdleTimeout != 0 {
		fmt.Fprintf(&b, "idle_timeout=%d,", f.IdleTimeout)
	}
	if f.HardTimeout != 0 {
		fmt.Fprintf(&b, "hard_timeout=%d,", f.HardTimeout)
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

// SameMatch reports whether two flows concern the same packets at the same place, so that only one of them can stand.
func (f Flow) SameMatch(g Flow) bool {
	return f.Table == g.Table && f.Priority == g.Priority && f.InPort == g.InPort && f.Match == g.Match
}

// Forward returns the ports where a packet with no special header comes out that enters at inPort, by the highest
// matching flow of table 0. ok is false when the flows leave that open: a flow with an action other than output decides,
// or two of equal priority disagree.
func Forward(flows []Entry, inPort uint32) (out []uint32, ok bool) {
	var best *Flow
	ok = true
	for i := range flows {
		f := &flows[i].Flow
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
