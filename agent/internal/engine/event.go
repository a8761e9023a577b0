package engine

import (
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// An Event is one change of a mux: of its state, its health, or of there being one.
type Event struct {
	Seq      uint64 // rises by 1 with each event of the vm_set, and over restarts of the agent
	Time     time.Time
	Index    int
	Bridge   string
	From, To *Moment // nil when there was, or is, no mux
	Origin
	Took time.Duration // from the request to the switch's answer; 0 when nobody asked
}

// A Moment is what an Event says of a mux.
type Moment struct {
	State      cable.State
	Conditions []api.Condition // worst first
}

// String writes "upper_tor", "lower_tor, dropped nic", "upper_tor: <reason>", or "none" where there is no mux.
func (m *Moment) String() string {
	switch {
	case m == nil:
		return "none"
	case len(m.Conditions) > 0:
		return m.State.String() + ": " + m.Reason()
	}
	return m.State.String()
}

// Healthy reports whether everything passes as on a cable with nothing dropped.
func (m *Moment) Healthy() bool { return healthy(m.State, m.Conditions) }

// Reason is the worst condition in words, "" where there is none.
func (m *Moment) Reason() string { return reason(m.Conditions) }

func (m *Moment) same(n *Moment) bool {
	return m.State == n.State && slices.Equal(m.Conditions, n.Conditions)
}

// A Cause is why a mux changed.
type Cause = api.Cause

// The causes, as the wire has them.
const (
	API      = api.CauseAPI
	External = api.CauseExternal
	Recovery = api.CauseRecovery
	Outage   = api.CauseOutage
)
