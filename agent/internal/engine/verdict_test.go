package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// The mux that the rows below are about, and what is known of it: the lower ToR is active, and the agent wrote its flows.
var (
	testMux = cable.Mux{VMSet: "vms17-8", Bridge: "mbr-vms17-8-0", Ports: cable.Ports{
		cable.NIC: {Name: "muxy-vms17-8-0", Number: 1}, cable.Upper: {Name: "p.1", Number: 2}, cable.Lower: {Name: "p.2", Number: 3},
	}}
	lowerState = cable.State{Active: cable.LowerToR}
	upperState = cable.State{}
)

func knownMux() *Snapshot {
	return &Snapshot{Mux: testMux, State: lowerState, program: testMux.Ports.Program(lowerState, 0), row: "a", life: 100}
}

// sight returns what a switch shows of the mux when nothing has changed.
func sight() cable.Sight {
	return cable.Sight{Bridge: testMux.Bridge, Mux: testMux, Row: "a", Life: 100, Flows: testMux.Ports.Program(lowerState, 0)}
}

// foreignProgram is the flows of a state as somebody else writes them: without our cookies.
func foreignProgram(p cable.Ports, s cable.State) []cable.Entry {
	flows := slices.Clone(p.Program(s, 0))
	for i := range flows {
		flows[i].Cookie = 0
	}
	return flows
}

