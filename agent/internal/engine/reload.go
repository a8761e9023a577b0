package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Reload reads the whole switch: new muxes appear, those that went disappear, and what is not a proper cable is repaired as
// at a start. Counters stay. It fails when the switch as a whole can't be read, and then nothing is changed.
func (e *Engine) Reload(ctx context.Context) error {
	e.reloading.Lock()
	defer e.reloading.Unlock()
	asked := e.clock.Load()
	sights, err := e.cfg.Switch.Discover(ctx)
	if err != nil {
		return fmt.Errorf("read the switch: %w", err)
	}
	if err := e.awaitsRestore(sights); err != nil {
		return err
	}
	before := e.table.Load().ordered
	found := map[string]bool{}
	changes := map[*mux]cable.Change{}
	var looks sync.WaitGroup
	for i := range sights {
		s := &sights[i]
		s.Building = false // whoever asks for a reload says that it is built
		m := e.table.Load().serving(s)
		switch {
		case s.Rejected != "" && m == nil:
			e.mu.Lock()
			if !e.seenSince(s.Bridge, asked) {
				e.list(s)
			}
			e.mu.Unlock()
			found[s.Bridge] = true
			continue
		case s.Rejected != "":
			continue
		case m == nil:
			if m = e.enterNow(s, asked); m == nil {
				continue
			}
		case s.Flushed || !m.knows(s):
			looks.Go(func() { m.lookAfter(s.Flushed) })
		}
		found[s.Bridge] = true
		changes[m] = e.startChange()
	}
	for _, m := range before { // what this reading did not find, another one must miss as well
		if !found[m.bridge] {
			looks.Go(func() { m.look(m.actOrRetire) })
		}
	}
	e.unlistLost(found, asked)
	looks.Wait()
	// A flushed bridge must not be left without flows because somebody gave up.
	e.repair(context.WithoutCancel(ctx), changes)
	if e.notReady.Swap(nil) != nil {
		close(e.ready)
	}
	return nil
}

// lookAfter looks at a mux whose bridge a reload found to differ.
func (m *mux) lookAfter(flushed bool) {
	act := func(s *cable.Sight) bool {
		s.Flushed, s.Building = s.Flushed || flushed, false
		return m.act(s)
	}
	if !m.look(act) {
		m.recheckSoon(nil)
	}
}

// awaitsRestore is why an engine that starts decides no side yet: the switch was started moments ago to have its flows
// restored by a script.
func (e *Engine) awaitsRestore(sights []cable.Sight) error {
	if e.NotReady() == nil {
		return nil
	}
	for i := range sights {
		if sights[i].Restoring() {
			return &NotReadyError{api.NotReadyRestoring, "Open vSwitch was started with flow-restore-wait; the agent waits until its flows are restored"}
		}
	}
	return nil
}

// unlistLost takes bridges off the list of rejected ones that a reading did not find.
func (e *Engine) unlistLost(found map[string]bool, asked uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.update(func(t *table) {
		t.rejected = slices.DeleteFunc(t.rejected, func(r Rejected) bool { return !found[r.Bridge] && !e.seenSince(r.Bridge, asked) })
	})
}

// startChange is what is asked of each mux at a start.
func (e *Engine) startChange() cable.Change {
	if e.cfg.KeepDrops {
		return cable.Change{}
	}
	return cable.Change{Output: cable.AllRoles}
}

// repair makes muxes proper at a start or reload.
func (e *Engine) repair(ctx context.Context, changes map[*mux]cable.Change) {
	calls := make([]*call, 0, len(changes))
	for m, change := range changes {
		s := m.snap.Load()
		change.Rewrite = s.program == nil
		switch {
		case !change.Rewrite && change.Apply(s.State, nil) == s.State, s.phase == restoring, s.phase == retired:
		case s.phase == unreadable, s.phase == notAMux: // nobody knows what it does
			m.recheckSoon(nil)
		default:
			calls = append(calls, &call{m: m, change: change, origin: Origin{Cause: Recovery}})
		}
	}
	for _, c := range e.run(ctx, calls) {
		if c.err != nil {
			e.cfg.Log.Error("repair failed", "bridge", c.m.bridge, "err", c.err)
			c.m.recheckSoon(nil)
		}
	}
}
