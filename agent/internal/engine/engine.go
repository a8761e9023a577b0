// Package engine is the parallel toggle engine: it owns the state of every mux of one vm_set.
//
// Each mux has one owner at a time, so its changes are serial; its state is published as an immutable Snapshot that
// readers take without waiting. Changes come in through one door, Do, which starts those of all its muxes at once. The
// switch is the truth: a Snapshot changes when the switch has confirmed, or when the switch was seen to differ.
//
// The package must not know how flows reach a switch (see Switch) nor that there is HTTP.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// Config is what an Engine needs.
type Config struct {
	Names  *cable.Names // of the vm_set
	Switch Switch
	Log    *slog.Logger
	// KeepDrops leaves dropped ports dropped at the start. The replaced service restores them, and test sessions restart
	// it for that.
	KeepDrops bool
	// Timeout bounds how long a change may wait for the changes before it; 0 means 3 seconds, below the 5 of the ToR's
	// cable driver. The switch bounds the change itself.
	Timeout time.Duration
	// Random draws a side; nil means a fair one.
	Random func() cable.Side
}

// An Engine owns the muxes of one vm_set. All methods may be called at the same time.
type Engine struct {
	cfg Config

	table  atomic.Pointer[table]
	outage atomic.Pointer[error] // why the switch was not read yet; nil once it was

	journal journal

	reloading sync.Mutex // serialises Reload
	mu        sync.Mutex // guards newborn and changes of table; never held while waiting for the switch or a mux
	newborn   map[string]bool

	bgMu       sync.Mutex // guards the start of background work against the end of it
	background sync.WaitGroup
	stopping   context.Context // ended when Run ends
	stop       context.CancelFunc
}

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
	Reason string
}

// ErrUnknownPort is the error of a Result for a port that the vm_set doesn't have.
var ErrUnknownPort = errors.New("unknown port")

// New returns an engine that knows no mux yet. Run makes it live.
func New(cfg Config) *Engine {
	if cfg.Timeout == 0 {
		cfg.Timeout = 3 * time.Second
	}
	if cfg.Random == nil {
		cfg.Random = func() cable.Side { return cable.Side(rand.N(2)) }
	}
	e := &Engine{cfg: cfg, newborn: map[string]bool{}, journal: newJournal(time.Now())}
	e.stopping, e.stop = context.WithCancel(context.Background())
	e.table.Store(&table{byIndex: map[int]*mux{}})
	err := errors.New("the switch was not read yet")
	e.outage.Store(&err)
	return e
}

// retryDiscover is the pause after a switch could not be read as a whole.
const retryDiscover = 500 * time.Millisecond

