package vswitch

import (
	"maps"
	"slices"
	"sync"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ovsdb"
)

// hints collect what may have changed, until the loop of Watch looks.
type hints struct {
	wake chan struct{} // has a value when there is something

	mu      sync.Mutex
	all     bool
	bridges map[string]bool
	told    map[string]bool // whether flows of a bridge are told, where that was said
	marks   map[string]bool // bridges that need to remember no side any more
}

func newHints() *hints {
	return &hints{wake: make(chan struct{}, 1), bridges: map[string]bool{}, told: map[string]bool{}, marks: map[string]bool{}}
}

// database has what the database told.
func (h *hints) database(c ovsdb.Change) {
	h.add(func() {
		h.all = h.all || c.All
		for _, name := range c.Bridges {
			h.bridges[name] = true
		}
	})
}

// bridge says that one may have changed.
func (h *hints) bridge(name string) { h.add(func() { h.bridges[name] = true }) }

// followed says that one may have changed, and whether its flows are told.
func (h *hints) followed(name string, told bool) {
	h.add(func() { h.bridges[name], h.told[name] = true, told })
}

// unmark says that a bridge need remember no side.
func (h *hints) unmark(name string) { h.add(func() { h.marks[name] = true }) }

func (h *hints) add(f func()) {
	h.mu.Lock()
	f()
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// A batch of hints.
type batch struct {
	all     bool
	bridges []string
	told    map[string]bool
	marks   []string
}

// take returns what was collected, and forgets it.
func (h *hints) take() batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := batch{all: h.all, bridges: slices.Sorted(maps.Keys(h.bridges)), told: h.told, marks: slices.Sorted(maps.Keys(h.marks))}
	h.all, h.told = false, map[string]bool{}
	clear(h.bridges)
	clear(h.marks)
	return b
}
