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
)

// A feed reads the events of one vm_set for all of its streams: each is encoded once, and a change wakes one goroutine
// however many there are. It runs while there are streams.
type feed struct {
	engine *engine.Engine

	mu      sync.Mutex
	streams map[chan chunk]bool
	stop    chan struct{} // closed to end the run that is for them
}

// A chunk is the events from one number to another, as streams write them.
type chunk struct {
	after, last uint64
	text        []byte
}

func newFeed(e *engine.Engine) *feed { return &feed{engine: e, streams: map[chan chunk]bool{}} }

// subscribe returns a channel on which the latest chunk is to be had, and what ends that. A stream that was slow, or that
// has just begun, sees a chunk that does not begin where it stands, and reads what it needs by since.
func (f *feed) subscribe() (chunks <-chan chunk, unsubscribe func()) {
	c := make(chan chunk, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) == 0 {
		f.stop = make(chan struct{})
		_, last, _ := f.engine.Journal.After(0)
		go f.run(last, f.stop)
	}
	f.streams[c] = true
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, c)
		if len(f.streams) == 0 {
			close(f.stop)
		}
	}
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
		text, next := f.since(last)
		f.deliver(chunk{last, next, text}, stop)
		last = next
	}
}

// deliver hands a chunk to all streams there are, unless the run that this is part of has been followed by another.
func (f *feed) deliver(c chunk, stop chan struct{}) {
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
		case <-s: // an older one, not yet taken
		default:
		}
		s <- c // there is room, since nobody else sends
	}
}

// since returns the events after a number, and the number of the last of them. Where some are no longer kept, the text
// says so instead.
func (f *feed) since(seq uint64) (text []byte, last uint64) {
	events, last, complete := f.engine.Journal.After(seq)
	if !complete {
		return appendMissed(nil, last), last
	}
	for _, ev := range events {
		text = fmt.Appendf(text, "id: %d\nevent: %s\ndata: %s\n", ev.Seq, api.EventChange, encode(event(f.engine, ev)))
	}
	return text, last
}

func appendMissed(text []byte, last uint64) []byte {
	return fmt.Appendf(text, "id: %d\nevent: %s\ndata: {}\n\n", last, api.EventMissed)
}
