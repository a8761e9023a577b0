// Package simswitch is a switch in memory: bridges, ports, flow tables, and a packet model that tells where a packet
// comes out. It serves the demo, the command `serve --driver simulated`, and everybody's tests.
//
// It keeps the promises of engine.Switch and offers hands for what a person, or a fault, does to a real switch. It must
// not know what state a cable should be in.
package simswitch

import (
	"cmp"
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
	watched  bool                // somebody has read it, so that a bridge that is made now was seen absent
	rows     int                 // counts the bridges that were made
	life     int64               // when the switch was started, or a bridge made, last
	waits    bool                // other_config:flow-restore-wait
	blocked  bool                // it was started with that, and forwards nothing
	watchers map[*watcher]bool
}

type bridge struct {
	index    int  // port index, by the bridge's name
	ours     bool // the vm_set's, by the bridge's name
	row      string
	life     int64
	ports    []cable.Candidate
	settings cable.Settings
	flows    []flow
	number   uint32 // last port number given

	building *time.Timer // not nil while it has not stood still; see cable.Sight
}

// A flow is an entry of a flow table, and when it was written.
type flow struct {
	cable.Entry
	written time.Time
}

// entries returns the flow table as somebody sees it who reads it now.
func (b *bridge) entries() []cable.Entry {
	entries := make([]cable.Entry, len(b.flows))
	for i, f := range b.flows {
		entries[i] = f.Entry
		entries[i].Age = time.Since(f.written)
	}
	return entries
}

// quiet is how long a bridge that is made, or made anew, must stand still before it is told of as built.
const quiet = time.Second

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
	s.watched = true
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
	sight.Row, sight.Life, sight.Asked, sight.Building = b.row, b.life, time.Now(), b.building != nil
	sight.Settings = b.settings
	sight.Settings.RestoreWait = s.waits
	flows := b.entries()
	ports, err := cable.Identify(b.ports, flows)
	if refused, ok := errors.AsType[*cable.RejectionError](err); ok {
		sight.Rejected, sight.Code = refused.Reason, refused.Code
		return sight
	}
	if by := s.preferred(name, index); by != "" {
		refused := cable.Taken(index, by)
		sight.Rejected, sight.Code = refused.Reason, refused.Code
		return sight
	}
	sight.Mux = cable.Mux{VMSet: s.names.VMSet(), Index: index, Bridge: name, Ports: ports}
	sight.Flows = flows
	return sight
}

// newLife returns the time, as nobody got it before. It is called with mu held.
func (s *Switch) newLife() int64 {
	s.life = max(s.life+1, time.Now().UnixNano())
	return s.life
}

// preferred returns the bridge that has the port index rather than the one named, "" when there is none. It is called with
// mu held.
func (s *Switch) preferred(name string, index int) string {
	best := ""
	for other, b := range s.bridges {
		if !b.ours || b.index != index || s.names.Prefer(other, cmp.Or(best, name)) >= 0 {
			continue
		}
		if _, err := cable.Identify(b.ports, b.entries()); err == nil {
			best = other
		}
	}
	return best
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
	for _, e := range add {
		b.add(e)
	}
	s.changed(u.Bridge)
	return nil
}

func (b *bridge) remove(f cable.Flow) {
	b.flows = slices.DeleteFunc(b.flows, func(g flow) bool { return g.SameMatch(f) })
}

// add writes a flow, in place of one with the same match, whose count of packets goes on.
func (b *bridge) add(e cable.Entry) {
	i := slices.IndexFunc(b.flows, func(g flow) bool { return g.SameMatch(e.Flow) })
	if i >= 0 {
		e.Packets = b.flows[i].Packets
	}
	b.remove(e.Flow)
	b.flows = append(b.flows, flow{e, time.Now()})
}
