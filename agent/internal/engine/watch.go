package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// quiet is how long the ports and flows of a new bridge must stand still before it is served: until then somebody may
// still be building it.
const quiet = time.Second

// see is called for what the switch shows. Where that differs from the snapshot, the mux's owner decides, who may read the
// bridge again: a change may have been under way.
func (e *Engine) see(s cable.Sight) {
	m := e.table.Load().byIndex[s.Index]
	if m == nil || m.snap.Load().Bridge != s.Bridge {
		e.meet(s)
		return
	}
	if m.shows(s) {
		return
	}
	if s.Asked.IsZero() || s.Gone || s.Err != nil || s.Unprepared {
		e.notice(m, nil) // to be sure
		return
	}
	e.notice(m, &s)
}

// shows reports whether the snapshot says what s says.
func (m *mux) shows(s cable.Sight) bool {
	cur := m.snap.Load()
	switch {
	case s.Gone || s.Unprepared:
		return false
	case s.Err != nil:
		return cur.unread
	case s.Rejected != "":
		return cur.rejected && s.Rejected == cur.Reason
	case cur.unread || cur.rejected || s.Mux != cur.Mux || s.Life != cur.life:
		return false
	}
	if fault := s.Mux.Ports.Fault(); fault != "" {
		return fault == cur.Reason
	}
	r := cur.Ports.Read(s.Flows, cur.State.Active)
	return r.State == cur.State && r.Reason == cur.Reason && r.Proper == cur.proper
}

// The pauses between looks at a mux that cannot be read, or not be put right, where nothing is seen that tells when to try.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// notice has m looked at in the background until that succeeds, and once more when somebody looks already. It begins with
// what was seen, when there is something.
func (e *Engine) notice(m *mux, seen *cable.Sight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = seen
	if m.looking {
		select {
		case m.again <- struct{}{}:
		default:
		}
		return
	}
	m.looking = e.goBackground(func() { e.lookUntilSeen(m) })
}

