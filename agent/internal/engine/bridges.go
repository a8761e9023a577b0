package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// table is an immutable index of the muxes.
type table struct {
	byIndex  map[int]*mux
	ordered  []*mux // by index
	rejected []Rejected
}

// Rejected is a bridge that is named like a mux and can't be served.
type Rejected struct {
	Bridge string
	Index  int
	Code   string // as internal/api lists them
	Reason string
}

// serving returns the mux of the bridge that s is of, nil when it is not served.
func (t *table) serving(s *cable.Sight) *mux {
	if m := t.byIndex[s.Index]; m != nil && m.bridge == s.Bridge {
		return m
	}
	return nil
}

// update replaces the table by a changed copy. It is called with e.mu held.
func (e *Engine) update(change func(*table)) {
	cur := e.table.Load()
	next := &table{byIndex: maps.Clone(cur.byIndex), rejected: slices.Clone(cur.rejected)}
	change(next)
	next.ordered = slices.SortedFunc(maps.Values(next.byIndex), func(a, b *mux) int { return a.index - b.index })
	slices.SortFunc(next.rejected, func(a, b Rejected) int { return cmp.Or(a.Index-b.Index, cmp.Compare(a.Bridge, b.Bridge)) })
	e.table.Store(next)
}

// see is called for what the switch shows. Where that differs from the snapshot, the mux's owner decides, who may read the
// bridge again: a change may have been under way.
func (e *Engine) see(s cable.Sight) {
	m := e.table.Load().serving(&s)
	switch {
	case m == nil:
		e.meet(&s)
	case m.knows(&s):
	case s.Asked.IsZero() || s.Gone || s.Err != nil || s.Unprepared:
		m.recheckSoon(nil) // to be sure
	default:
		m.recheckSoon(&s)
	}
}

// meet handles the sight of a bridge that is not served.
func (e *Engine) meet(s *cable.Sight) {
	e.mu.Lock()
	if m := e.table.Load().serving(s); m != nil { // since a moment ago
		e.mu.Unlock()
		m.recheckSoon(nil)
		return
	}
	e.lastSeen[s.Bridge] = e.clock.Add(1)
	occupant := e.table.Load().byIndex[s.Index]
	e.list(s)
	e.mu.Unlock()
	switch {
	case s.Gone || s.Rejected != "" || s.Building || s.Err != nil: // the switch tells when that is over
	case occupant != nil:
		occupant.recheckSoon(nil) // the switch says that another bridge has its port index
		e.goBackground(func() { e.serveAfter(occupant, s.Bridge) })
	default:
		e.goBackground(func() { e.serve(s.Bridge) })
	}
}

// serveAfter serves a bridge once the mux that has its port index was looked at.
func (e *Engine) serveAfter(occupant *mux, bridge string) {
	occupant.look(occupant.actOrRetire)
	e.serve(bridge)
}

// serve begins to serve a bridge that stood still. What is absent is written at once, as at a start.
func (e *Engine) serve(bridge string) {
	for pause := firstRetry; e.stopping.Err() == nil; pause = min(2*pause, lastRetry) {
		asked := e.clock.Load()
		s := e.read(bridge)
		if s.Err == nil {
			if s.Gone || s.Rejected != "" || s.Building {
				return // the switch tells of it
			}
			m, current := e.enter(&s, asked)
			if m != nil {
				e.repair(e.stopping, map[*mux]cable.Change{m: e.startChange()})
			}
			if current {
				return
			}
		}
		select {
		case <-e.stopping.Done():
		case <-time.After(pause):
		}
	}
}

