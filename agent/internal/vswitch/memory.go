package vswitch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ovsdb"
)

// A memory is what was seen last of a bridge by itself.
type memory struct {
	cable.Sight
	since    time.Time // when its ports and flows were first seen so
	built    bool      // it was there when all bridges were read first, or has stood still since it was made
	prepared bool      // once; somebody may have undone it
	again    time.Time // when it was prepared last after that
	flushed  time.Time // when that was last over, at which its flows were removed
	// preparing is closed when that is over; nil when nobody does it. The database may say by then that fail_mode is secure
	// while the flows are still there.
	preparing chan struct{}
}

// prepareAgain is the least time between two times that a bridge is prepared again: it removes all flows for a moment, and
// whoever unsets fail_mode over and over is not fought.
const prepareAgain = time.Minute

func (m memory) mayPrepareAgain() bool { return time.Since(m.again) >= prepareAgain }

// store keeps what was seen, unless something newer is known.
func (s *Switch) store(looks ...look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range looks {
		last, ok := s.last[l.Bridge]
		if ok && last.Asked.After(l.Asked) {
			continue
		}
		now := memory{Sight: l.Sight, since: time.Now(), prepared: !l.unprepared}
		if ok && last.Row == now.Row { // else it is another bridge of the same name
			now.prepared, now.again, now.built = last.prepared || now.prepared, last.again, last.built
			now.flushed, now.preparing = last.flushed, last.preparing
		}
		if ok && same(last.Sight, now.Sight) {
			now.since = last.since
		}
		now.built = now.built || time.Since(now.since) >= quiet
		s.put(now)
	}
}

// put is called with s.mu held. A bridge that becomes a mux, or is one no more, concerns the others of its port index.
func (s *Switch) put(now memory) {
	last, ok := s.last[now.Bridge]
	if !ok {
		s.byIndex[now.Index] = append(s.byIndex[now.Index], now.Bridge)
	}
	if !ok || (last.Rejected == "") != (now.Rejected == "") {
		s.hintRivals(now.Sight)
	}
	if last.Remembered != "" {
		s.marked.Add(-1)
	}
	if now.Remembered != "" {
		s.marked.Add(1)
	}
	s.last[now.Bridge] = now
}

func (s *Switch) hintRivals(of cable.Sight) {
	for _, name := range s.byIndex[of.Index] {
		if name != of.Bridge {
			s.hints.bridge(name)
		}
	}
}

// forget drops a bridge that is gone, and reports whether it was known.
func (s *Switch) forget(bridge string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.last[bridge]
	if !ok {
		return false
	}
	delete(s.last, bridge)
	s.byIndex[last.Index] = slices.DeleteFunc(s.byIndex[last.Index], func(name string) bool { return name == bridge })
	if len(s.byIndex[last.Index]) == 0 {
		delete(s.byIndex, last.Index)
	}
	if last.Remembered != "" {
		s.marked.Add(-1)
	}
	s.hintRivals(last.Sight)
	return true
}

// forgetOthers drops all bridges that a view of all doesn't have.
func (s *Switch) forgetOthers(view ovsdb.View) {
	there := make(map[string]bool, len(view.Bridges))
	for _, b := range view.Bridges {
		there[b.Name] = true
	}
	for _, bridge := range s.known() {
		if !there[bridge] {
			s.forget(bridge)
		}
	}
}

// known returns the names of all bridges that were there when they were looked at last.
func (s *Switch) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.last))
}

func (s *Switch) seenLast(bridge string) (memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.last[bridge]
	return last, ok
}

// judge says of a bridge by itself what depends on others and on what was seen before: whether it is still being built, and
// whether it is the one of its port index.
func (s *Switch) judge(sight cable.Sight) cable.Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judged(sight)
}

// judged is judge, called with s.mu held.
func (s *Switch) judged(sight cable.Sight) cable.Sight {
	sight.Building = !sight.Gone && !s.last[sight.Bridge].built
	if sight.Rejected != "" || sight.Gone {
		return sight
	}
	served := sight.Bridge
	for _, name := range s.byIndex[sight.Index] {
		if s.last[name].Rejected == "" && s.cfg.Names.Prefer(name, served) < 0 {
			served = name
		}
	}
	if served != sight.Bridge {
		taken := cable.Taken(sight.Index, served)
		sight.Rejected, sight.Code, sight.Unprepared = taken.Reason, taken.Code, false
	}
	return sight
}

