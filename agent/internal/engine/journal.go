package engine

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// The number of events that are kept: of a vm_set for readers of the stream that reconnect, and of each mux for its
// history, so that a port that is toggled all night does not push out what happened to another.
const (
	keptEvents  = 4096
	keptHistory = 100
)

// A Journal is the events of a vm_set. It never waits for a reader: whoever is too slow is told that events were missed. All
// methods may be called at the same time.
type Journal struct {
	mu     sync.Mutex
	recent ring
	last   uint64 // number of the last event
	counts Counts
	byMux  map[string]*ring
	size   int // what the events of byMux cost, in bytes
	most   int // that size may be
}

// defaultHistory is what the events of a vm_set may cost together, in bytes, where nothing else is said: the last hundred
// of three hundred muxes. recent shares their texts and costs no more than some hundred KiB beside.
const defaultHistory = 16 << 20

// eventCost is about what an event takes besides the texts of a request.
const eventCost = 384

// cost counts what an event keeps. The texts of a request are copies, which the one who fills in the Origin sees to.
func (ev *Event) cost() int { return eventCost + len(ev.ReqID) + len(ev.Client) + len(ev.By) }

// Counts are totals since the start of the agent. Nothing resets them.
type Counts struct {
	Flaps    uint64 // changes of side that clients asked for
	External uint64 // changes that somebody made on the switch; an outage of the switch does not count
	Repairs  uint64 // muxes that the agent put right
	// Reconnects counts the bridges that were found anew, after a restart of the switch or because they were made anew.
	Reconnects uint64
}

func (c *Counts) add(ev Event) {
	switch {
	case ev.From == nil || ev.To == nil:
	case ev.Cause == API && ev.From.State.Active != ev.To.State.Active:
		c.Flaps++
	case ev.Cause == External:
		c.External++
	case ev.Cause == Recovery && ev.To.Healthy():
		c.Repairs++
	}
}

// newJournal numbers events from the time in microseconds since 1970, so that numbers rise over restarts: nobody has ten
// thousand events a second for long.
func newJournal(now time.Time, most int) *Journal {
	return &Journal{recent: ring{kept: keptEvents}, last: uint64(now.UnixMicro()), byMux: map[string]*ring{}, most: most}
}

// ring is the last events, oldest first.
type ring struct {
	events []Event
	kept   int
	wake   chan struct{} // closed when there is something new; made by the first who waits
}

// add keeps an event, and returns what those cost that it no longer keeps.
func (r *ring) add(ev Event) (freed int) {
	if len(r.events) >= r.kept+r.kept/4 { // moves seldom, holds little too much
		freed = r.forget(len(r.events) - r.kept)
	}
	r.events = append(r.events, ev)
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
	return freed
}

// forget removes the first n events, and returns what they cost.
func (r *ring) forget(n int) (freed int) {
	for i := range r.events[:n] {
		freed += r.events[i].cost()
	}
	r.events = slices.Delete(r.events, 0, n)
	return freed
}

// next returns the channel that the next event closes.
func (r *ring) next() <-chan struct{} {
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.wake
}

func (r *ring) last(n int) []Event {
	return slices.Clone(r.events[max(0, len(r.events)-n):])
}

// countReconnect counts a bridge that was found anew.
func (j *Journal) countReconnect() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Reconnects++
}

// add gives an event its number and its time, and keeps it.
func (j *Journal) add(ev Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	ev.Seq, ev.Time = j.last, time.Now()
	j.counts.add(ev)
	_ = j.recent.add(ev)
	j.size += ev.cost() - j.of(ev.Bridge).add(ev)
	for j.size > j.most {
		j.forgetSome()
	}
}

// forgetSome removes a quarter of the events of the mux that has most. Where all have few, it removes all of the mux that
// nothing happened to for longest. It is called with mu held.
func (j *Journal) forgetSome() {
	var oldest, largest *ring
	var name string
	for bridge, r := range j.byMux {
		if len(r.events) == 0 {
			continue
		}
		if oldest == nil || r.events[len(r.events)-1].Seq < oldest.events[len(oldest.events)-1].Seq {
			oldest, name = r, bridge
		}
		if largest == nil || len(r.events) > len(largest.events) {
			largest = r
		}
	}
	switch {
	case oldest == nil:
		j.size = 0
	case len(largest.events) > 8:
		j.size -= largest.forget(len(largest.events)/4 + 1)
	default: // many muxes, most of which are gone
		j.size -= oldest.forget(len(oldest.events))
		if oldest.wake == nil {
			delete(j.byMux, name)
		}
	}
}

// of returns the events of one mux. It is called with mu held.
func (j *Journal) of(bridge string) *ring {
	h := j.byMux[bridge]
	if h == nil {
		h = &ring{kept: keptHistory}
		j.byMux[bridge] = h
	}
	return h
}

// After returns the events that came after number seq, oldest first, and the number of the last event there is.
// complete is false when some of them are no longer kept, or when seq is from another life of the agent.
func (j *Journal) After(seq uint64) (events []Event, last uint64, complete bool) {
	return j.Some(seq, math.MaxInt)
}

// Some is After for the first most of these events. last is the number of the last event there is, in any case.
func (j *Journal) Some(seq uint64, most int) (events []Event, last uint64, complete bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.recent.events
	first := j.last + 1 - uint64(len(all))
	switch {
	case seq > j.last:
		return nil, j.last, false
	case seq+1 >= first:
		all, complete = all[seq+1-first:], true
	}
	return slices.Clone(all[:min(most, len(all))]), j.last, complete
}

// Changed returns a channel that is closed when there is an event after number seq.
func (j *Journal) Changed(seq uint64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last > seq {
		now := make(chan struct{})
		close(now)
		return now
	}
	return j.recent.next()
}

// ChangedOf returns a channel that is closed with the next event of a mux. Take it before the snapshot that decides
// whether to wait.
func (j *Journal) ChangedOf(bridge string) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(bridge).next()
}

// History returns the last events of a port, oldest first, also after its bridge was deleted.
func (j *Journal) History(index int) []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	var events []Event
	for _, h := range j.byMux {
		if len(h.events) > 0 && h.events[0].Index == index {
			events = append(events, h.last(keptHistory)...)
		}
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events
}

// Counts returns what has happened to the muxes of the vm_set.
func (j *Journal) Counts() Counts {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts
}

// Last returns the last n events of the vm_set, oldest first.
func (j *Journal) Last(n int) []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.recent.last(n)
}
