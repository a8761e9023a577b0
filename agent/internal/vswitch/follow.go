package vswitch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

const (
	// pulse is the pause between two looks at some bridge while nothing is told, which shows that Open vSwitch answers.
	pulse = 5 * time.Second
	// fullPulse is the pause between two looks at all bridges, in case something was not told.
	fullPulse = 30 * time.Second
	// fewBridges is how many are better looked at one by one than by a look at all.
	fewBridges = 8
	// idleShare bounds the share of its time that the agent spends on looks at all bridges while their number or ports keep
	// changing: this many times as long as one took, it waits for the next.
	idleShare = 4
)

// hints collect what may have changed, until somebody looks.
type hints struct {
	wake chan struct{} // has a value when there is something

	mu      sync.Mutex
	all     bool
	bridges map[string]bool
}

func newHints() *hints {
	return &hints{wake: make(chan struct{}, 1), bridges: map[string]bool{}}
}

// everything says that any bridge may have come, gone or changed.
func (h *hints) everything() {
	h.mu.Lock()
	h.all = true
	h.mu.Unlock()
	h.signal()
}

// bridge says that one may have changed.
func (h *hints) bridge(name string) {
	h.mu.Lock()
	h.bridges[name] = true
	h.mu.Unlock()
	h.signal()
}

func (h *hints) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take returns what was collected, and forgets it.
func (h *hints) take() (all bool, bridges []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, bridges = h.all, slices.Sorted(maps.Keys(h.bridges))
	h.all = false
	clear(h.bridges)
	return all, bridges
}

// A following is a Watch that is told when to look.
type following struct {
	s     *Switch
	conn  Follower
	seen  func(cable.Sight)
	hints *hints

	running sync.WaitGroup
	bridges map[string]context.CancelFunc // that are followed
	blind   chan struct{}                 // closed when there is a bridge of which nothing is told
	once    sync.Once

	calm   bool      // everything could be read
	full   time.Time // when all bridges were looked at last
	nextAt time.Time // before which that is not to be done again
	turn   int       // counts the pulses
}

// follow watches until ctx ends.
func (s *Switch) follow(ctx context.Context, conn Follower, seen func(cable.Sight)) {
	f := &following{
		s: s, conn: conn, seen: seen, hints: newHints(),
		bridges: map[string]context.CancelFunc{}, blind: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.running.Wait()
	defer cancel()
	f.running.Go(func() {
		s.db.follow(ctx, func(told bool) {
			s.found.changed(told)
			f.hints.everything()
		})
	})
	f.lookAtAll(ctx)
	for f.wait(ctx) {
		all, bridges := f.hints.take()
		if all || len(bridges) > fewBridges {
			f.lookAtAll(ctx)
			continue
		}
		for _, bridge := range bridges {
			if f.calm = s.lookAt(ctx, bridge, seen); !f.calm {
				f.hints.everything() // is it the bridge, or Open vSwitch?
			}
		}
	}
}

// wait waits for a hint, or gives one itself when it is time. It is false when ctx has ended.
func (f *following) wait(ctx context.Context) bool {
	pause, blind := pulse, f.blind
	select {
	case <-blind:
		blind, pause = nil, f.s.cfg.PollInterval
	default:
	}
	if !f.calm {
		pause = f.s.cfg.PollInterval
	}
	select {
	case <-f.hints.wake:
	case <-blind:
		f.hints.everything()
	case <-time.After(pause):
		if pause == f.s.cfg.PollInterval || time.Since(f.full) > fullPulse {
			f.hints.everything()
		} else if known := f.s.known(); len(known) > 0 {
			f.turn++
			f.hints.bridge(known[f.turn%len(known)])
		}
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// lookAtAll looks at all bridges, and follows those that are muxes.
func (f *following) lookAtAll(ctx context.Context) {
	select {
	case <-time.After(time.Until(f.nextAt)):
	case <-ctx.Done():
		return
	}
	f.hints.take() // it takes care of all
	started := time.Now()
	var muxes []string
	muxes, f.calm = f.s.lookAtAll(ctx, f.seen)
	f.full = time.Now()
	f.nextAt = f.full.Add(min(idleShare*f.full.Sub(started), f.s.cfg.PollInterval))
	for bridge, stop := range f.bridges {
		if !slices.Contains(muxes, bridge) {
			stop()
			delete(f.bridges, bridge)
		}
	}
	for _, bridge := range muxes {
		if f.bridges[bridge] == nil && ctx.Err() == nil {
			f.follow(ctx, bridge)
		}
	}
}

func (f *following) follow(ctx context.Context, bridge string) {
	ctx, f.bridges[bridge] = context.WithCancel(ctx)
	f.running.Go(func() {
		err := f.conn.Follow(ctx, bridge, func() { f.hints.bridge(bridge) })
		if err != nil {
			f.once.Do(func() {
				f.s.cfg.Log.Info("Open vSwitch does not tell of changes of flows, so they are looked for", "every", f.s.cfg.PollInterval, "err", err)
				close(f.blind)
			})
		}
	})
}
