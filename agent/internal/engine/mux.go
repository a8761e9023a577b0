package engine

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A mux is one cable. Whoever owns it may change it and store snapshots; nobody else does.
type mux struct {
	owner
	engine *Engine
	bridge string
	index  int
	snap   atomic.Pointer[Snapshot]

	// The following are touched by the owner alone.
	debt     debt
	recorded *Moment   // what the journal said last; nil before it said anything
	answered time.Time // when the switch last answered a change, or was given up: what was seen before is worth nothing
	silent   time.Time // when the switch last left an owner without an answer
	done     requests  // whose changes landed

	recheck recheck
}

// newMux returns a mux that nobody knows yet.
func newMux(e *Engine, s *cable.Sight) *mux {
	m := &mux{engine: e, bridge: s.Bridge, index: s.Index, recheck: newRecheck()}
	m.snap.Store(&Snapshot{Mux: s.Mux, Since: time.Now()})
	return m
}

// publish stores the owner's next snapshot, and tells the journal what changed, why, for whom, and how long it took.
func (m *mux) publish(next *Snapshot, by Origin, took time.Duration) {
	cur := m.snap.Load()
	if next.State != cur.State {
		next.Since = time.Now()
	}
	m.snap.Store(next)
	now := next.moment()
	if next.phase == retired || m.recorded != nil && m.recorded.same(now) {
		return
	}
	m.engine.Journal.add(Event{Index: m.index, Bridge: m.bridge, From: m.recorded, To: now, Origin: by, Took: took})
	m.recorded = now
}

// settle notes that the switch has answered a change of an owned mux.
func (m *mux) settle() { m.answered = time.Now() }

// requests are the last requests whose changes landed on a mux. A client repeats one that it got no answer to, and what
// was done once must not be done again, whatever others did meanwhile.
type requests struct {
	landed [rememberedRequests]landed
	next   int
}

type landed struct {
	hash uint64
	at   time.Time
}

const (
	// rememberedRequests is how many a mux remembers: what a test sends to one port within minutes.
	rememberedRequests = 64
	// RememberRequests is how long a request is known after it was done.
	RememberRequests = 10 * time.Minute
)

func (q *requests) add(hash uint64, at time.Time) {
	if hash == 0 || q.has(hash) {
		return
	}
	q.landed[q.next] = landed{hash, at}
	q.next = (q.next + 1) % len(q.landed)
}

func (q *requests) has(hash uint64) bool {
	return hash != 0 && slices.ContainsFunc(q.landed[:], func(l landed) bool {
		return l.hash == hash && time.Since(l.at) < RememberRequests
	})
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
