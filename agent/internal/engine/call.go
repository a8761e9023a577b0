package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// The errors of changes that were not begun.
var (
	ErrStopping  = errors.New("the agent is stopping; nothing was done")
	ErrRestoring = errors.New("Open vSwitch waits for its flows to be restored (flow-restore-wait); nothing was done, try again")
)

// A Result is what became of one change.
type Result struct {
	Snapshot *Snapshot // the mux afterwards; nil when there is none
	Err      error     // a *cable.SwitchError, ErrUnknownPort, ErrRestoring, or why the change never started
	// Queue is how long the change waited for those of the same mux before it, and Switch how long the switch took.
	Queue, Switch time.Duration
}

// Origin says who asked for a change.
type Origin struct {
	Cause  Cause
	Client string // address of the client
	By     string // name of the client, "" where nobody knows
	ReqID  string
}

// A call is one change of one mux on its way.
type call struct {
	m        *mux
	index    int
	ctx      context.Context
	change   cable.Change
	origin   Origin
	started  time.Time
	deadline time.Time // for leaving the queue

	state   cable.State // that the change is to bring
	update  cable.Update
	request uint64
	queue   time.Duration // from started to begin
	took    time.Duration // from started to the switch's answer; queue when it was not asked
	next    *Snapshot     // what is published when the switch confirms
	err     error
	waiting *sync.WaitGroup
}

// run begins a call that had to wait.
func (c *call) run() {
	if c.begin() {
		c.m.engine.apply([]*call{c})
	}
}

// begin is called by the owner. It returns true when the switch has to be changed; otherwise the call is over.
func (c *call) begin() bool {
	cur := c.m.snap.Load()
	c.next = cur
	now := time.Now()
	c.queue = now.Sub(c.started)
	c.took = c.queue
	if err := c.hindrance(cur, now); err != nil {
		c.end(err)
		return false
	}
	c.request = cable.RequestHash(c.origin.ReqID)
	if c.change.Empty() || c.m.done.has(c.request) {
		c.end(nil)
		return false
	}
	c.state = c.change.Apply(cur.State, c.m.engine.cfg.Random)
	proper := cur.program != nil && !c.change.Rewrite
	drawn := c.change.Move == cable.MoveRandom && c.request != 0 // the switch is to remember that it was drawn
	if c.state == cur.State && proper && !drawn {
		c.m.done.add(c.request, now)
		c.end(nil)
		return false
	}
	request := c.request // which the switch is to remember
	if c.origin.Cause != API {
		request = cur.request
	}
	c.update = cable.Update{
		Bridge: cur.Bridge, Want: cur.Ports.Program(c.state, request), Have: cur.program, Known: proper,
	}
	c.next = cur.written(c.state, c.update.Want, request)
	if c.state.Active != cur.State.Active && c.origin.Cause == API {
		c.next.Flaps++
	}
	return true
}

// hindrance is why the change can't begin, nil when it can.
func (c *call) hindrance(cur *Snapshot, now time.Time) error {
	notDone := func(retryable bool, words string) error {
		return &cable.SwitchError{Bridge: cur.Bridge, Op: "change", Retryable: retryable, Err: errors.New(words)}
	}
	switch {
	case c.m.engine.stopping.Err() != nil:
		return ErrStopping
	case cur.phase == retired:
		return ErrUnknownPort
	case c.ctx.Err() != nil:
		return fmt.Errorf("given up before it started: %w", context.Cause(c.ctx))
	case now.After(c.deadline):
		return notDone(true, "gave up waiting for the changes before it; nothing was done")
	case c.m.silent.After(c.started): // to try as well would take longer than the caller was promised
		return notDone(true, "the switch did not answer the one before it; nothing was done")
	case cur.phase == notAMux:
		return notDone(false, cur.Reason())
	case cur.phase == restoring && now.Sub(time.Unix(0, cur.life)) < cable.RestoreTime:
		return ErrRestoring
	}
	return nil
}

// finish is called with the switch's answer.
func (c *call) finish(err error) {
	m := c.m
	c.took = time.Since(c.started)
	m.settle()
	if err == nil {
		m.debt = debt{}
		m.done.add(c.request, m.answered)
		c.next = c.next.after(m.snap.Load(), m.answered)
		m.publish(c.next, c.origin, c.took)
		c.end(nil)
		return
	}
	if unknown := inDoubt(err); unknown != nil {
		m.debt.unconfirmed, m.silent = c, m.answered
		m.publish(m.snap.Load().inDoubt(unknown), c.origin, c.took)
		m.recheckSoon(nil)
	}
	c.end(err)
}

// inDoubt returns the error of a change of which nobody can tell what became of it, and nil for any other.
func inDoubt(err error) *cable.SwitchError {
	var failed *cable.SwitchError
	if errors.As(err, &failed) && failed.Unknown {
		return failed
	}
	return nil
}

func (c *call) end(err error) {
	c.err = err
	if cur := c.m.snap.Load(); err != nil && c.origin.Cause == Recovery && cur.phase != retired {
		state := c.change.Apply(cur.State, nil) // a repair draws nothing
		c.m.debt.repairTo = &state
	}
	c.waiting.Done()
	c.m.release()
}