// enter is the one place where a mux enters the table. It returns nil when its bridge or its port index is served already.
// current is false when the switch told something of the bridge after s was asked for: then s is not believed.
//
// From then on whatever the switch tells of the bridge is told to the mux, so that nothing can be missed.
func (e *Engine) enter(s *cable.Sight, asked uint64) (m *mux, current bool) {
	m = newMux(e, s)
	first := m.adopt(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table.Load().byIndex[s.Index] != nil {
		return nil, true
	}
	if e.seenSince(s.Bridge, asked) {
		return nil, false
	}
	m.recorded = first
	e.Journal.add(Event{Index: m.index, Bridge: m.bridge, To: first, Origin: Origin{Cause: External}})
	e.update(func(t *table) {
		t.unlist(s.Bridge)
		t.byIndex[s.Index] = m
	})
	return m, true
}

// enterNow is enter, and reads the bridge again where the switch told something of it meanwhile. It returns nil when there is
// nothing to serve, or when that is left to the background.
func (e *Engine) enterNow(s *cable.Sight, asked uint64) *mux {
	for range optimism {
		m, current := e.enter(s, asked)
		if current {
			return m
		}
		asked = e.clock.Load()
		again := e.read(s.Bridge)
		if again.Err != nil || again.Gone || again.Rejected != "" {
			break
		}
		s = &again
	}
	e.goBackground(func() { e.serve(s.Bridge) })
	return nil
}

// seenSince reports whether the switch showed something of a bridge since a reading was asked for. It is called with e.mu held.
func (e *Engine) seenSince(bridge string, asked uint64) bool { return e.lastSeen[bridge] > asked }

// adopt makes of a mux that nobody else knows yet what its bridge shows, and returns what is to be told of that.
func (m *mux) adopt(s *cable.Sight) *Moment {
	known := *m.snap.Load()
	if s.Remembered == cable.LowerToR.String() {
		known.State.Active = cable.LowerToR
	}
	if s.Err != nil {
		v := judge(&known, debt{}, s)
		m.snap.Store(v.next)
		return v.next.moment()
	}
	known.Settings, known.row, known.life = s.Settings, s.Row, s.Life
	r := known.Read(s.Flows, s.Settings, known.State)
	v := verdict{next: &known}.settle(&r, s)
	m.debt = v.debt
	m.done.add(v.request, time.Now().Add(-v.age))
	m.snap.Store(v.next)
	return &Moment{State: r.State, Conditions: r.Conditions}
}

// list keeps the list of bridges that are not served. It is called with e.mu held.
func (e *Engine) list(s *cable.Sight) {
	rejected := e.table.Load().rejected
	i := slices.IndexFunc(rejected, func(r Rejected) bool { return r.Bridge == s.Bridge })
	now := Rejected{Bridge: s.Bridge, Index: s.Index, Code: cmp.Or(s.Code, api.RejectedPorts), Reason: s.Rejected}
	if s.Err != nil || i < 0 && s.Rejected == "" || i >= 0 && rejected[i] == now {
		return
	}
	if s.Rejected != "" {
		e.cfg.Log.Warn("bridge is not a usable mux", "bridge", s.Bridge, "reason", s.Rejected)
	}
	e.update(func(t *table) {
		t.unlist(s.Bridge)
		if s.Rejected != "" {
			t.rejected = append(t.rejected, now)
		}
	})
}

func (t *table) unlist(bridge string) {
	t.rejected = slices.DeleteFunc(t.rejected, func(r Rejected) bool { return r.Bridge == bridge })
}

// actOrRetire is act for a look that decides whether the mux is still to be served.
func (m *mux) actOrRetire(s *cable.Sight) bool {
	if s.Err != nil || s.Rejected == "" {
		return m.act(s)
	}
	m.engine.retire(m)
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	m.engine.list(s)
	return true
}

// retire stops serving an owned mux.
func (e *Engine) retire(m *mux) {
	gone := *m.snap.Load()
	gone.phase = retired
	m.snap.Store(&gone)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table.Load().byIndex[m.index] != m {
		return
	}
	e.lastSeen[m.bridge] = e.clock.Add(1)
	e.update(func(t *table) { delete(t.byIndex, m.index) })
	e.Journal.add(Event{Index: m.index, Bridge: m.bridge, From: m.recorded, Origin: Origin{Cause: External}})
}
