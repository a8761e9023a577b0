package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// The pauses between looks at a mux that can't be read, or not be put right, where nothing is seen that tells when to try.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// A recheck is the one background look at a mux.
type recheck struct {
	mu      sync.Mutex
	running bool
	again   chan struct{} // has a value when there is something new to look at
	seen    *cable.Sight  // what is to be judged first; nil when the bridge is to be read
}

func newRecheck() recheck { return recheck{again: make(chan struct{}, 1)} }

// next returns what is to be judged, and forgets it.
func (r *recheck) next() *cable.Sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// over reports whether nothing is left to look at, and then ends the look.
func (r *recheck) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = len(r.again) > 0
	return !r.running
}

// recheckSoon has m looked at in the background until that succeeds, and once more when somebody looks already. It begins
// with what was seen, when there is something.
func (m *mux) recheckSoon(seen *cable.Sight) {
	r := &m.recheck
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = seen
	if r.running {
		select {
		case r.again <- struct{}{}:
		default:
		}
		return
	}
	r.running = m.engine.goBackground(m.lookUntilSeen)
}

func (m *mux) lookUntilSeen() {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		seen := m.recheck.next()
		ok := seen != nil && m.lookAt(seen) || m.look(m.act)
		if ok && m.recheck.over() {
			return
		}
		if ok {
			pause = firstRetry
		}
		select {
		case <-m.engine.stopping.Done():
			return
		case <-m.recheck.again:
		case <-time.After(pause):
		}
	}
}

// optimism is how often a mux is read while it may be changed.
const optimism = 3

// look reads the bridge of m and has the owner act on what it shows. It returns false when that is to be done again.
//
// It does not keep changes waiting for the reading, which may take long: a reading is worth nothing when a change was
// answered meanwhile. Where that happens again and again, the last one is taken as the owner.
func (m *mux) look(act func(*cable.Sight) bool) bool {
	flushed := false
	for range optimism {
		asked := time.Now()
		s := m.read()
		s.Flushed = s.Flushed || flushed
		flushed = s.Flushed
		m.hold()
		believed := asked.After(m.answered)
		ok := believed && act(&s)
		m.release()
		if believed {
			return ok
		}
	}
	m.hold()
	defer m.release()
	s := m.read()
	s.Flushed = s.Flushed || flushed
	if s.Err != nil {
		m.silent = time.Now()
	}
	return act(&s)
}

// lookAt acts on what was seen of m. It returns false when that is too old, or could not be put right.
func (m *mux) lookAt(s *cable.Sight) bool {
	m.hold()
	defer m.release()
	return m.debt == debt{} && m.knows(s) || s.Asked.After(m.answered) && m.act(s)
}

func (m *mux) read() cable.Sight { return m.engine.read(m.bridge) }

// read reads one bridge. Why it could not be read is in the Sight.
func (e *Engine) read(bridge string) cable.Sight {
	ctx, cancel := context.WithTimeout(e.stopping, e.cfg.Timeout)
	defer cancel()
	s, err := e.cfg.Switch.Read(ctx, bridge)
	s.Err = cmp.Or(err, s.Err)
	return s
}

// knows reports whether a sight is not news: it shows what the snapshot says, or what it said when the reading began.
func (m *mux) knows(s *cable.Sight) bool {
	cur := m.snap.Load()
	return cur.shows(s) || cur.previous != nil && !s.Asked.IsZero() && s.Asked.Before(cur.confirmed) && cur.previous.shows(s)
}

// shows reports whether the snapshot says what s says.
func (s *Snapshot) shows(sight *cable.Sight) bool {
	if sight.Unprepared {
		return false
	}
	v := judge(s, debt{}, sight)
	return !v.retire && v.debt.repairTo == nil && v.next.same(s)
}

// act makes of an owned mux what a sight shows, and returns false when that has to be done again.
func (m *mux) act(s *cable.Sight) bool {
	cur := m.snap.Load()
	if m.engine.stopping.Err() != nil || cur.phase == retired {
		return true
	}
	late := m.debt.unconfirmed
	v := judge(cur, m.debt, s)
	if v.retire {
		m.engine.retire(m)
		return true
	}
	if newLife(cur.life, v.next.life) {
		m.engine.Journal.countReconnect()
	}
	m.debt = v.debt
	if v.request != cur.request { // else it was known, and the flow may be younger than the request
		m.done.add(v.request, time.Now().Add(-v.age))
	}
	by, took := Origin{Cause: v.cause}, time.Duration(0)
	if v.landed {
		by, took = late.origin, time.Since(late.started)
		m.done.add(late.request, time.Now())
		if by.Cause == API && v.next.State.Active != cur.State.Active {
			v.next.Flaps++
		}
	}
	m.publish(v.next, by, took)
	if v.next.phase == lost {
		return m.repair()
	}
	return !v.again
}

// repair writes the flows that are owed to an owned mux, and waits for the switch. It returns false when that failed.
func (m *mux) repair() bool {
	cur := m.snap.Load()
	state := *m.debt.repairTo
	program := cur.Ports.Program(state, cur.request)
	answer := make(chan error, 1)
	started := time.Now()
	m.engine.cfg.Switch.Apply([]cable.Update{{Bridge: m.bridge, Want: program}}, func(_ int, err error) { answer <- err })
	err := <-answer
	m.settle()
	if err == nil {
		m.debt = debt{}
		m.publish(cur.written(state, program, cur.request).after(cur, m.answered), Origin{Cause: Recovery}, time.Since(started))
		return true
	}
	if inDoubt(err) != nil {
		m.silent = m.answered
	}
	next := *cur
	next.Conditions = withFirst(flowsMissing(&cur.Mux, "its flows could not be put right: "+err.Error()), cur.Conditions)
	m.publish(&next, Origin{Cause: Recovery}, time.Since(started))
	return false
}
