package engine

import (
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A Snapshot is a mux at one moment. It never changes.
type Snapshot struct {
	cable.Mux
	Settings   cable.Settings
	State      cable.State
	Conditions []api.Condition // what should be known of it, worst first
	Flaps      int             // changes of side through the API since the start or the last clear
	Since      time.Time       // when State last changed

	phase   phase
	program cable.Program // the flows that stand, where they are exactly those of State; else nil
	request uint64        // cable.RequestHash of the request that changed it last, as the switch remembers it
	row     string        // of the bridge, see cable.Sight
	life    int64

	// What stood before the switch confirmed, at this time, the change that led here: a reading that began earlier may show
	// it still, and is not news then.
	previous  *Snapshot
	confirmed time.Time
}

// after returns the snapshot as the outcome of a change that was confirmed at a time.
func (s *Snapshot) after(previous *Snapshot, confirmed time.Time) *Snapshot {
	next, before := *s, *previous
	before.previous = nil
	next.previous, next.confirmed = &before, confirmed
	return &next
}

// A phase is how far the agent's knowledge of a mux goes.
type phase uint8

const (
	settled     phase = iota // the snapshot is what the switch shows
	unconfirmed              // the switch did not confirm the last change; it is being read back
	lost                     // the switch lost the flows; the agent is to write them
	unreadable               // the switch can't be read; the snapshot is the last one that was
	notAMux                  // the bridge is not a usable mux at present
	restoring                // the switch waits for somebody to restore its flows, and forwards nothing
	retired                  // it is no longer served
)

// Healthy reports whether everything passes as on a cable with nothing dropped.
func (s *Snapshot) Healthy() bool { return healthy(s.State, s.Conditions) }

// healthy judges by the first condition, which is the worst.
func healthy(state cable.State, conditions []api.Condition) bool {
	return state.Dropped == 0 && (len(conditions) == 0 || !api.Unhealthy(conditions[0].Code))
}

// Reason is the worst condition in words, "" where there is none.
func (s *Snapshot) Reason() string { return reason(s.Conditions) }

func reason(conditions []api.Condition) string {
	if len(conditions) == 0 {
		return ""
	}
	return conditions[0].Reason
}

// moment is what the journal says of the mux.
func (s *Snapshot) moment() *Moment { return &Moment{State: s.State, Conditions: s.Conditions} }

// written returns the snapshot of a mux whose flows the switch has just confirmed to be those of a state.
func (s *Snapshot) written(state cable.State, program cable.Program, request uint64) *Snapshot {
	next := *s
	next.State, next.program, next.request = state, program, request
	next.Conditions = next.Read(program, next.Settings, state).Conditions
	next.phase = settled
	if s.phase == restoring {
		next.phase = restoring
		next.Conditions = whileRestoring(next.Conditions)
	}
	return &next
}

// inDoubt returns the snapshot of a mux whose last change the switch did not confirm.
func (s *Snapshot) inDoubt(err *cable.SwitchError) *Snapshot {
	next := *s
	next.phase, next.program = unconfirmed, nil
	next.Conditions = []api.Condition{{
		Code: api.ConditionUnconfirmed, Reason: "it is not known whether the last change was applied: " + err.Err.Error(),
		Cure: "nothing, the agent reads it back; ovs-vsctl show hangs when Open vSwitch does",
	}}
	return &next
}

// withFirst returns conditions with one more of a code that then is the only one of it, in the order of the table.
func withFirst(c api.Condition, conditions []api.Condition) []api.Condition {
	all := []api.Condition{c}
	for _, other := range conditions {
		if other.Code != c.Code {
			all = append(all, other)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Condition) int { return api.Rank(a.Code) - api.Rank(b.Code) })
	return all
}

// flowsMissing is the condition of a mux whose flows the agent has to write.
func flowsMissing(m *cable.Mux, reason string) api.Condition {
	return api.Condition{Code: api.ConditionFlowsMissing, Reason: reason, Cure: m.ResetCure()}
}

// whileRestoring puts what keeps everything from passing before all else.
func whileRestoring(conditions []api.Condition) []api.Condition {
	first := []api.Condition{{
		Code: api.ConditionRestoring, Cure: cable.RemoveRestoreWait,
		Reason: "Open vSwitch was started with flow-restore-wait and forwards nothing until that is removed",
	}}
	for _, c := range conditions {
		if c.Code != api.ConditionRestoreWaitSet {
			first = append(first, c)
		}
	}
	return first
}

// same reports whether two snapshots say the same of a mux.
func (s *Snapshot) same(t *Snapshot) bool {
	return s.Mux == t.Mux && s.Settings == t.Settings && s.State == t.State && slices.Equal(s.Conditions, t.Conditions) &&
		s.phase == t.phase && s.row == t.row && s.life == t.life && (s.program == nil) == (t.program == nil)
}
