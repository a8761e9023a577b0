package cable

import (
	"fmt"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// RemoveRestoreWait is the command that ends flow-restore-wait.
const RemoveRestoreWait = "ovs-vsctl --no-wait remove Open_vSwitch . other_config flow-restore-wait"

// A Reading is what the ports and flows of a bridge make of its cable.
type Reading struct {
	State State
	// SideKnown is false when nothing on the switch tells the side, so that State.Active is the last one.
	SideKnown bool
	// Proper is true when the flows are exactly those of State's Program.
	Proper bool
	// Normal is true when OVS itself connects ports, by an action NORMAL of any flow.
	Normal bool
	// Unfinished is true when a placeholder stands though no port is missing any more.
	Unfinished bool
	// Conditions is what should be known beside side and drops, worst first.
	Conditions []api.Condition
	// Request is the RequestHash of the request that changed the mux last, 0 where nobody knows, and RequestAge how long
	// ago that was written.
	Request    uint64
	RequestAge time.Duration
}

// Read tells the state of a cable from what the switch shows. It judges by where a packet goes, and not by whose flow it is.
// What is absent is not dropped: there the last state stays, and a condition says what is missing.
func (m *Mux) Read(flows []Entry, settings Settings, last State) Reading {
	r := reader{Mux: m, flows: flows, Reading: Reading{State: last}}
	for i := range flows {
		if held, request, ok := flows[i].held(); ok {
			r.holds, r.held = true, held
			r.Request, r.RequestAge = request, flows[i].Age
		}
		r.Normal = r.Normal || flows[i].Action == Normal
	}
	r.Unfinished = r.holds && m.Ports.Numbered()
	down := r.readDown()
	up := r.readUp()
	r.Proper = m.Ports.Program(r.State, 0).Stands(flows)

	// What is wrong with the standby ToR's port is told, and leaves the mux healthy while the active way is whole: sonic-mgmt's
	// sanity check ends a whole session on one unhealthy port.
	active, standby := r.State.Active.Role(), r.State.Active.Other().Role()
	r.portsMissing(api.ConditionPortMissing, NIC, active)
	r.portsBlocked(api.ConditionPortBlocked, settings, NIC, active)
	if down == bothForward {
		r.add(api.ConditionBothForward, r.ResetCure(), "packets of both ToRs reach the NIC")
	}
	if down == absent {
		r.add(api.ConditionFlowsMissing, r.ResetCure(), "the flow from %s (%s) to the NIC is missing", r.State.Active, r.Ports[r.State.Active.Role()].Name)
	}
	if up == absent {
		r.add(api.ConditionFlowsMissing, r.ResetCure(), "the flow from the NIC (%s) to the ToRs is missing", r.Ports[NIC].Name)
	}
	if !r.Proper {
		r.foreignFlows()
	}
	r.portsMissing(api.ConditionStandbyMissing, standby)
	r.portsBlocked(api.ConditionStandbyBlocked, settings, standby)
	r.judgeSettings(settings)
	r.portsDown()
	return r.Reading
}

// reader is a Reading in the making.
type reader struct {
	*Mux
	Reading
	flows []Entry
	holds bool  // a placeholder stands
	held  State // and this is what it holds
}

// way is what was found of one direction of a cable.
type way uint8

const (
	found       way = iota
	absent          // a flow is due and none stands
	bothForward     // downstream: the packets of both ToRs pass
)

func (r *reader) add(code, cure, reason string, args ...any) {
	r.Conditions = append(r.Conditions, api.Condition{Code: code, Cure: cure, Reason: fmt.Sprintf(reason, args...)})
}

// ResetCure is the command that writes all flows of the mux anew.
func (m *Mux) ResetCure() string { return fmt.Sprintf("mux-agent reset %d", m.Index) }

// readDown finds the side, and whether packets of the active ToR are dropped.
func (r *reader) readDown() way {
	nic := r.Ports[NIC].Number
	var passes, points, drops [2]bool // by side: packets reach the NIC; a flow would take them there; a flow drops them
	for _, side := range [...]Side{UpperToR, LowerToR} {
		tor := r.Ports[side.Role()].Number
		if tor == 0 {
			continue
		}
		if out, ok := Forward(r.flows, tor); ok && nic != 0 {
			passes[side] = slices.Contains(out, nic)
		}
		if f := r.base(tor); f != nil {
			drops[side] = f.Out[0] == 0
			points[side] = nic != 0 && f.Out[0] == nic || nic == 0 && f.Out[0] != 0
		}
	}
	for _, side := range [...]Side{UpperToR, LowerToR} {
		points[side] = points[side] || !points[side.Other()] && r.pointsFromAMissing(side)
	}
	switch {
	case passes[UpperToR] && passes[LowerToR]:
		r.State.Dropped &^= RolesOf(NIC)
		return bothForward
	case passes[UpperToR] != passes[LowerToR]:
		r.setSide(passes)
		r.State.Dropped &^= RolesOf(NIC)
	case r.holds:
		r.State.Active, r.SideKnown = r.held.Active, true
		r.State.Dropped = r.State.Dropped&^RolesOf(NIC) | r.held.Dropped&RolesOf(NIC)
		return found
	case points[UpperToR] != points[LowerToR]:
		r.setSide(points)
		r.State.Dropped &^= RolesOf(NIC)
	case drops[UpperToR] || drops[LowerToR]:
		if drops[UpperToR] != drops[LowerToR] {
			r.setSide(drops)
		}
		r.State.Dropped |= RolesOf(NIC)
	case nic != 0 && r.Ports[r.State.Active.Role()].Number != 0:
		return absent
	}
	if f := r.base(r.Ports[r.State.Active.Role()].Number); f != nil {
		if kind, ours := f.Cookie.Kind(); ours && kind == Base {
			r.Request, r.RequestAge = f.Cookie.Value(), f.Age
		}
	}
	return found
}

func (r *reader) setSide(by [2]bool) {
	r.SideKnown = true
	r.State.Active = UpperToR
	if by[LowerToR] {
		r.State.Active = LowerToR
	}
}

// pointsFromAMissing reports whether a flow leads from a port that is no more to the NIC, which must be that of side: the
// only ToR that is missing.
func (r *reader) pointsFromAMissing(side Side) bool {
	if r.Ports[side.Role()].Number != 0 || r.Ports[side.Other().Role()].Number == 0 {
		return false // it is there, or it may be either
	}
	nic := r.Ports[NIC].Number
	return slices.ContainsFunc(r.flows, func(e Entry) bool {
		if !r.dead(e.InPort) || !e.plain() || e.Out[0] == 0 || e.Out[1] != 0 {
			return false
		}
		return e.Out[0] == nic || nic == 0 && r.dead(e.Out[0])
	})
}

// readUp finds to which ToRs the packets of the NIC are dropped.
func (r *reader) readUp() way {
	out, known := r.upstream()
	for _, role := range [...]Role{Upper, Lower} {
		set := RolesOf(role)
		dropped := r.State.Dropped & set
		switch {
		case known && r.Ports[role].Number != 0 && slices.Contains(out, r.Ports[role].Number):
			dropped = 0
		case r.holds: // the flow was written while a port was missing
			dropped = r.held.Dropped & set
		case !known:
		case r.Ports[role].Number != 0:
			dropped = set
		case slices.ContainsFunc(out, r.dead):
			dropped = 0
		}
		r.State.Dropped = r.State.Dropped&^set | dropped
	}
	if !known && r.Ports[NIC].Number != 0 {
		return absent
	}
	return found
}

// upstream returns the ports to which a flow sends what the NIC sends. known is false when there is no such flow.
func (r *reader) upstream() (out []uint32, known bool) {
	nic := r.Ports[NIC].Number
	if nic == 0 {
		for i := range r.flows {
			if e := &r.flows[i]; r.dead(e.InPort) && e.plain() && slices.ContainsFunc(e.outs(), r.isToR) {
				return e.outs(), true
			}
		}
		return nil, false
	}
	if f := r.base(nic); f != nil {
		return f.outs(), true
	}
	out, ok := Forward(r.flows, nic)
	return out, ok && len(out) > 0
}

// base returns the flow at the place of a mux's own: packets of one port, at our priority, to outputs alone.
func (r *reader) base(port uint32) *Entry {
	for i := range r.flows {
		if e := &r.flows[i]; port != 0 && e.InPort == port && e.plain() {
			return e
		}
	}
	return nil
}

// plain reports whether a flow looks like a mux's own, whatever its ports.
func (f *Flow) plain() bool {
	return f.Table == 0 && f.Priority == Priority && f.Match == "" && f.Action == ""
}

// dead reports whether a number is not one of the bridge's living ports of the mux.
func (r *reader) dead(port uint32) bool {
	return port != 0 && port != Local && port != r.Ports[NIC].Number && !r.isToR(port)
}

func (r *reader) isToR(port uint32) bool {
	return port != 0 && (port == r.Ports[Upper].Number || port == r.Ports[Lower].Number)
}

// maxForeign is how many foreign flows a reading names.
const maxForeign = 3

func (r *reader) foreignFlows() {
	cure := r.ResetCure()
	foreign := 0
	for i := range r.flows {
		e := &r.flows[i]
		owned := r.owns(e)
		if owned && e.IdleTimeout == 0 && e.HardTimeout == 0 {
			continue
		}
		if foreign++; foreign > maxForeign {
			continue
		}
		what := "foreign flow"
		if owned {
			what = "flow that times out"
		}
		r.add(api.ConditionForeignFlow, cure, "%s: %s", what, e)
	}
	if foreign > maxForeign {
		r.add(api.ConditionForeignFlow, cure, "%d more foreign flows", foreign-maxForeign)
	}
}

// owns reports whether a flow has the shape of a cable's: from one of the three ports to ports that a cable connects with
// it, or a placeholder. While a port is missing, a number that no port has stands for that port.
func (r *reader) owns(e *Entry) bool {
	if _, _, ok := e.held(); ok {
		return true
	}
	missing := !r.Ports.Numbered()
	if !e.plain() || e.InPort == 0 || e.InPort == Local || r.dead(e.InPort) && !missing {
		return false
	}
	for _, n := range e.outs() {
		if missing && r.dead(n) {
			continue
		}
		fromNIC := e.InPort == r.Ports[NIC].Number || r.dead(e.InPort) && r.Ports[NIC].Number == 0
		if fromNIC && !r.isToR(n) || !fromNIC && n != r.Ports[NIC].Number {
			return false
		}
	}
	return true
}

// portsMissing says of some ports that they have no device.
func (r *reader) portsMissing(code string, roles ...Role) {
	for _, role := range roles {
		p := r.Ports[role]
		if p.Number != 0 {
			continue
		}
		fault := p.Fault
		if fault == "" {
			fault = "Open vSwitch has given it no OpenFlow port number"
		}
		r.add(code, "bring "+p.Name+" back (ip link show "+p.Name+"; ovs-vsctl show has its error); the agent then completes the mux by itself",
			"port %s: %s", p.Name, fault)
	}
}

// portsBlocked says of some ports what keeps packets from passing there.
func (r *reader) portsBlocked(code string, settings Settings, roles ...Role) {
	for _, role := range roles {
		p := r.Ports[role]
		ofctl := "ovs-ofctl mod-port " + r.Bridge + " " + p.Name
		if p.Down {
			r.add(code, "ip link set dev "+p.Name+" up, or "+ofctl+" up", "port %s is administratively down", p.Name)
		}
		if p.NoReceive {
			r.add(code, ofctl+" receive", "port %s was told not to receive", p.Name)
		}
		if p.NoForward {
			r.add(code, ofctl+" forward", "port %s was told not to forward", p.Name)
		}
		if p.Blocked != "" {
			r.add(code, r.treeCure(settings), "port %s is held back by a spanning tree: it is %s", p.Name, p.Blocked)
		}
	}
}

func (r *reader) treeCure(settings Settings) string {
	if settings.SpanningTree == "rstp" {
		return "ovs-vsctl set bridge " + r.Bridge + " rstp_enable=false"
	}
	return "ovs-vsctl set bridge " + r.Bridge + " stp_enable=false"
}

func (r *reader) judgeSettings(settings Settings) {
	if settings.RestoreWait {
		r.add(api.ConditionRestoreWaitSet, RemoveRestoreWait,
			"flow-restore-wait is set: after its next restart Open vSwitch will forward nothing until it is removed")
	}
	if settings.Standalone {
		r.add(api.ConditionFailMode, "ovs-vsctl set-fail-mode "+r.Bridge+" secure && "+r.ResetCure(),
			"fail_mode is not secure: without flows Open vSwitch would connect both ToRs with each other")
	}
	if settings.Protocols != "" {
		r.add(api.ConditionProtocols, "ovs-vsctl clear bridge "+r.Bridge+" protocols", "the bridge's protocols are restricted to %s", settings.Protocols)
	}
	if settings.SpanningTree != "" && !slices.ContainsFunc(r.Ports[:], func(p Port) bool { return p.Blocked != "" }) {
		r.add(api.ConditionSpanningTree, r.treeCure(settings), "%s is enabled on the bridge and may block a port at any time", settings.SpanningTree)
	}
	if settings.Controller {
		r.add(api.ConditionController, "ovs-vsctl del-controller "+r.Bridge+" && "+r.ResetCure(),
			"a controller is set on the bridge and may change its flows at any time")
	}
}

func (r *reader) portsDown() {
	for _, p := range r.Ports {
		if p.NoCarrier && !p.Down && p.Number != 0 {
			r.add(api.ConditionPortDown, "", "port %s has no carrier", p.Name)
		}
	}
}
