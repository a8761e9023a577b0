package simswitch

import (
	"cmp"
	"context"
	"slices"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A watcher collects the bridges that changed since it looked last.
type watcher struct {
	bridges map[string]bool // guarded by the switch's mu
	wake    chan struct{}
}

// Watch reports every bridge that changes, as it is when the report is made.
func (s *Switch) Watch(ctx context.Context, seen func(cable.Sight)) error {
	w := &watcher{bridges: map[string]bool{}, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.watchers[w] = true
	for name := range s.bridges {
		s.mark(w, name) // what changed between a Discover and this call is not missed
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		if s.waitAwake(ctx) != nil {
			w.signal()
			continue
		}
		s.mu.Lock()
		var sights []cable.Sight
		for name := range w.bridges {
			sights = append(sights, s.sight(name))
		}
		clear(w.bridges)
		// What is gone is told first: its port index may be another bridge's now.
		slices.SortStableFunc(sights, func(a, b cable.Sight) int {
			return cmp.Compare(btoi(b.Gone), btoi(a.Gone))
		})
		s.mu.Unlock()
		for _, sight := range sights {
			seen(sight)
		}
	}
}

// changed is called with mu held.
func (s *Switch) changed(name string) {
	for w := range s.watchers {
		s.mark(w, name)
	}
}

func (s *Switch) mark(w *watcher, name string) {
	if _, ok := s.names.Index(name); ok {
		w.bridges[name] = true
		w.signal()
	}
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