// Run reads the switch until it succeeds once, repairs what is no proper cable, and then follows the switch until ctx
// ends. Changes under way are finished before it returns.
func (e *Engine) Run(ctx context.Context) error {
	defer e.drain()
	for {
		err := e.Reload(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		if old := e.outage.Swap(&err); old == nil || (*old).Error() != err.Error() {
			e.cfg.Log.Warn("the switch cannot be read, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryDiscover):
		}
	}
	return e.cfg.Switch.Watch(ctx, e.see)
}

// drain ends background reads, lets no further change start, and waits for every change under way.
func (e *Engine) drain() {
	e.bgMu.Lock()
	e.stop()
	e.bgMu.Unlock()
	e.background.Wait()
	var idle sync.WaitGroup
	for _, m := range e.table.Load().ordered {
		idle.Add(1)
		m.own(task(func() {
			idle.Done()
			m.release()
		}))
	}
	idle.Wait()
}

// VMSet returns the vm_set.
func (e *Engine) VMSet() string { return e.cfg.Names.VMSet() }

// Ready returns nil once the switch was read as a whole, and until then why it was not.
func (e *Engine) Ready() error {
	if err := e.outage.Load(); err != nil {
		return *err
	}
	return nil
}

// Snapshot returns the mux with a port index, nil when there is none. It never waits.
func (e *Engine) Snapshot(index int) *Snapshot {
	if m := e.table.Load().byIndex[index]; m != nil {
		return m.snap.Load()
	}
	return nil
}

// Snapshots returns all muxes by port index. It never waits.
func (e *Engine) Snapshots() []*Snapshot {
	muxes := e.table.Load().ordered
	snaps := make([]*Snapshot, len(muxes))
	for i, m := range muxes {
		snaps[i] = m.snap.Load()
	}
	return snaps
}

// Rejected returns the bridges that are named like a mux and are none, by port index.
func (e *Engine) Rejected() []Rejected { return e.table.Load().rejected }

// Reload reads the whole switch: new muxes appear, those that went disappear, and what is no proper cable is repaired as
// at a start. Counters stay. It fails when the switch as a whole can't be read, and then nothing is changed.
func (e *Engine) Reload(ctx context.Context) error {
	e.reloading.Lock()
	defer e.reloading.Unlock()
	before := e.table.Load()
	sights, err := e.cfg.Switch.Discover(ctx)
	if err != nil {
		return fmt.Errorf("read the switch: %w", err)
	}

	var rejected []Rejected
	seen := map[*mux]bool{}
	changes := map[*mux]cable.Change{}
	var looks sync.WaitGroup
	slices.SortFunc(sights, e.byPreference)
	owner := map[int]string{}
	for _, s := range sights {
		if first, taken := owner[s.Index]; taken && s.Rejected == "" {
			s.Rejected = clash(s.Index, first)
		}
		if s.Rejected != "" {
			rejected = append(rejected, Rejected{Bridge: s.Bridge, Index: s.Index, Reason: s.Rejected})
			e.cfg.Log.Warn("bridge is no mux", "bridge", s.Bridge, "reason", s.Rejected)
			continue
		}
		owner[s.Index] = s.Bridge
		m := before.byIndex[s.Index]
		if m == nil || m.snap.Load().Bridge != s.Bridge {
			m = newMux(e, s)
			e.adoptAtStart(m, s)
		} else if s.Flushed || !m.shows(s) {
			looks.Go(func() {
				if !e.look(m, s.Flushed) {
					e.notice(m, nil)
				}
			})
		}
		seen[m] = true
		changes[m] = cable.Change{}
		if !e.cfg.KeepDrops {
			changes[m] = cable.Change{Output: cable.AllRoles}
		}
	}
	looks.Wait()
	// A flushed bridge must not be left without flows because somebody gave up.
	e.repair(context.WithoutCancel(ctx), changes)

	for _, m := range before.ordered {
		if !seen[m] {
			m.hold()
			e.forget(m)
			m.release()
		}
		delete(seen, m) // it is in the table, or somebody saw it go meanwhile
	}
	e.update(func(t *table) {
		for m := range seen {
			t.add(m)
		}
		t.rejected = rejected
	})
	e.outage.Store(nil)
	return nil
}

// byPreference orders bridges of the same port index: first the one that is named as the testbed names it.
func (e *Engine) byPreference(a, b cable.Sight) int {
	foreign := func(s cable.Sight) int {
		if s.Bridge == e.cfg.Names.Bridge(s.Index) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a.Bridge, b.Bridge))
}

// clash is why a bridge is not served whose port index another one has.
func clash(index int, owner string) string {
	return fmt.Sprintf("port index %d is served by bridge %s", index, owner)
}

// repair makes muxes proper at a start or reload.
func (e *Engine) repair(ctx context.Context, changes map[*mux]cable.Change) {
	calls := make([]*call, 0, len(changes))
	for m, change := range changes {
		s := m.snap.Load()
		if s.proper && change.Apply(s.State, nil) == s.State {
			continue
		}
		if s.Ports.Fault() != "" {
			continue // shown as unhealthy; nothing can be done before the port is there
		}
		if s.unread || s.rejected {
			e.notice(m, nil)
			continue // nobody knows what it does
		}
		change.Rewrite = !s.proper
		calls = append(calls, &call{m: m, change: change, origin: Origin{Cause: Recovery}})
	}
	for _, c := range e.run(ctx, calls) {
		if c.err != nil {
			e.cfg.Log.Error("repair failed", "bridge", c.m.snap.Load().Bridge, "err", c.err)
			e.notice(c.m, nil)
		}
	}
}

// Do asks for a change of each of some ports and waits for all of them. It starts every change at once, or behind the
// changes of the same mux that came before it. A change that has started ignores ctx; one that has not is given up when
// ctx ends, or after the engine's timeout.
func (e *Engine) Do(ctx context.Context, changes map[int]cable.Change, by Origin) map[int]Result {
	t := e.table.Load()
	results := make(map[int]Result, len(changes))
	calls := make([]*call, 0, len(changes))
	for index, change := range changes {
		m := t.byIndex[index]
		if m == nil {
			results[index] = Result{Err: ErrUnknownPort}
			continue
		}
		calls = append(calls, &call{m: m, index: index, change: change, origin: by})
	}
	for _, c := range e.run(ctx, calls) {
		res := Result{Snapshot: c.next, Err: c.err, Begun: c.begun, Side: c.side, Queue: c.queue, Switch: c.took - c.queue}
		if c.err != nil {
			res.Snapshot = c.m.snap.Load()
		}
		results[c.index] = res
	}
	return results
}

// run starts calls together and waits for all of them.
func (e *Engine) run(ctx context.Context, calls []*call) []*call {
	var waiting sync.WaitGroup
	waiting.Add(len(calls))
	now := time.Now()
	batch := make([]*call, 0, len(calls))
	for _, c := range calls {
		c.ctx, c.waiting, c.started, c.deadline = ctx, &waiting, now, now.Add(e.cfg.Timeout)
		if c.m.tryOwn(c) && c.begin() {
			batch = append(batch, c)
		}
	}
	e.apply(batch)
	waiting.Wait()
	return calls
}

func (e *Engine) apply(batch []*call) {
	if len(batch) == 0 {
		return
	}
	updates := make([]cable.Update, len(batch))
	for i, c := range batch {
		updates[i] = c.update
	}
	e.cfg.Switch.Apply(updates, func(i int, err error) { batch[i].finish(err) })
}

// ClearFlaps sets the flap counters of some ports to 0, of all with nil, and returns their muxes. With an unknown port
// nothing is cleared.
func (e *Engine) ClearFlaps(indexes []int) ([]*Snapshot, error) {
	t := e.table.Load()
	if indexes == nil {
		indexes = slices.Collect(maps.Keys(t.byIndex))
	}
	muxes := make([]*mux, len(indexes))
	for i, index := range indexes {
		if muxes[i] = t.byIndex[index]; muxes[i] == nil {
			return nil, fmt.Errorf("port %d: %w", index, ErrUnknownPort)
		}
	}
	snaps := make([]*Snapshot, len(muxes))
	var cleared sync.WaitGroup
	for i, m := range muxes {
		cleared.Add(1)
		m.own(task(func() {
			s := *m.snap.Load()
			s.Flaps = 0
			m.snap.Store(&s)
			snaps[i] = &s
			cleared.Done()
			m.release()
		}))
	}
	cleared.Wait()
	return snaps, nil
}

// update replaces the table by a changed copy.
func (e *Engine) update(change func(*table)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cur := e.table.Load()
	next := &table{byIndex: maps.Clone(cur.byIndex), rejected: slices.Clone(cur.rejected)}
	change(next)
	next.ordered = slices.SortedFunc(maps.Values(next.byIndex), func(a, b *mux) int {
		return a.snap.Load().Index - b.snap.Load().Index
	})
	slices.SortFunc(next.rejected, func(a, b Rejected) int { return a.Index - b.Index })
	e.table.Store(next)
}

// add serves m. It is called before anybody else can see m, or by update.
func (t *table) add(m *mux) { t.byIndex[m.snap.Load().Index] = m }

// remove takes a bridge out, served or rejected.
func (t *table) remove(bridge string) {
	maps.DeleteFunc(t.byIndex, func(_ int, m *mux) bool { return m.snap.Load().Bridge == bridge })
	t.rejected = slices.DeleteFunc(t.rejected, func(r Rejected) bool { return r.Bridge == bridge })
}
