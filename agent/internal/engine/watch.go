package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// quiet is how long the ports and flows of a new bridge must stand still before it is served: until then somebody may
// still be building it.
const quiet = time.Second

// see is called for what the switch shows. A sight is only a hint, since a change may have been under way when it was
// taken: where it differs from the snapshot, the mux's owner reads the bridge again and decides on that.
func (e *Engine) see(s cable.Sight) {
	m := e.table.Load().byIndex[s.Index]
	if m == nil || m.snap.Load().Bridge != s.Bridge {
		e.meet(s)
		return
	}
	if m.shows(s) {
		return
	}
	e.look(m, false)
}

// shows reports whether the snapshot says what s says.
func (m *mux) shows(s cable.Sight) bool {
	cur := m.snap.Load()
	if s.Rejected != "" {
		return s.Rejected == cur.Reason
	}
	if s.Gone || s.Err != nil || s.Mux != cur.Mux {
		return false
	}
	r := cur.Ports.Read(s.Flows, cur.State.Active)
	return r.State == cur.State && r.Reason == cur.Reason && r.Proper == cur.proper
}

// look has the owner of m read its bridge and act on what it sees. With flushed the agent itself has emptied the flow
// table, so they are put back. It returns at once; the channel tells whether the bridge could be read.
func (e *Engine) look(m *mux, flushed bool) <-chan bool {
	looked := make(chan bool, 1)
	m.own(task(func() {
		started := e.goBackground(func() {
			if flushed {
				e.restore(m)
			}
			ok := e.lookOwned(m)
			m.release()
			looked <- ok
		})
		if !started {
			m.release()
			looked <- true
		}
	}))
	return looked
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

// lookOwned reads the bridge of a mux that the caller owns, and returns false when that failed.
func (e *Engine) lookOwned(m *mux) bool {
	cur := m.snap.Load()
	ctx, cancel := context.WithTimeout(e.stopping, e.cfg.Timeout)
	defer cancel()
	s, err := e.cfg.Switch.Read(ctx, cur.Bridge)
	if e.stopping.Err() != nil {
		return true
	}
	if err == nil {
		err = s.Err
	}
	next := *cur
	switch {
	case err != nil:
		next.Reason, next.proper = "the switch cannot be read: "+err.Error(), false
		m.publish(&next, Origin{Cause: External}, 0)
		return false
	case s.Gone:
		e.forget(cur.Bridge)
		e.record(cur.Mux, cur.condition(), nil, Origin{Cause: External}, 0)
		return true
	case s.Rejected != "":
		next.Reason, next.proper = s.Rejected, false
		m.publish(&next, Origin{Cause: External}, 0)
		return true
	}
	e.adopt(m, s)
	return true
}

// adopt brings the snapshot of an owned mux to what the switch shows. Flows that OVS itself left wrong are put right;
// what a person did is shown and left alone.
func (e *Engine) adopt(m *mux, s cable.Sight) {
	cur := m.snap.Load()
	next := *cur
	next.Mux = s.Mux
	r := next.Ports.Read(s.Flows, cur.State.Active)
	if m.late != nil && r.Proper && r.State == m.late.next.State {
		late := m.late
		m.late = nil
		next.State, next.Reason, next.proper, next.Flaps = r.State, "", true, late.next.Flaps
		m.publish(&next, late.origin, time.Since(late.started))
		return
	}
	m.late = nil
	renumbered := s.Mux.Ports != cur.Ports && s.Mux.Ports.Numbered()
	if renumbered || s.Flushed || slices.ContainsFunc(s.Flows, func(f cable.Flow) bool { return f.Action == cable.Normal }) {
		next.Reason, next.proper = r.Reason, false
		m.publish(&next, Origin{Cause: Recovery}, 0)
		e.restore(m)
		return
	}
	if s.Mux.Ports.Fault() != "" {
		r.State = cur.State // the flows point at a port that is not there; what was wanted is put back when it is
	}
	next.State, next.Reason, next.proper = r.State, r.Reason, r.Proper
	m.publish(&next, Origin{Cause: External}, 0)
}

// restore rewrites the flows of an owned mux for its last state, and waits for the switch.
func (e *Engine) restore(m *mux) {
	cur := m.snap.Load()
	answer := make(chan error, 1)
	started := time.Now()
	e.cfg.Switch.Apply([]cable.Update{{Bridge: cur.Bridge, Want: cur.Ports.Want(cur.State)}}, func(_ int, err error) { answer <- err })
	next := *cur
	if err := <-answer; err != nil {
		next.Reason = "repair failed: " + err.Error()
		m.publish(&next, Origin{Cause: Recovery}, 0)
		return
	}
	next.Reason, next.proper = "", true
	m.publish(&next, Origin{Cause: Recovery}, time.Since(started))
}

// adoptAtStart brings a mux that nobody else knows yet to what a full read saw of it.
func (e *Engine) adoptAtStart(m *mux, s cable.Sight) {
	cur := m.snap.Load()
	next := *cur
	next.Mux = s.Mux
	if s.Err != nil {
		next.Reason, next.proper = "the switch cannot be read: "+s.Err.Error(), false
	} else {
		r := next.Ports.Read(s.Flows, cur.State.Active)
		next.State, next.Reason, next.proper = r.State, r.Reason, r.Proper && !s.Flushed
	}
	m.snap.Store(&next)
	e.record(next.Mux, nil, next.condition(), Origin{Cause: External}, 0)
}

// readBackPause is the pause between attempts to read a mux whose last change is in doubt.
const readBackPause = 200 * time.Millisecond

// readBack reads a mux until that succeeds, without keeping others from changing it in between.
func (e *Engine) readBack(m *mux) {
	e.goBackground(func() {
		for done := false; !done; {
			select {
			case <-e.stopping.Done():
				return
			case <-time.After(readBackPause):
			}
			done = <-e.look(m, false)
		}
	})
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
	m := newMux(e, s)
	e.adoptAtStart(m, s)
	e.repair(e.stopping, map[*mux]cable.Change{m: {Output: cable.AllRoles}})
	e.update(func(t *table) {
		t.remove(s.Bridge)
		t.add(m)
	})
}

// forget stops serving a bridge.
func (e *Engine) forget(bridge string) {
	e.update(func(t *table) { t.remove(bridge) })
}