func (e *Engine) lookUntilSeen(m *mux) {
	pause := firstRetry
	for {
		m.mu.Lock()
		seen := m.seen
		m.seen = nil
		m.mu.Unlock()
		ok := seen != nil && e.lookAt(m, *seen) || e.look(m, false)
		m.mu.Lock()
		if ok && len(m.again) == 0 {
			m.looking = false
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		select {
		case <-e.stopping.Done():
			return
		case <-m.again:
		case <-time.After(pause):
			pause = min(2*pause, lastRetry)
		}
	}
}

// look reads the bridge of m and acts on what it sees. With flushed the agent itself has emptied the flow table. It returns
// false when the bridge could not be read, or not be put right.
//
// It does not keep changes waiting for the reading, which may take long: a reading is worth nothing when a change was
// answered meanwhile. Where that happens again and again, the last one is taken as the owner.
func (e *Engine) look(m *mux, flushed bool) bool {
	for range optimism {
		before := m.changes.Load()
		s, err := e.read(m)
		flushed = flushed || s.Flushed
		m.hold()
		believed := m.changes.Load() == before
		ok := believed && e.act(m, s, err, flushed)
		m.release()
		if believed {
			return ok
		}
	}
	m.hold()
	defer m.release()
	s, err := e.read(m)
	if err != nil {
		m.silent = time.Now()
	}
	return e.act(m, s, err, flushed || s.Flushed)
}

// lookAt acts on what was seen of m. It returns false when that is too old, or could not be put right.
func (e *Engine) lookAt(m *mux, s cable.Sight) bool {
	m.hold()
	defer m.release()
	return s.Asked.After(m.answered) && e.act(m, s, nil, false)
}

// optimism is how often a mux is read while it may be changed.
const optimism = 3

func (e *Engine) read(m *mux) (cable.Sight, error) {
	ctx, cancel := context.WithTimeout(e.stopping, e.cfg.Timeout)
	defer cancel()
	s, err := e.cfg.Switch.Read(ctx, m.snap.Load().Bridge)
	return s, cmp.Or(err, s.Err)
}

// goBackground runs f, and returns false when the engine is stopping.
func (e *Engine) goBackground(f func()) bool {
	e.bgMu.Lock()
	defer e.bgMu.Unlock()
	if e.stopping.Err() != nil {
		return false
	}
	e.background.Go(f)
	return true
}

// act brings the snapshot of an owned mux to what was read, and returns false when that has to be done again.
func (e *Engine) act(m *mux, s cable.Sight, err error, flushed bool) bool {
	if e.stopping.Err() != nil || m.gone {
		return true
	}
	cur := m.snap.Load()
	m.owed = m.owed || flushed
	next := *cur
	switch {
	case err != nil:
		next.proper, next.unread = false, true
		if !cur.unread && m.late == nil { // a doubt stays the reason, and the first reason is the most telling
			next.Reason = "the switch cannot be read: " + err.Error()
		}
	case s.Gone:
		e.forget(m)
		return true
	case s.Rejected != "":
		next.Reason, next.proper, next.unread, next.rejected = s.Rejected, false, false, true
	default:
		return e.adopt(m, s)
	}
	m.publish(&next, Origin{Cause: External}, 0)
	return err == nil
}

// adopt brings the snapshot of an owned mux to what its bridge shows. Flows that are wrong by no one's will are put right;
// what a person did is shown and left alone.
func (e *Engine) adopt(m *mux, s cable.Sight) bool {
	cur := m.snap.Load()
	if cur.life != 0 && s.Life != 0 && s.Life != cur.life {
		e.journal.countReconnect()
	}
	next := *cur
	next.Mux, next.life, next.unread, next.rejected = s.Mux, s.Life, false, false
	r := next.Ports.Read(s.Flows, cur.State.Active)
	stands := r.Proper && !s.Flushed && (m.wanted == nil || r.State == *m.wanted) // what was flushed was removed after it was read
	if late := m.late; late != nil && r.Proper && r.State == late.next.State {
		m.late = nil
		next.State, next.Reason, next.proper = r.State, "", stands
		if late.origin.Cause == API && r.State.Active != cur.State.Active {
			next.Flaps++
		}
		m.publish(&next, late.origin, time.Since(late.started))
		if m.owed = !stands; m.owed {
			return e.restore(m)
		}
		return true
	}
	m.late = nil
	if fault := s.Mux.Ports.Fault(); fault != "" {
		// The flows point at a port that is not there. What was wanted is put back when it is.
		next.Reason, next.proper, m.owed = fault, false, true
		m.publish(&next, Origin{Cause: External}, 0)
		return true
	}
	owed := m.owed
	m.owed = (owed || lost(cur, s)) && !stands
	if m.owed {
		next.proper = false
		if !owed || cur.Reason == "" { // else it was told why, and each new attempt is no news
			next.Reason = cmp.Or(r.Reason, "its flows are lost")
		}
		m.publish(&next, Origin{Cause: Recovery}, 0)
		return e.restore(m)
	}
	m.wanted = nil
	next.State, next.Reason, next.proper = r.State, r.Reason, r.Proper
	m.publish(&next, Origin{Cause: External}, 0)
	return true
}

// lost reports whether a bridge lost its flows, rather than that somebody changed them: its ports got other numbers, Open
// vSwitch bridges by itself, or it was restarted and there is nothing yet.
func lost(cur *Snapshot, s cable.Sight) bool {
	for _, p := range s.Mux.Ports {
		if !slices.Contains(cur.Ports[:], p) {
			return true
		}
	}
	if slices.ContainsFunc(s.Flows, func(f cable.Flow) bool { return f.Action == cable.Normal }) {
		return true
	}
	if s.Life == cur.life || len(s.Flows) >= 2 || !cur.Ports.Numbered() {
		return false
	}
	// A change may have come before anybody noticed, and have written only what it changed.
	want := cur.Ports.Want(cur.State)
	return !slices.ContainsFunc(s.Flows, func(f cable.Flow) bool { return f != want[0] && f != want[1] })
}

// restore rewrites the flows of an owned mux for its last state, or for the one that a repair was to bring, and waits for
// the switch. It returns false when that failed.
func (e *Engine) restore(m *mux) bool {
	cur := m.snap.Load()
	next := *cur
	if m.wanted != nil {
		next.State = *m.wanted
	}
	answer := make(chan error, 1)
	started := time.Now()
	e.cfg.Switch.Apply([]cable.Update{{Bridge: cur.Bridge, Want: cur.Ports.Want(next.State)}}, func(_ int, err error) { answer <- err })
	err := <-answer
	m.settle()
	if err != nil {
		if inDoubt(err) != nil {
			m.silent = time.Now()
		}
		next.State = cur.State
		next.Reason = "its flows could not be put right: " + err.Error()
	} else {
		next.Reason, next.proper, m.owed, m.wanted = "", true, false, nil
	}
	m.publish(&next, Origin{Cause: Recovery}, time.Since(started))
	return err == nil
}

// adoptAtStart brings a mux that nobody else knows yet to what a full read saw of it.
func (e *Engine) adoptAtStart(m *mux, s cable.Sight) {
	cur := m.snap.Load()
	next := *cur
	next.Mux, next.life = s.Mux, s.Life
	if s.Err != nil {
		next.Reason, next.unread = "the switch cannot be read: "+s.Err.Error(), true
	} else {
		r := next.Ports.Read(s.Flows, cur.State.Active)
		next.State, next.Reason, next.proper = r.State, r.Reason, r.Proper
	}
	if next.Ports.Fault() != "" {
		next.State.Dropped = 0 // nothing can pass, though nobody dropped it
	}
	if s.Flushed {
		next.Reason, next.proper = cmp.Or(next.Reason, "its flows are not written yet"), false
	}
	m.owed = !next.proper
	m.snap.Store(&next)
	e.record(next.Mux, nil, next.condition(), Origin{Cause: External}, 0)
}

// meet handles the sight of a bridge that is not served.
func (e *Engine) meet(s cable.Sight) {
	if m := e.table.Load().byIndex[s.Index]; m != nil && !s.Gone && s.Rejected == "" {
		s.Rejected = clash(s.Index, m.snap.Load().Bridge)
	}
	if s.Gone || s.Rejected != "" {
		e.reject(s)
		return
	}
	e.mu.Lock()
	known := e.newborn[s.Bridge]
	e.newborn[s.Bridge] = true
	e.mu.Unlock()
	if !known {
		e.goBackground(func() { e.serveWhenQuiet(s) })
	}
}

// reject lists a bridge that is not served with its reason, or takes it off the list when it is gone.
func (e *Engine) reject(s cable.Sight) {
	rejected := e.Rejected()
	i := slices.IndexFunc(rejected, func(r Rejected) bool { return r.Bridge == s.Bridge })
	if i < 0 && s.Gone || i >= 0 && rejected[i].Reason == s.Rejected {
		return
	}
	if s.Rejected != "" {
		e.cfg.Log.Warn("bridge is no mux", "bridge", s.Bridge, "reason", s.Rejected)
	}
	e.update(func(t *table) {
		t.remove(s.Bridge)
		if s.Rejected != "" {
			t.rejected = append(t.rejected, Rejected{Bridge: s.Bridge, Index: s.Index, Reason: s.Rejected})
		}
	})
}

// serveWhenQuiet serves a new bridge after its ports and flows stood still.
func (e *Engine) serveWhenQuiet(s cable.Sight) {
	defer func() {
		e.mu.Lock()
		delete(e.newborn, s.Bridge)
		e.mu.Unlock()
	}()
	for {
		select {
		case <-e.stopping.Done():
			return
		case <-time.After(quiet):
		}
		ctx, cancel := context.WithTimeout(e.stopping, e.cfg.Timeout)
		again, err := e.cfg.Switch.Read(ctx, s.Bridge)
		cancel()
		if err = errors.Join(err, again.Err); err != nil {
			continue
		}
		if again.Gone || again.Rejected != "" {
			e.reject(again)
			return
		}
		// A switch prepares, and then flushes, only what stood still.
		still := again.Flushed || again.Mux == s.Mux && slices.Equal(again.Flows, s.Flows)
		s = again
		if still {
			break
		}
	}
	e.reloading.Lock() // a reload serves new bridges as well
	defer e.reloading.Unlock()
	if served := e.table.Load().byIndex[s.Index]; served != nil {
		if other := served.snap.Load().Bridge; other != s.Bridge {
			s.Rejected = clash(s.Index, other)
			e.reject(s)
		}
		return
	}
	m := newMux(e, s)
	e.adoptAtStart(m, s)
	change := cable.Change{Output: cable.AllRoles}
	if e.cfg.KeepDrops && s.Mux.Ports.Read(s.Flows, cable.UpperToR).Proper {
		change = cable.Change{}
	}
	e.repair(e.stopping, map[*mux]cable.Change{m: change})
	e.update(func(t *table) {
		t.remove(s.Bridge)
		t.add(m)
	})
}

// forget stops serving an owned mux.
func (e *Engine) forget(m *mux) {
	m.gone = true
	s := m.snap.Load()
	served := false
	e.update(func(t *table) {
		if served = t.byIndex[s.Index] == m; served {
			t.remove(s.Bridge)
		}
	})
	if served {
		e.record(s.Mux, s.condition(), nil, Origin{Cause: External}, 0)
	}
}
