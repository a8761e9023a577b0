package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A Snapshot is a mux at one moment. It never changes.
type Snapshot struct {
	cable.Mux
	State  cable.State
	Flaps  int       // changes of side through the API since the start or the last clear
	Reason string    // why the mux is unhealthy, where it is not simply a requested drop
	Since  time.Time // when State last changed

	proper   bool  // the flows on the switch are exactly those of State
	unread   bool  // the switch could not be read when it was looked at last
	rejected bool  // the bridge is no mux at present, for Reason
	life     int64 // of the bridge, see cable.Sight
}

// Healthy reports whether everything passes as on a cable with nothing dropped.
func (s *Snapshot) Healthy() bool { return s.Reason == "" && s.State.Dropped == 0 }

// ErrStopping is the error of a change that came while the agent was stopping.
var ErrStopping = errors.New("the agent is stopping; nothing was done")

// A Result is what became of one change.
type Result struct {
	Snapshot *Snapshot // the mux afterwards; nil when there is none
	Err      error     // a *cable.SwitchError, ErrUnknownPort, or why the change never started
	// Begun is true when the change was worked out, whatever then became of it; Side is the side that it was to take.
	Begun bool
	Side  cable.Side
	// Queue is how long the change waited for those of the same mux before it, and Switch how long the switch took.
	Queue, Switch time.Duration
}

// Origin says who asked for a change.
type Origin struct {
	Cause  Cause
	Client string // address of the client
	ReqID  string
}

// A Cause is why the state of a mux changed.
type Cause string

// The causes.
const (
	API      Cause = "api"      // a client asked
	External Cause = "external" // seen on the switch, where nobody asked: somebody changed it, or it could not be read
	Recovery Cause = "recovery" // the agent put right what the switch had lost
)

// A runner is work that waits for a mux.
type runner interface{ run() }

// task is a runner that is a function.
type task func()

func (t task) run() { t() }

// A mux is one cable and its queue. Whoever owns it may store snapshots; nobody else does.
type mux struct {
	engine  *Engine
	snap    atomic.Pointer[Snapshot]
	changes atomic.Uint64 // counts the answers to changes, so that a reading that was taken meanwhile is not believed

	// The following are touched by the owner alone.
	late     *call        // a change of which nobody knows whether it landed
	owed     bool         // the flows are not those of State by no one's will, and have to be put right
	gone     bool         // it is served no more; what still happens to it is nobody's news
	wanted   *cable.State // what a repair was to bring and has not yet
	answered time.Time    // when the switch last answered a change, or was given up
	silent   time.Time    // when the switch last left an owner without an answer

	mu      sync.Mutex
	owned   bool
	queue   []runner
	looking bool          // somebody looks at it in the background
	again   chan struct{} // has a value when that is to be done once more
	seen    *cable.Sight  // what is to be looked at first, nil when the bridge is to be read
}

func newMux(e *Engine, s cable.Sight) *mux {
	m := &mux{engine: e, again: make(chan struct{}, 1)}
	m.snap.Store(&Snapshot{Mux: s.Mux, Since: time.Now()})
	return m
}

// tryOwn makes r the owner and returns true, or queues r and returns false. r's run is called only from the queue.
func (m *mux) tryOwn(r runner) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owned {
		m.queue = append(m.queue, r)
		return false
	}
	m.owned = true
	return true
}

// own runs r as soon as it is the owner. r must not block, and must see to it that release is called.
func (m *mux) own(r runner) {
	if m.tryOwn(r) {
		r.run()
	}
}

// hold waits until the caller is the owner. It must release.
func (m *mux) hold() {
	held := make(chan struct{})
	m.own(task(func() { close(held) }))
	<-held
}

// settle notes that the switch has answered a change of an owned mux. What was read before that is worth nothing.
func (m *mux) settle() {
	m.changes.Add(1)
	m.answered = time.Now()
}

