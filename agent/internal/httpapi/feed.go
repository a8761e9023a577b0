package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const (
	// gather is how long a feed waits for more events, so that a toggle of all ports is one write, and is over by then.
	gather = 20 * time.Millisecond
	// atOnce is how many streams are woken together, and pace the pause until the next ones. A thousand at once would keep a
	// toggle waiting for the processor.
	atOnce = 16
	pace   = time.Millisecond
	// pieceSize is how much of a stream is written at once, in bytes: one or more events. A stream that waits for its reader
	// holds no more.
	pieceSize = 16 << 10
	// maxTexts is what the texts of events may take that a feed keeps for its streams, in bytes.
	maxTexts = 8 << 20
)

// A feed reads the events of one vm_set for all of its streams: each event is encoded once, when the first stream writes it,
// and a change wakes one goroutine however many streams there are. It runs while there are any.
type feed struct {
	engine *engine.Engine

	mu      sync.Mutex
	streams map[chan struct{}]bool
	stop    chan struct{} // closed to end the run that is for them

	textsMu sync.Mutex
	texts   map[uint64][]byte // of events by number, as streams write them
	size    int               // of texts, in bytes
}

func newFeed(e *engine.Engine) *feed {
	return &feed{engine: e, streams: map[chan struct{}]bool{}, texts: map[uint64][]byte{}}
}

// subscribe returns a channel that tells of new events, which are then to be had by read, and what ends that.
func (f *feed) subscribe() (news <-chan struct{}, unsubscribe func()) {
	c := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) == 0 {
		f.stop = make(chan struct{})
		go f.run(f.latest(), f.stop)
	}
	f.streams[c] = true
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, c)
		if len(f.streams) == 0 {
			close(f.stop)
			f.forget()
		}
	}
}

// latest returns the number of the last event.
func (f *feed) latest() uint64 {
	_, last, _ := f.engine.Journal.Some(0, 0)
	return last
}

func (f *feed) run(last uint64, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-f.engine.Journal.Changed(last):
		}
		select {
		case <-stop:
			return
		case <-time.After(gather):
		}
		last = f.latest()
		f.wake(stop)
	}
}

// wake tells all streams there are, unless the run that this is part of has been followed by another.
func (f *feed) wake(stop chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range slices.Collect(maps.Keys(f.streams)) {
		if i > 0 && i%atOnce == 0 {
			f.mu.Unlock()
			time.Sleep(pace)
			f.mu.Lock()
		}
		if f.stop != stop {
			return
		}
		select {
		case s <- struct{}{}:
		default: // it has not yet come to the last ones
		}
	}
}

// somePiece is how many events a piece has at most.
const somePiece = 64

// read appends the next events after a number to a buffer, as many as fit, and returns the number of the last of them, which
// is after where there is none. Where some are no longer kept, the text says so instead.
func (f *feed) read(piece []byte, after uint64) (text []byte, last uint64) {
	events, latest, complete := f.engine.Journal.Some(after, somePiece)
	if !complete {
		return appendMissed(piece, latest), latest
	}
	f.textsMu.Lock()
	defer f.textsMu.Unlock()
	for i := range events {
		one := f.text(&events[i])
		if len(piece) > 0 && len(piece)+len(one) > pieceSize {
			break
		}
		piece, after = append(piece, one...), events[i].Seq
	}
	return piece, after
}

// text returns an event as streams write it. It is called with textsMu held.
func (f *feed) text(ev *engine.Event) []byte {
	text, ok := f.texts[ev.Seq]
	if ok {
		return text
	}
	text = fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n", ev.Seq, api.EventChange, encode(event(f.engine, *ev)))
	if f.size+len(text) > maxTexts {
		clear(f.texts) // who is far behind has each encoded anew
		f.size = 0
	}
	f.texts[ev.Seq] = text
	f.size += len(text)
	return text
}

func (f *feed) forget() {
	f.textsMu.Lock()
	defer f.textsMu.Unlock()
	f.texts, f.size = map[uint64][]byte{}, 0
}

func appendMissed(text []byte, last uint64) []byte {
	return fmt.Appendf(text, "id: %d\nevent: %s\ndata: {}\n\n", last, api.EventMissed)
}
