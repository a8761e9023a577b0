// Package simswitch is a switch in memory: bridges, ports, flow tables, and a packet model that tells where a packet
// comes out. It serves the demo, the command `serve --driver simulated`, and everybody's tests.
//
// It keeps the promises of engine.Switch and offers hands for what a person, or a fault, does to a real switch. It must
// not know what state a cable should be in.
package simswitch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// Switch is the simulated switch of one vm_set. All methods may be called at the same time.
type Switch struct {
	names   *cable.Names
	timeout time.Duration

	mu       sync.Mutex
	bridges  map[string]*bridge
	refusals map[string][]string // by bridge: words for the next updates to be refused with
	stalled  chan struct{}       // not nil while the switch hangs; closed when it goes on
	late     []func()            // what it was sent while it hangs
	life     int64               // counts restarts, and bridges that were made
	watchers map[*watcher]bool
}

type bridge struct {
	life   int64
	ports  []cable.Candidate
	flows  []cable.Flow
	number uint32 // last port number given
}

// New returns a switch with ports 0 to n−1 of a vm_set, built as the testbed's script builds them: the upper ToR active.
func New(names *cable.Names, n int) *Switch {
	s := &Switch{
		names: names, timeout: 3 * time.Second,
		bridges: map[string]*bridge{}, refusals: map[string][]string{}, watchers: map[*watcher]bool{},
	}
	for i := range n {
		name := names.Bridge(i)
		upper, lower := fmt.Sprintf("enp59s0f1.%d", 3216+i), fmt.Sprintf("enp59s0f1.%d", 3216+n+i)
		s.AddBridge(name, names.NIC(i), upper, lower)
		s.AddFlow(name, 0, names.NIC(i), upper, lower)
		s.AddFlow(name, 0, upper, names.NIC(i))
	}
	return s
}

// SetTimeout sets how long a hanging switch is waited for; the default is 3 seconds. Call it before anything else.
func (s *Switch) SetTimeout(d time.Duration) { s.timeout = d }

// Discover returns a Sight of every bridge whose name fits the vm_set.
func (s *Switch) Discover(ctx context.Context) ([]cable.Sight, error) {
	if err := s.waitAwake(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var sights []cable.Sight
	for _, name := range slices.Sorted(maps.Keys(s.bridges)) {
		if _, ok := s.names.Index(name); ok {
			sights = append(sights, s.sight(name))
		}
	}
	return sights, nil
}

// Read returns a Sight of one bridge.
func (s *Switch) Read(ctx context.Context, name string) (cable.Sight, error) {
	if err := s.waitAwake(ctx); err != nil {
		return cable.Sight{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sight(name), nil
}

// sight is called with mu held.
func (s *Switch) sight(name string) cable.Sight {
	index, _ := s.names.Index(name)
	sight := cable.Sight{Bridge: name, Index: index}
	b := s.bridges[name]
	if b == nil {
		sight.Gone = true
		return sight
	}
	ports, err := cable.Identify(b.ports)
	if err != nil {
		sight.Rejected = err.Error()
		return sight
	}
	sight.Mux = cable.Mux{VMSet: s.names.VMSet(), Index: index, Bridge: name, Ports: ports}
	sight.Flows, sight.Life, sight.Asked = slices.Clone(b.flows), b.life, time.Now()
	return sight
}

func (s *Switch) waitAwake(ctx context.Context) error {
	s.mu.Lock()
	stalled := s.stalled
	s.mu.Unlock()
	if stalled == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case <-stalled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the switch does not answer: %w", ctx.Err())
	}
}

// Apply does the updates, in one goroutine for all of them. A hung switch does late, and first, what it was sent.
func (s *Switch) Apply(updates []cable.Update, done func(i int, err error)) {
	answer := make(chan []error, 1)
	do := func() {
		errs := make([]error, len(updates))
		for i, u := range updates {
			errs[i] = s.apply(u)
		}
		answer <- errs
	}
	s.mu.Lock()
	stalled := s.stalled != nil
	if stalled {
		s.late = append(s.late, do)
	}
	s.mu.Unlock()
	go func() {
		if !stalled {
			s.mu.Lock()
			do()
			s.mu.Unlock()
		}
		var errs []error
		select {
		case errs = <-answer:
		case <-time.After(s.timeout):
			for _, u := range updates {
				errs = append(errs, &cable.SwitchError{
					Bridge: u.Bridge, Op: "set flows", Unknown: true, Retryable: true,
					Err: fmt.Errorf("no answer within %v", s.timeout),
				})
			}
		}
		for i, err := range errs {
			done(i, err)
		}
	}()
}

// apply is called with mu held.
func (s *Switch) apply(u cable.Update) error {
	refused := func(words string) error {
		return &cable.SwitchError{Bridge: u.Bridge, Op: "set flows", Err: errors.New(words)}
	}
	b := s.bridges[u.Bridge]
	if b == nil {
		return refused("no bridge named " + u.Bridge)
	}
	if words := s.refusals[u.Bridge]; len(words) > 0 {
		s.refusals[u.Bridge] = words[1:]
		return refused(words[0])
	}
	flush, del, add := u.Steps()
	if flush {
		b.flows = nil
	}
	for _, f := range del {
		b.remove(f)
	}
	for _, f := range add {
		b.add(f)
	}
	s.changed(u.Bridge)
	return nil
}

func sameMatch(f, g cable.Flow) bool {
	return f.Table == g.Table && f.Priority == g.Priority && f.InPort == g.InPort && f.Match == g.Match
}

func (b *bridge) remove(f cable.Flow) {
	b.flows = slices.DeleteFunc(b.flows, func(g cable.Flow) bool { return sameMatch(f, g) })
}

func (b *bridge) add(f cable.Flow) {
	b.remove(f)
	b.flows = append(b.flows, f)
}