// release hands the mux to the next in the queue.
func (m *mux) release() {
	m.mu.Lock()
	if len(m.queue) == 0 {
		m.owned, m.queue = false, nil
		m.mu.Unlock()
		return
	}
	next := m.queue[0]
	m.queue = m.queue[1:]
	m.mu.Unlock()
	next.run()
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

	update  cable.Update
	queue   time.Duration // from started to begin
	took    time.Duration // from started to the switch's answer; queue when it was not asked
	begun   bool
	side    cable.Side // that the change takes
	next    *Snapshot  // what is published when the switch confirms
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
	switch {
	case c.m.engine.stopping.Err() != nil:
		c.end(ErrStopping)
		return false
	case c.m.gone:
		c.end(ErrUnknownPort)
		return false
	case c.ctx.Err() != nil:
		c.end(fmt.Errorf("given up before it started: %w", context.Cause(c.ctx)))
		return false
	case now.After(c.deadline):
		c.end(&cable.SwitchError{
			Bridge: cur.Bridge, Op: "change", Retryable: true,
			Err: errors.New("gave up waiting for the changes before it; nothing was done"),
		})
		return false
	case c.m.silent.After(c.started): // to try as well would take longer than the caller was promised
		c.end(&cable.SwitchError{
			Bridge: cur.Bridge, Op: "change", Retryable: true,
			Err: errors.New("the switch did not answer the one before it; nothing was done"),
		})
		return false
	case c.change.Empty():
		c.end(nil)
		return false
	case cur.Ports.Fault() != "":
		c.end(&cable.SwitchError{Bridge: cur.Bridge, Op: "change", Err: errors.New(cur.Ports.Fault())})
		return false
	case cur.rejected:
		c.end(&cable.SwitchError{Bridge: cur.Bridge, Op: "change", Err: errors.New(cur.Reason)})
		return false
	}
	state := c.change.Apply(cur.State, c.m.engine.cfg.Random)
	c.begun, c.side = true, state.Active
	if state == cur.State && cur.proper && !c.change.Rewrite {
		c.end(nil)
		return false
	}
	next := *cur
	next.State, next.Reason, next.proper, next.unread = state, "", true, false
	if state.Active != cur.State.Active && c.origin.Cause == API {
		next.Flaps++
	}
	c.next = &next
	c.update = cable.Update{Bridge: cur.Bridge, Want: cur.Ports.Want(state), Known: cur.proper && !c.change.Rewrite}
	if c.update.Known {
		c.update.Have = cur.Ports.Want(cur.State)
	}
	return true
}

// finish is called with the switch's answer.
func (c *call) finish(err error) {
	m := c.m
	c.took = time.Since(c.started)
	m.settle()
	if err == nil {
		m.late, m.owed, m.wanted = nil, false, nil
		m.publish(c.next, c.origin, c.took)
		c.end(nil)
		return
	}
	if unknown := inDoubt(err); unknown != nil {
		doubt := *m.snap.Load()
		doubt.Reason = "it is not known whether the last change was applied: " + unknown.Err.Error()
		doubt.proper = false
		m.publish(&doubt, c.origin, c.took)
		m.late, m.silent = c, time.Now()
		m.engine.notice(m, nil)
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
	if err != nil && c.origin.Cause == Recovery {
		c.m.owed = true
		if c.begun {
			c.m.wanted = &c.next.State
		}
	}
	c.waiting.Done()
	c.m.release()
}

// publish stores the owner's next snapshot, and records what changed, why, for whom, and how long it took.
func (m *mux) publish(next *Snapshot, by Origin, took time.Duration) {
	cur := m.snap.Load()
	if next.State != cur.State {
		next.Since = time.Now()
	}
	m.snap.Store(next)
	if !m.gone && (next.State != cur.State || next.Reason != cur.Reason) {
		m.engine.record(next.Mux, cur.condition(), next.condition(), by, took)
	}
}

// record writes an event into the journal and the log.
func (e *Engine) record(mux cable.Mux, from, to *Condition, by Origin, took time.Duration) {
	ev := e.journal.record(Event{Index: mux.Index, Bridge: mux.Bridge, From: from, To: to, Origin: by, Took: took})
	level := slog.LevelInfo
	if to == nil || to.Reason != "" {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !e.cfg.Log.Enabled(ctx, level) {
		return
	}
	e.cfg.Log.LogAttrs(ctx, level, "mux changed",
		slog.Uint64("seq", ev.Seq), slog.String("bridge", mux.Bridge), slog.String("from", from.String()), slog.String("to", to.String()),
		slog.String("cause", string(by.Cause)), slog.String("client", by.Client), slog.String("req_id", by.ReqID), slog.Duration("took", took))
}