// settle says that all bridges that are known are built.
func (s *Switch) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.last {
		m.built = true
		s.last[name] = m
	}
}

// prepare makes fail_mode secure on those bridges that need it and may get it. Open vSwitch removes all flows at that, so it is
// done only where they were read; they are marked as flushed, and the side that they tell is noted in the same step. Flows that
// were read before another reading had prepared the bridge are marked so too. An error says that ctx ended before that was
// known; nothing was done then.
func (s *Switch) prepare(ctx context.Context, looks []look) error {
	over := make(chan struct{})
	defer close(over)
	chosen, notes, err := s.choose(ctx, looks, over)
	if len(chosen) == 0 {
		return err
	}
	err = s.secure(ctx, notes)
	if err != nil {
		s.cfg.Log.Error("fail_mode could not be made secure", "bridges", len(notes), "first", notes[0].Bridge, "err", err)
	} else {
		s.cfg.Log.Info("fail_mode is secure now", "bridges", len(notes), "first", notes[0].Bridge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range chosen {
		l.Flushed, l.Unprepared = true, false // also after an error: it may have been done
		l.Settings.Standalone = err != nil
		m := s.last[l.Bridge]
		if m.preparing != over {
			continue // it went meanwhile, or is another bridge of the same name
		}
		if m.prepared {
			m.again = time.Now()
		}
		m.prepared, m.Remembered, m.Settings, m.flushed, m.preparing = true, l.Remembered, l.Settings, time.Now(), nil
		s.put(m)
	}
	return nil
}

// choose returns the looks whose bridges are to be prepared until over is closed, and what is to be noted on these bridges. It
// waits for those that another reading prepares.
func (s *Switch) choose(ctx context.Context, looks []look, over chan struct{}) (chosen []*look, notes []ovsdb.Secured, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for busy := s.preparing(looks); busy != nil; busy = s.preparing(looks) {
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			err = fmt.Errorf("waiting for fail_mode to be made secure: %w", context.Cause(ctx))
		}
		s.mu.Lock()
		if err != nil {
			return nil, nil, err
		}
	}
	for i := range looks {
		l := &looks[i]
		m, ok := s.last[l.Bridge]
		if !ok || l.Err != nil || s.judged(l.Sight).Rejected != "" {
			continue
		}
		if m.flushed.After(l.Asked) {
			l.Flushed, l.Unprepared = true, false
			l.Settings.Standalone, l.Remembered = m.Settings.Standalone, m.Remembered
			continue
		}
		if !l.Unprepared || l.Restoring() || !m.prepared && !m.built || !m.mayPrepareAgain() {
			continue
		}
		note := ovsdb.Secured{Bridge: l.Bridge}
		if r := l.Mux.Read(l.Flows, l.Settings, cable.State{}); r.SideKnown {
			l.Remembered = r.State.Active.String()
			note.ExternalIDs = map[string]string{rememberedKey: l.Remembered}
		}
		notes, chosen = append(notes, note), append(chosen, l)
		m.preparing = over
		s.last[l.Bridge] = m
	}
	return chosen, notes, nil
}

// preparing is closed when one of the bridges was prepared by another reading; nil when none is. It is called with s.mu held.
func (s *Switch) preparing(looks []look) <-chan struct{} {
	for i := range looks {
		if busy := s.last[looks[i].Bridge].preparing; busy != nil {
			return busy
		}
	}
	return nil
}

// secure does not end with ctx, since what is under way flushes; but when the agent ends, which is when Watch does.
func (s *Switch) secure(ctx context.Context, bridges []ovsdb.Secured) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if watching := s.watching.Load(); watching != nil {
		defer context.AfterFunc(*watching, cancel)()
	}
	return s.db.Secure(ctx, bridges)
}

// written notes that a change of a bridge was confirmed, after which no side need be remembered of it.
func (s *Switch) written(bridge string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.last[bridge]; m.Remembered != "" {
		m.Remembered = ""
		s.put(m)
		s.hints.unmark(bridge)
	}
}

// same reports whether two sights of a bridge show the same ports and flows.
func same(a, b cable.Sight) bool {
	for i, p := range a.Mux.Ports {
		if q := b.Mux.Ports[i]; p.Name != q.Name || p.Number != q.Number {
			return false
		}
	}
	return a.Rejected == b.Rejected && a.Row == b.Row && a.Life == b.Life && slices.EqualFunc(a.Flows, b.Flows, func(f, g cable.Entry) bool { return f.Flow == g.Flow }) && text(a.Err) == text(b.Err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
