package engine

import (
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A debt is what the agent still owes a mux.
type debt struct {
	unconfirmed *call        // a change of which nobody knows whether it landed
	repairTo    *cable.State // a state whose flows are to be written, because the switch lost them
}

// A verdict is what the agent makes of a Sight of a mux.
type verdict struct {
	next  *Snapshot // what is to be said of the mux
	cause Cause     // of the difference
	debt  debt      // what is owed afterwards
	// landed is true when the change of which nobody knew has landed: then next is its result.
	landed  bool
	request uint64        // that the switch remembers, and
	age     time.Duration // since when
	retire  bool          // the bridge is gone
	again   bool          // the switch can't be read; read again
}

// judge decides what becomes of a mux by what is known of it, what is owed to it and what was seen of it. It is the table of
// docs/agent/truth.md, row by row.
func judge(known *Snapshot, owed debt, s *cable.Sight) verdict {
	next := *known
	v := verdict{next: &next, cause: External, debt: owed}
	switch {
	case s.Err != nil:
		v.again, v.cause = true, Outage
		next.program = nil
		if !slices.Contains([]phase{unreadable, unconfirmed, restoring}, known.phase) { // what was said first is the most telling
			next.phase = unreadable
			next.Conditions = []api.Condition{{
				Code: api.ConditionUnreadable, Reason: "the switch can't be read: " + s.Err.Error(),
				Cure: "look whether ovs-vswitchd and ovsdb-server run (ovs-vsctl show hangs when not)",
			}}
		}
		return v
	case s.Gone:
		v.retire = true
		return v
	case s.Rejected != "":
		next.phase, next.program = notAMux, nil
		next.Conditions = []api.Condition{{Code: api.ConditionNotAMux, Reason: s.Rejected, Cure: api.CureOfRejection(s.Bridge, s.Code)}}
		return v
	}
	next.Mux, next.Settings, next.life = s.Mux, s.Settings, s.Life
	r := next.Read(s.Flows, s.Settings, known.State)

	if s.Settings.RestoreWait && (newLife(known.life, s.Life) || known.phase == restoring) {
		next.row = s.Row
		return v.restoring(known)
	}
	if s.Building {
		next.phase, next.program, next.Conditions = settled, nil, r.Conditions
		v.cause, v.debt = Recovery, debt{}
		return v
	}
	next.row = s.Row

	proper := r.Proper && !s.Flushed
	if c := owed.unconfirmed; c != nil {
		v.debt.unconfirmed = nil
		if r.Proper && r.State == c.state {
			v.landed = true
			v.debt.repairTo = nil
			return v.settle(&r, s)
		}
	}
	repairTo := owed.repairTo
	switch {
	case repairTo != nil:
	case s.Flushed || r.Unfinished:
		repairTo = &r.State
	case r.Normal, known.phase == restoring, renumbered(known, s) && !r.Proper && !remade(known, s), lostInRestart(known, s):
		repairTo = &known.State
	}
	if repairTo == nil || proper && r.State == *repairTo {
		v.debt.repairTo = nil
		return v.settle(&r, s)
	}
	return v.lost(known, &r, *repairTo)
}

// settle says what the switch shows, whoever did it.
func (v verdict) settle(r *cable.Reading, s *cable.Sight) verdict {
	next := v.next
	if (next.phase == unreadable || next.phase == unconfirmed) && next.State == r.State {
		v.cause = Outage
	}
	next.phase, next.State, next.Conditions, next.program = settled, r.State, r.Conditions, nil
	if r.Request != 0 {
		next.request, v.request, v.age = r.Request, r.Request, r.RequestAge
	}
	switch {
	case s.Flushed: // by the switch's own preparation, after the flows were read
		state := r.State
		next.phase, v.debt.repairTo = lost, &state
		next.Conditions = withFirst(flowsMissing(&next.Mux, "its flows were removed when fail_mode was made secure, and are being written"), r.Conditions)
	case r.Proper:
		next.program = s.Flows
	}
	return v
}

// lost says that the flows are not those of the mux by nobody's will, and have to be written.
func (v verdict) lost(known *Snapshot, r *cable.Reading, repairTo cable.State) verdict {
	next := v.next
	next.phase, next.program, next.State = lost, nil, known.State
	v.cause = Recovery
	v.debt.repairTo = &repairTo
	if known.phase == lost { // it was told, and each new attempt is not news
		next.Conditions = known.Conditions
		return v
	}
	next.Conditions = r.Conditions
	if healthy(cable.State{}, next.Conditions) {
		next.Conditions = withFirst(flowsMissing(&next.Mux, "its flows are lost"), next.Conditions)
	}
	return v
}

// restoring says that the switch waits for a script, and that what it shows meanwhile is nobody's wish.
func (v verdict) restoring(known *Snapshot) verdict {
	next := v.next
	next.phase, next.program, next.State = restoring, nil, known.State
	next.Conditions = whileRestoring(next.Read(next.Ports.Program(known.State, 0), next.Settings, known.State).Conditions)
	v.cause = Recovery
	return v
}

// renumbered reports whether a port has an OpenFlow number that it did not have, so that the flows that stand lead nowhere.
func renumbered(known *Snapshot, s *cable.Sight) bool {
	for _, p := range s.Mux.Ports {
		if p.Number != 0 && !slices.ContainsFunc(known.Ports[:], func(k cable.Port) bool { return k.Name == p.Name && k.Number == p.Number }) {
			return true
		}
	}
	return false
}

// remade reports whether the bridge is another one of the same name.
func remade(known *Snapshot, s *cable.Sight) bool {
	return known.row != "" && s.Row != "" && s.Row != known.row
}

// newLife reports whether the switch, or the bridge, was started anew between two lives; see cable.Sight. 0 is not known.
func newLife(from, to int64) bool { return from != 0 && to != 0 && from != to }

// lostInRestart reports whether the flows went because the switch was restarted, or the bridge made anew. What stands there
// decides: nothing, only what OVS does by itself, or only flows of ours from before.
func lostInRestart(known *Snapshot, s *cable.Sight) bool {
	if remade(known, s) {
		return len(s.Flows) == 0
	}
	return newLife(known.life, s.Life) && !slices.ContainsFunc(s.Flows, func(e cable.Entry) bool {
		_, ours := e.Cookie.Kind()
		return !ours
	})
}