// TestJudge is the table of docs/agent/truth.md: what is seen, what is said of it, and what is done.
func TestJudge(t *testing.T) {
	normal := cable.Entry{Flow: cable.Flow{Action: cable.Normal}}
	without := func(s *cable.Sight, role cable.Role) {
		s.Mux.Ports[role].Number, s.Mux.Ports[role].Fault = 0, "No such device"
	}
	tests := []struct {
		name  string
		known func(*Snapshot)
		debt  debt
		see   func(*cable.Sight)

		phase phase
		state cable.State
		code  string       // of the worst condition
		write *cable.State // what is to be written
		cause Cause
		then  func(*testing.T, verdict)
	}{
		{name: "nothing new", state: lowerState, cause: External},
		{
			name: "restart: an empty table", see: func(s *cable.Sight) { s.Life, s.Flows = 101, nil },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name: "restart: NORMAL alone", see: func(s *cable.Sight) { s.Life, s.Flows = 101, []cable.Entry{normal} },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name:  "restart with a port missing: what lives is put back",
			see:   func(s *cable.Sight) { s.Life, s.Flows = 101, nil; without(s, cable.Upper) },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name:  "restart: one flow of ours, written before anybody noticed",
			see:   func(s *cable.Sight) { s.Life, s.Flows = 101, s.Flows[1:] },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name:  "restart: flows of ours from before the last change, put back by a script",
			see:   func(s *cable.Sight) { s.Life, s.Flows = 101, testMux.Ports.Program(upperState, 0) },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name:  "restart: somebody wrote flows of his own since",
			see:   func(s *cable.Sight) { s.Life, s.Flows = 101, foreignProgram(testMux.Ports, upperState) },
			state: upperState, cause: External,
		},
		{
			name:  "started with flow-restore-wait",
			see:   func(s *cable.Sight) { s.Life, s.Settings.RestoreWait, s.Flows = 101, true, nil },
			phase: restoring, state: lowerState, code: api.ConditionRestoring, cause: Recovery,
		},
		{
			name: "… and the script restores older flows meanwhile", known: func(k *Snapshot) { k.phase, k.life = restoring, 101 },
			see: func(s *cable.Sight) {
				s.Life, s.Settings.RestoreWait, s.Flows = 101, true, testMux.Ports.Program(upperState, 0)
			},
			phase: restoring, state: lowerState, code: api.ConditionRestoring, cause: Recovery,
		},
		{
			name: "… and it is over: what was acknowledged last is put back", known: func(k *Snapshot) { k.phase, k.life = restoring, 101 },
			see:   func(s *cable.Sight) { s.Life, s.Flows = 101, foreignProgram(testMux.Ports, upperState) },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name: "… and it is over, and all stands", known: func(k *Snapshot) { k.phase, k.life = restoring, 101 },
			see:   func(s *cable.Sight) { s.Life = 101 },
			state: lowerState, cause: External,
		},
		{
			name:  "flow-restore-wait set while Open vSwitch runs",
			see:   func(s *cable.Sight) { s.Settings.RestoreWait = true },
			state: lowerState, code: api.ConditionRestoreWaitSet, cause: External,
		},
		{
			name:  "fail_mode is no longer secure",
			see:   func(s *cable.Sight) { s.Settings.Standalone = true },
			state: lowerState, code: api.ConditionFailMode, cause: External,
		},
		{
			name:  "the switch flushed the bridge to make fail_mode secure",
			see:   func(s *cable.Sight) { s.Flushed = true },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name:  "NORMAL at any time",
			see:   func(s *cable.Sight) { s.Flows = append(slices.Clone(s.Flows), normal) },
			phase: lost, state: lowerState, code: api.ConditionForeignFlow, write: &lowerState, cause: Recovery,
		},
		{
			name:  "a port with a new number",
			see:   func(s *cable.Sight) { s.Mux.Ports[cable.Lower].Number = 9 },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name:  "a person switches",
			see:   func(s *cable.Sight) { s.Flows = foreignProgram(testMux.Ports, upperState) },
			state: upperState, cause: External,
		},
		{
			name:  "a flow that is due is not there",
			see:   func(s *cable.Sight) { s.Flows = s.Flows[:1] },
			state: lowerState, code: api.ConditionFlowsMissing, cause: External,
		},
		{
			name: "… of a mux with a drop that was asked for", known: func(k *Snapshot) { k.State.Dropped = cable.AllRoles },
			see:   func(s *cable.Sight) { s.Flows = nil },
			state: cable.State{Active: cable.LowerToR, Dropped: cable.AllRoles}, code: api.ConditionFlowsMissing, cause: External,
		},
		{
			name:  "two downstream flows",
			see:   func(s *cable.Sight) { s.Flows = append(slices.Clone(s.Flows), cable.Entry{Flow: cable.NewFlow(2, 1)}) },
			state: lowerState, code: api.ConditionBothForward, cause: External,
		},
		{
			name: "a foreign flow",
			see: func(s *cable.Sight) {
				s.Flows = append(slices.Clone(s.Flows), cable.Entry{Flow: cable.Flow{Priority: 40000, Match: "icmp"}})
			},
			state: lowerState, code: api.ConditionForeignFlow, cause: External,
		},
		{
			name:  "the active ToR's device is gone",
			see:   func(s *cable.Sight) { without(s, cable.Lower) },
			state: lowerState, code: api.ConditionPortMissing, cause: External,
		},
		{
			name:  "the standby ToR's device is gone",
			see:   func(s *cable.Sight) { without(s, cable.Upper) },
			state: lowerState, code: api.ConditionStandbyMissing, cause: External,
		},
		{
			name:  "a port's device is back under its number, and nothing was changed",
			known: func(k *Snapshot) { k.Ports[cable.Upper].Number, k.program = 0, nil },
			state: lowerState, cause: External,
		},
		{
			name: "a port's device is back after a change that a placeholder held",
			known: func(k *Snapshot) {
				k.Ports[cable.Upper].Number, k.State = 0, upperState
				k.program = k.Ports.Program(upperState, 0)
			},
			see: func(s *cable.Sight) {
				ports := testMux.Ports
				ports[cable.Upper].Number = 0
				s.Flows = ports.Program(upperState, 0)
			},
			phase: lost, state: upperState, code: api.ConditionFlowsMissing, write: &upperState, cause: Recovery,
		},
		{
			name:  "the standby ToR's port is down",
			see:   func(s *cable.Sight) { s.Mux.Ports[cable.Upper].Down = true },
			state: lowerState, code: api.ConditionStandbyBlocked, cause: External,
		},
		{
			name:  "a port is down",
			see:   func(s *cable.Sight) { s.Mux.Ports[cable.Lower].Down = true },
			state: lowerState, code: api.ConditionPortBlocked, cause: External,
		},
		{
			name:  "a port has no carrier",
			see:   func(s *cable.Sight) { s.Mux.Ports[cable.Lower].NoCarrier = true },
			state: lowerState, code: api.ConditionPortDown, cause: External,
		},
		{
			name: "a spanning tree, a controller, protocols",
			see: func(s *cable.Sight) {
				s.Settings = cable.Settings{SpanningTree: "stp", Controller: true, Protocols: "OpenFlow14"}
			},
			state: lowerState, code: api.ConditionProtocols, cause: External,
		},
		{
			name:  "it can't be read",
			see:   func(s *cable.Sight) { s.Err = errors.New("no answer") },
			phase: unreadable, state: lowerState, code: api.ConditionUnreadable, cause: Outage,
			then: func(t *testing.T, v verdict) {
				if !v.again {
					t.Error("nobody reads it again")
				}
			},
		},
		{
			name: "it can be read again", known: func(k *Snapshot) {
				k.phase, k.program, k.Conditions = unreadable, nil, []api.Condition{{Code: api.ConditionUnreadable}}
			},
			state: lowerState, cause: Outage,
		},
		{
			name: "the bridge is gone", see: func(s *cable.Sight) { *s = cable.Sight{Bridge: s.Bridge, Gone: true} },
			state: lowerState, cause: External,
			then: func(t *testing.T, v verdict) {
				if !v.retire {
					t.Error("it is served on")
				}
			},
		},
		{
			name: "the bridge is made anew, and still being built",
			see:  func(s *cable.Sight) { s.Row, s.Life, s.Flows, s.Building = "b", 101, nil, true },

			state: lowerState, code: api.ConditionFlowsMissing, cause: Recovery,
		},
		{
			name: "… and stands still as the factory made it", known: func(k *Snapshot) { k.life, k.program = 101, nil },
			see:   func(s *cable.Sight) { s.Row, s.Life, s.Flows = "b", 101, []cable.Entry{normal} },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &lowerState, cause: Recovery,
		},
		{
			name: "… with flows that somebody wrote, also for new numbers, and not yet all",
			see: func(s *cable.Sight) {
				s.Row, s.Life, s.Mux.Ports[cable.Upper].Number = "b", 101, 12
				s.Flows = []cable.Entry{{Flow: cable.NewFlow(12, 1)}}
			},
			state: upperState, code: api.ConditionFlowsMissing, cause: External,
		},
		{
			name: "it is not a usable mux at present",
			see: func(s *cable.Sight) {
				*s = cable.Sight{Bridge: s.Bridge, Rejected: "it has 2 ports", Code: api.RejectedPorts}
			},
			phase: notAMux, state: lowerState, code: api.ConditionNotAMux, cause: External,
		},
		{
			name: "a change that was not confirmed has landed", known: func(k *Snapshot) { k.phase, k.program = unconfirmed, nil },
			debt: debt{unconfirmed: &call{state: upperState}},
			see:  func(s *cable.Sight) { s.Flows = testMux.Ports.Program(upperState, 7) }, state: upperState, cause: External,
			then: func(t *testing.T, v verdict) {
				if !v.landed || v.debt.unconfirmed != nil || v.request != 7 {
					t.Errorf("landed %v, still owed %v, request %d", v.landed, v.debt.unconfirmed, v.request)
				}
			},
		},
		{
			name: "a change that was not confirmed has not landed", known: func(k *Snapshot) { k.phase, k.program = unconfirmed, nil },
			debt: debt{unconfirmed: &call{state: upperState}}, state: lowerState, cause: Outage,
			then: func(t *testing.T, v verdict) {
				if v.landed || v.debt.unconfirmed != nil {
					t.Errorf("landed %v, still owed %v", v.landed, v.debt.unconfirmed)
				}
			},
		},
		{
			name: "a repair is owed, and an outage came between", known: func(k *Snapshot) { k.phase, k.program = unreadable, nil },
			debt: debt{repairTo: &upperState}, see: func(s *cable.Sight) { s.Flows = nil },
			phase: lost, state: lowerState, code: api.ConditionFlowsMissing, write: &upperState, cause: Recovery,
		},
		{
			name: "a repair is owed, and somebody did it", known: func(k *Snapshot) { k.phase, k.program = lost, nil },
			debt: debt{repairTo: &lowerState}, state: lowerState, cause: External,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			known, s := knownMux(), sight()
			if tt.known != nil {
				tt.known(known)
			}
			if tt.see != nil {
				tt.see(&s)
			}
			v := judge(known, tt.debt, &s)
			code := ""
			if len(v.next.Conditions) > 0 {
				code = v.next.Conditions[0].Code
			}
			if v.next.phase != tt.phase || v.next.State != tt.state || code != tt.code || v.cause != tt.cause {
				t.Errorf("phase %d, %v, %q, by %s; want %d, %v, %q, %s", v.next.phase, v.next.State, code, v.cause, tt.phase, tt.state, tt.code, tt.cause)
			}
			switch wrote := v.debt.repairTo; {
			case wrote == nil && tt.write == nil:
			case wrote == nil || tt.write == nil || *wrote != *tt.write:
				t.Errorf("to be written: %v, want %v", wrote, tt.write)
			}
			if rank := func(c api.Condition) int { return api.Rank(c.Code) }; !slices.IsSortedFunc(v.next.Conditions, func(a, b api.Condition) int { return rank(a) - rank(b) }) {
				t.Errorf("conditions are not in the order of the table: %+v", v.next.Conditions)
			}
			if tt.then != nil {
				tt.then(t, v)
			}
		})
	}
}

// A long outage is one event: what was said first stays.
func TestJudgeKeepsTheFirstReason(t *testing.T) {
	s := sight()
	s.Err = errors.New("first")
	v := judge(knownMux(), debt{}, &s)
	s.Err = errors.New("second")
	if again := judge(v.next, v.debt, &s); !strings.Contains(again.next.Reason(), "first") {
		t.Errorf("the reason became %q", again.next.Reason())
	}
}

func TestRequestsAreRememberedForAWhile(t *testing.T) {
	var q requests
	q.add(1, time.Now().Add(-RememberRequests))
	q.add(2, time.Now())
	if q.has(1) || !q.has(2) || q.has(0) {
		t.Errorf("1, 2, none are known: %v %v %v, want only 2", q.has(1), q.has(2), q.has(0))
	}
	for i := range uint64(rememberedRequests) {
		q.add(100+i, time.Now())
	}
	if q.has(2) || !q.has(100) {
		t.Error("want the last ones remembered, and no more")
	}
}
