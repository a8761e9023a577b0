// Package engine is the parallel toggle engine: it owns the state of every mux of one vm_set.
//
// Each mux has one owner at a time, so its changes are serial; its state is published as an immutable Snapshot that
// readers take without waiting. Changes come in through one door, Do, which starts those of all its muxes at once. The
// switch is the truth: a Snapshot changes when the switch has confirmed, or when the switch was seen to differ; what is
// made of that is judge's to say.
//
// The package must not know how flows reach a switch (see Switch) nor that there is HTTP.
package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
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
	// MaxHistory is what the Journal may cost, in bytes; 0 means 16 MiB.
	MaxHistory int
	// Random draws a side; nil means a fair one.
	Random func() cable.Side
}

// An Engine owns the muxes of one vm_set. All methods may be called at the same time.
type Engine struct {
	Journal *Journal // what happened

	cfg      Config
	table    atomic.Pointer[table]
	notReady atomic.Pointer[NotReadyError]
	ready    chan struct{} // closed when the switch was read once

	reloading sync.Mutex        // serialises Reload
	mu        sync.Mutex        // guards lastSeen and changes of table; never held while waiting for the switch or a mux
	lastSeen  map[string]uint64 // when the switch last showed something of a bridge that is not served, by clock
	clock     atomic.Uint64     // counts what the switch shows of such bridges

	bgMu       sync.Mutex // guards the start of background work against the end of it
	background sync.WaitGroup
	stopping   context.Context // ended when Run ends
	stop       context.CancelFunc
}

// NotReadyError is why the engine doesn't serve yet.
type NotReadyError struct {
	Code   string // as internal/api lists them
	Reason string
}

// Error returns the reason.
func (n *NotReadyError) Error() string { return n.Reason }

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
	e := &Engine{cfg: cfg, Journal: newJournal(time.Now(), cmp.Or(cfg.MaxHistory, defaultHistory)), ready: make(chan struct{}), lastSeen: map[string]uint64{}}
	e.stopping, e.stop = context.WithCancel(context.Background())
	e.table.Store(&table{byIndex: map[int]*mux{}})
	e.notReady.Store(&NotReadyError{Code: api.NotReadyStarting, Reason: "the switch was not read yet"})
	return e
}

// retryDiscover is the pause after a switch could not be read as a whole.
const retryDiscover = 500 * time.Millisecond

// Run reads the switch until it succeeds once, repairs what is not a proper cable, and then follows the switch until ctx
// ends. Changes under way are finished before it returns.
func (e *Engine) Run(ctx context.Context) error {
	defer e.startLog()()
	defer e.drain()
	for {
		err := e.Reload(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		now := explain(err)
		if old := e.notReady.Swap(now); old == nil || *old != *now {
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

// explain finds the code of why the switch can't be read.
func explain(err error) *NotReadyError {
	if n, ok := errors.AsType[*NotReadyError](err); ok {
		return n
	}
	n := &NotReadyError{Code: api.NotReadyOVSDB, Reason: err.Error()}
	if _, ok := errors.AsType[*cable.SwitchError](err); ok {
		n.Code = api.NotReadyVSwitchd
	}
	if errors.Is(err, fs.ErrPermission) {
		n.Code = api.NotReadyPermission
	}
	return n
}

// drain ends background reads, lets no further change start, and waits for every change under way.
func (e *Engine) drain() {
	e.bgMu.Lock()
	e.stop()
	e.bgMu.Unlock()
	e.background.Wait()
	for _, m := range e.table.Load().ordered {
		m.hold()
		m.release()
	}
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

// VMSet returns the vm_set.
func (e *Engine) VMSet() string { return e.cfg.Names.VMSet() }

// Ready returns a channel that is closed once the switch was read as a whole.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// NotReady returns why the switch was not read as a whole yet, and nil once it was.
func (e *Engine) NotReady() *NotReadyError { return e.notReady.Load() }

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

// Rejected returns the bridges that are named like a mux and are not served, by port index.
func (e *Engine) Rejected() []Rejected { return e.table.Load().rejected }

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
		res := Result{Snapshot: c.next, Err: c.err, Queue: c.queue, Switch: c.took - c.queue}
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
		if c.m.try(c) && c.begin() {
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
