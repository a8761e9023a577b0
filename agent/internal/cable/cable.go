// Package cable is the domain: a simulated Y-cable, its two sides, its state, and the flows that make a bridge behave so.
//
// Everything here is a pure function or a plain value. The package knows how state becomes flows (Program) and how flows
// become state (Reading), and how the testbed names its bridges and ports. It must not know how flows reach a switch, nor
// who asks for a change. All types that cross the engine's Switch interface live here. It imports the standard library and
// the wire's codes of conditions alone.
package cable

import (
	"fmt"
	"strings"
	"time"
)

// A Side is one of the two ToR switches at the far ends of a cable.
type Side uint8

// The two sides. The zero value is the upper ToR, which is also the side taken when a bridge shows none.
const (
	UpperToR Side = iota
	LowerToR
)

// String returns the side as the API writes it: "upper_tor" or "lower_tor".
func (s Side) String() string { return s.Role().String() }

// Other returns the opposite side.
func (s Side) Other() Side { return 1 - s }

// Role returns the place of the side's port on the cable.
func (s Side) Role() Role { return Upper + Role(s) }

// ParseSide reads a side as the API writes it. Case matters.
func ParseSide(s string) (Side, error) {
	switch s {
	case "upper_tor":
		return UpperToR, nil
	case "lower_tor":
		return LowerToR, nil
	}
	return 0, fmt.Errorf("unknown side %q: want \"upper_tor\" or \"lower_tor\"", s)
}

// A Role is the place of a port on a cable.
type Role uint8

// The three places.
const (
	NIC Role = iota
	Upper
	Lower
	numRoles
)

// String returns the role as the API writes it: "nic", "upper_tor" or "lower_tor".
func (r Role) String() string { return [...]string{"nic", "upper_tor", "lower_tor"}[r] }

// ParseRole reads a role as the API writes it. Case matters.
func ParseRole(s string) (Role, error) {
	for r := range numRoles {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown port %q: want \"nic\", \"upper_tor\" or \"lower_tor\"", s)
}

// Roles is a set of roles.
type Roles uint8

// AllRoles holds the three of them.
const AllRoles = Roles(1<<numRoles - 1)

// RolesOf returns the set of the given roles.
func RolesOf(rs ...Role) Roles {
	var set Roles
	for _, r := range rs {
		set |= 1 << r
	}
	return set
}

// Has reports whether r is in the set.
func (s Roles) Has(r Role) bool { return s>>r&1 == 1 }

// List returns the members in the order nic, upper, lower.
func (s Roles) List() []Role {
	var rs []Role
	for r := range numRoles {
		if s.Has(r) {
			rs = append(rs, r)
		}
	}
	return rs
}

// String lists the members, "nic,upper_tor", or "none".
func (s Roles) String() string {
	if s == 0 {
		return "none"
	}
	var names []string
	for _, r := range s.List() {
		names = append(names, r.String())
	}
	return strings.Join(names, ",")
}

// A Port is one OVS port of a bridge, and what the switch says of it beside its flows.
type Port struct {
	Name   string
	Number uint32 // OpenFlow port number; 0 while OVS has none for it, or while its device is gone
	Fault  string // why there is no number, in OVS's words where it has any

	Down      bool   // the device is administratively down, or OpenFlow says so (OFPPC_PORT_DOWN)
	NoCarrier bool   // the device has no link
	NoReceive bool   // OVS drops what enters here (OFPPC_NO_RECV)
	NoForward bool   // OVS sends nothing out here (OFPPC_NO_FWD)
	Blocked   string // the state of a spanning tree in which nothing passes, such as "listening"; "" where it passes
}

// Ports are the three ports of a mux, indexed by Role.
type Ports [numRoles]Port

// Numbered reports whether OVS knows all three ports.
func (p Ports) Numbered() bool {
	return p[NIC].Number != 0 && p[Upper].Number != 0 && p[Lower].Number != 0
}

// None reports whether OVS knows none of them, so that no flow of the mux can be written.
func (p Ports) None() bool {
	return p[NIC].Number == 0 && p[Upper].Number == 0 && p[Lower].Number == 0
}

// A Mux is the identity of one simulated cable. It is comparable.
type Mux struct {
	VMSet  string
	Index  int // port index, the last part of the bridge's name
	Bridge string
	Ports  Ports
}

// State is what a cable does: the ToR whose packets reach the server, and the ports to which nothing passes.
//
// Dropped NIC stops downstream packets; a dropped ToR no longer gets upstream ones.
type State struct {
	Active  Side
	Dropped Roles
}

// String writes "upper_tor" or "upper_tor, dropped nic,lower_tor".
func (s State) String() string {
	if s.Dropped == 0 {
		return s.Active.String()
	}
	return s.Active.String() + ", dropped " + s.Dropped.String()
}

// Settings are what the switch was told of a bridge beside its ports and flows, as far as it concerns a mux.
type Settings struct {
	Standalone   bool   // fail_mode is not secure, so OVS connects all ports where there are no flows
	Protocols    string // the OpenFlow versions that the bridge is restricted to, by commas; "" means all
	SpanningTree string // "stp" or "rstp" where one of them is enabled
	Controller   bool   // a controller is set
	RestoreWait  bool   // other_config:flow-restore-wait of Open vSwitch is true
}

// A Sight is what a switch saw of one bridge whose name fits the vm_set: a mux, a bridge that is not a usable mux, or no
// bridge at all.
type Sight struct {
	Bridge   string
	Index    int
	Gone     bool   // there is no such bridge any more
	Rejected string // why the bridge is not a usable mux; "" when it is one
	Code     string // of Rejected, as internal/api lists them
	Mux      Mux
	Settings Settings
	Flows    []Entry
	// Row differs from that of the last Sight when somebody made the bridge anew, whatever else is as it was; "" means that
	// nobody knows.
	Row string
	// Life is when the switch made the bridge's socket, in nanoseconds since 1970: when it was started, or when the bridge
	// was made. Where it differs from that of the last Sight, the flows that the bridge had are gone. 0 means that nobody
	// knows.
	Life int64
	// Building is true while the bridge is new, or made anew, and has not stood still for a second: somebody may still be
	// building it. The switch tells of it again when it has.
	Building bool
	// Remembered is the side that a preparation wrote down before it flushed the bridge (external_ids:mux-agent-side),
	// "upper_tor" or "lower_tor"; "" when there is none.
	Remembered string
	// Flushed is true when Flows were read and then removed by the switch's own preparation of the bridge.
	Flushed bool
	// Err is why the flows could not be read; then Flows means nothing.
	Err error
	// Asked is when the reading began; zero where that is not known.
	Asked time.Time
	// Unprepared is true when the switch has still to prepare the bridge, which it does when it is asked to read it.
	Unprepared bool
}

// RestoreTime is how long a script has to restore the flows of a switch that was started with flow-restore-wait, before changes
// are written all the same.
const RestoreTime = 30 * time.Second

// Restoring reports whether the switch was started a moment ago with flow-restore-wait, and forwards nothing until somebody has
// restored its flows.
func (s *Sight) Restoring() bool {
	return s.Settings.RestoreWait && s.Life != 0 && time.Since(time.Unix(0, s.Life)) < RestoreTime
}
