package vswitch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ovsdb"
)

const (
	// pulse is the pause between two signs of life that are asked for while nothing is told: of the database, and of one bridge
	// after the other.
	pulse = 5 * time.Second
	// fullPulse is the pause between two looks at all bridges that trust nothing which was told.
	fullPulse = 30 * time.Second
	// idleShare bounds the share of its time that the agent spends on one bridge which keeps changing: this many times as long as
	// a look took, it waits for the next.
	idleShare = 4
)

// Watch reports what it sees of the bridges of the vm_set until ctx ends, also what is as it was. The database and the Conn tell
// it which bridge to look at; where flows are not told it looks at each again and again. While Open vSwitch can't be read it
// reports every mux with the error.
func (s *Switch) Watch(ctx context.Context, seen func(cable.Sight)) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{
		s: s, seen: seen, ctx: ctx, results: make(chan func(), resultsAtOnce), bridges: map[string]*watched{},
		polled: time.Now(), pulsed: time.Now(), full: time.Now(),
	}
	defer l.running.Wait()
	defer cancel()
	s.watching.Store(&ctx)
	defer s.round.Store(0)
	s.hints.database(ovsdb.Change{All: true})
	for ctx.Err() == nil {
		s.round.Store(time.Now().UnixNano())
		l.turn()
		timer := time.NewTimer(time.Until(l.next()))
		select {
		case <-s.hints.wake:
		case done := <-l.results:
			done()
			l.drain()
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// resultsAtOnce is how many results are taken in one round of the loop, which goes through all bridges.
const resultsAtOnce = 256

// drain takes the results that have come meanwhile.
func (l *loop) drain() {
	for range resultsAtOnce {
		select {
		case done := <-l.results:
			done()
		default:
			return
		}
	}
}

// A loop is a Watch. One goroutine runs it and calls seen; it waits for nothing but hints, what it has started, and time. What
// reads the switch runs beside it, and hands over what it found as a function that the loop calls.
type loop struct {
	s       *Switch
	seen    func(cable.Sight)
	ctx     context.Context
	results chan func()
	running sync.WaitGroup

	bridges map[string]*watched // by name

	connecting bool      // to the database
	reconnect  time.Time // before which that is not tried again
	checking   bool      // a look that trusts nothing, or a pulse, is under way
	unmarking  bool
	marks      []string // bridges whose remembered side is to be removed

	polled, pulsed, full time.Time // when these were due last
	pulseTurn            int
}

// A watched bridge.
type watched struct {
	stop    context.CancelFunc // of following it; nil when it is not followed
	told    bool               // of its flows
	failed  bool               // it could not be read
	reading bool
	again   bool      // something was told while it was read, or it is to be read later
	nextAt  time.Time // before which it is not read again
}

// work runs f beside the loop, and then what f returns in the loop.
func (l *loop) work(f func() func()) {
	l.running.Go(func() {
		done := f()
		select {
		case l.results <- done:
		case <-l.ctx.Done():
		}
	})
}

// next is when there is something to do that nobody tells of.
func (l *loop) next() time.Time {
	at := l.pulsed.Add(pulse)
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if l.polls() {
		earlier(l.polled.Add(l.s.cfg.PollInterval))
	}
	if !l.reconnect.IsZero() && !l.connecting {
		earlier(l.reconnect)
	}
	for _, w := range l.bridges {
		if w.again && !w.reading && !l.away() {
			earlier(w.nextAt)
		}
	}
	return at
}

// away reports whether the database is: then nothing is to be looked at before it is back, and then everything.
func (l *loop) away() bool { return l.connecting || !l.reconnect.IsZero() }

// polls reports whether some bridge is to be looked at again and again.
func (l *loop) polls() bool {
	for _, w := range l.bridges {
		if !w.told || w.failed {
			return true
		}
	}
	return false
}

// turn does what is due.
func (l *loop) turn() {
	told := l.s.hints.take()
	for bridge, is := range told.told {
		if w := l.bridges[bridge]; w != nil {
			w.told = is
		}
	}
	now := time.Now()
	switch {
	case told.all, !l.reconnect.IsZero() && !l.connecting && !now.Before(l.reconnect):
		l.lookAtAll()
	default:
		for _, bridge := range told.bridges {
			l.lookAt(bridge)
		}
	}
	if now.Sub(l.polled) >= l.s.cfg.PollInterval {
		l.polled = now
		// All at once, so that ovs-vswitchd wakes up once for all of them.
		for bridge, w := range l.bridges {
			if (!w.told || w.failed) && !l.away() {
				l.lookAt(bridge)
			}
		}
	}
	for bridge, w := range l.bridges {
		if w.again && !w.reading && !l.away() && !now.Before(w.nextAt) {
			l.lookAt(bridge)
		}
	}
	if now.Sub(l.pulsed) >= pulse {
		l.pulsed = now
		l.check(now)
	}
	l.marks = append(l.marks, told.marks...)
	l.unmark()
}

// lookAtAll goes by what the database tells of all bridges.
func (l *loop) lookAtAll() {
	view, err := l.s.db.View(l.s.named)
	if err != nil {
		l.connect()
		return
	}
	l.reconnect = time.Time{}
	l.lookAtThese(view, false)
}

func (l *loop) lookAtThese(view ovsdb.View, fresh bool) {
	// What is gone is told first: its port index may be another bridge's now.
	there := make(map[string]bool, len(view.Bridges))
	for _, b := range view.Bridges {
		there[b.Name] = true
	}
	known := slices.AppendSeq(l.s.known(), maps.Keys(l.bridges))
	for _, bridge := range known {
		if !there[bridge] {
			l.gone(bridge)
		}
	}
	for _, b := range view.Bridges {
		l.read(b, view.RestoreWait, fresh)
	}
}

// lookAt goes by what the database tells of one bridge.
func (l *loop) lookAt(bridge string) {
	view, err := l.s.db.Bridge(bridge)
	switch {
	case err != nil:
		l.connect()
	case len(view.Bridges) > 0:
		l.read(view.Bridges[0], view.RestoreWait, false)
	default:
		l.gone(bridge)
	}
}

// gone reports a bridge that is no more.
func (l *loop) gone(bridge string) {
	w := l.bridges[bridge]
	if w != nil && w.stop != nil {
		w.stop()
	}
	delete(l.bridges, bridge)
	if l.s.forget(bridge) || w != nil {
		l.seen(l.s.gone(bridge))
	}
}

// read reads a bridge and reports it, now or as soon as may be.
func (l *loop) read(b ovsdb.Bridge, restoreWait, fresh bool) {
	if !l.s.named(b.Name) {
		return
	}
	w := l.bridges[b.Name]
	if w == nil {
		w = &watched{}
		l.bridges[b.Name] = w
	}
	l.follow(b, w)
	if w.reading || !fresh && time.Now().Before(w.nextAt) {
		w.again = true
		return
	}
	w.reading, w.again = true, false
	l.work(func() func() {
		started := time.Now()
		found := l.s.read(l.ctx, b, restoreWait, fresh)
		took := time.Since(started)
		return func() {
			w.reading = false
			w.nextAt = time.Now().Add(min(idleShare*took, l.s.cfg.PollInterval))
			if l.bridges[b.Name] != w || l.ctx.Err() != nil || !l.reconnect.IsZero() {
				return // it went meanwhile, or nobody knows whether it did
			}
			w.failed = found.Err != nil
			l.s.store(found)
			sight := l.s.judge(found.Sight)
			if sight.Building { // whether it stands still shows then
				w.again, w.nextAt = true, time.Now().Add(quiet)
			}
			l.seen(sight)
		}
	})
}

// follow has the Conn tell of a bridge that speaks our OpenFlow, where it can.
func (l *loop) follow(b ovsdb.Bridge, w *watched) {
	conn, ok := l.s.cfg.Conn.(Follower)
	speaks := ok && speaksOpenFlow14(b)
	if !speaks && w.stop != nil {
		w.stop()
		w.stop, w.told = nil, false
	}
	if !speaks || w.stop != nil {
		// Of a bridge that can't be read the database tells all there is to know.
		w.told = w.told || ok && !speaks
		return
	}
	w.told = false
	ctx, stop := context.WithCancel(l.ctx)
	w.stop = stop
	l.running.Go(func() {
		conn.Follow(ctx, b.Name, !l.s.cfg.Poll, func(told bool) {
			if ctx.Err() == nil {
				l.s.hints.followed(b.Name, told)
			}
		})
	})
}

// connect connects to the database, when it is time for that.
func (l *loop) connect() {
	if l.connecting || time.Now().Before(l.reconnect) {
		return
	}
	l.connecting = true
	l.work(func() func() {
		err := l.s.db.Connect(l.ctx)
		pause := l.s.db.Pause()
		return func() {
			l.connecting = false
			if err == nil {
				l.lookAtAll()
				return
			}
			l.reconnect = time.Now().Add(max(pause, time.Millisecond))
			l.unreadable(err)
		}
	})
}

// unreadable reports every mux with an error of the database. A rejected bridge stays so.
func (l *loop) unreadable(err error) {
	for _, bridge := range l.s.known() {
		last, ok := l.s.seenLast(bridge)
		if !ok || last.Rejected != "" || l.ctx.Err() != nil {
			continue
		}
		sight := last.Sight
		sight.Asked, sight.Flows, sight.Flushed, sight.Unprepared, sight.Err = time.Now(), nil, false, false, err
		l.seen(l.s.judge(sight))
	}
}

// check asks for signs of life, or looks at everything.
func (l *loop) check(now time.Time) {
	if l.checking || l.away() {
		return
	}
	l.checking = true
	if now.Sub(l.full) >= fullPulse {
		l.full = now
		l.work(func() func() {
			view, stale, err := l.s.db.Look(l.ctx, l.s.named)
			return func() {
				l.checking = false
				if stale {
					l.s.cfg.Log.Warn("the database did not tell of all changes; its connection is made anew")
				}
				if err == nil {
					l.lookAtThese(view, true)
				}
			}
		})
		return
	}
	l.work(func() func() {
		_ = l.s.db.Sync(l.ctx) // a failure ends the connection, and that is told
		return func() { l.checking = false }
	})
	if known := l.s.known(); len(known) > 0 {
		l.pulseTurn++
		l.lookAt(known[l.pulseTurn%len(known)])
	}
}

// unmark removes the remembered sides that are not needed any more. Where that fails, the side is seen again, and removed after
// the next change.
func (l *loop) unmark() {
	if len(l.marks) == 0 || l.unmarking {
		return
	}
	bridges := l.marks
	l.marks, l.unmarking = nil, true
	l.work(func() func() {
		err := l.s.db.Forget(l.ctx, rememberedKey, bridges)
		return func() {
			l.unmarking = false
			if err != nil {
				l.s.cfg.Log.Warn("the side that a bridge remembers could not be removed", "bridges", len(bridges), "first", bridges[0], "err", err)
			}
		}
	})
}
