// Package switchtest is the contract of engine.Switch as tests: the simulated switch and the real one, over each of its
// conns, pass the same suite. After each operation it asks where a packet goes, and not what a flow looks like.
package switchtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// VMSet is the vm_set that the switch under test serves.
const VMSet = "vms17-8"

// Hands do to the switch under test what the testbed's script or a person does. They fail the test on an error.
type Hands interface {
	// AddBridge makes a bridge with these ports and no flows at all.
	AddBridge(t testing.TB, bridge string, ports ...string)
	RemoveBridge(t testing.TB, bridge string)
	// RemovePort and AddPort change a bridge.
	RemovePort(t testing.TB, bridge, port string)
	AddPort(t testing.TB, bridge, port string)
	// SetSide writes external_ids:mux-side of a port.
	SetSide(t testing.TB, bridge, port, side string)
	// AddFlow adds a flow as `ovs-ofctl add-flow` does, by names of ports: of the default priority when priority is 0; no
	// output is a drop; the only output "NORMAL" is an ordinary switch's action.
	AddFlow(t testing.TB, bridge string, priority int, from string, to ...string)
	DelFlows(t testing.TB, bridge string)
	// Packet sends a packet into a port and returns the names of the ports where it comes out, sorted.
	Packet(t testing.TB, bridge, from string) []string
}

// Run runs the suite. start returns a fresh switch for VMSet without any bridge; it is called once for each part.
func Run(t *testing.T, start func(t *testing.T) (engine.Switch, Hands)) {
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"Discover", (*suite).discover},
		{"EveryState", (*suite).everyState},
		{"FromGarbage", (*suite).fromGarbage},
		{"Batch", (*suite).batch},
		{"Read", (*suite).read},
		{"Watch", (*suite).watch},
		{"Engine", (*suite).engine},
		{"EngineConcurrent", (*suite).engineConcurrent},
	} {
		t.Run(part.name, func(t *testing.T) {
			sw, hands := start(t)
			part.test(&suite{T: t, sw: sw, hands: hands})
		})
	}
}

type suite struct {
	*testing.T
	sw    engine.Switch
	hands Hands
}

// The names of a mux under test.
func bridgeName(i int) string { return fmt.Sprintf("mbr-%s-%d", VMSet, i) }
func nicName(i int) string    { return fmt.Sprintf("muxy-%s-%d", VMSet, i) }
func upperName(i int) string  { return fmt.Sprintf("p%d.9", i) }
func lowerName(i int) string  { return fmt.Sprintf("p%d.10", i) }

// addMux builds a mux as the testbed's script does: upper ToR active.
func (s *suite) addMux(i int) {
	s.Helper()
	s.hands.AddBridge(s, bridgeName(i), nicName(i), upperName(i), lowerName(i))
	s.hands.DelFlows(s, bridgeName(i))
	s.hands.AddFlow(s, bridgeName(i), 0, nicName(i), upperName(i), lowerName(i))
	s.hands.AddFlow(s, bridgeName(i), 0, upperName(i), nicName(i))
}

func (s *suite) mustDiscover() map[string]cable.Sight {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait.Limit)
	defer cancel()
	sights, err := s.sw.Discover(ctx)
	if err != nil {
		s.Fatalf("Discover: %v", err)
	}
	byBridge := map[string]cable.Sight{}
	for _, sight := range sights {
		if sight.Err != nil {
			s.Errorf("Discover: %s: %v", sight.Bridge, sight.Err)
		}
		byBridge[sight.Bridge] = sight
	}
	return byBridge
}

func (s *suite) mustRead(bridge string) cable.Sight {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait.Limit)
	defer cancel()
	sight, err := s.sw.Read(ctx, bridge)
	if err = errors.Join(err, sight.Err); err != nil {
		s.Fatalf("Read %s: %v", bridge, err)
	}
	return sight
}

// apply runs updates and returns their errors, by index.
func (s *suite) apply(updates ...cable.Update) []error {
	s.Helper()
	errs := make([]error, len(updates))
	answers := make([]atomic.Int32, len(updates))
	var waiting sync.WaitGroup
	waiting.Add(len(updates))
	s.sw.Apply(updates, func(i int, err error) {
		errs[i] = err
		if answers[i].Add(1) > 1 {
			s.Errorf("update %d was answered twice", i)
			return
		}
		waiting.Done()
	})
	answered := make(chan struct{})
	go func() { waiting.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(wait.Limit):
		s.Fatalf("some of %d updates were not answered within %v", len(updates), wait.Limit)
	}
	return errs
}

// wantPackets asks where packets from all three ports of mux i go, for a state.
func (s *suite) wantPackets(i int, state cable.State) {
	s.Helper()
	s.packets().Check(s, muxOf(i), state.Active.String(), Names(state.Dropped)...)
}

// packets sends packets into the switch under test.
func (s *suite) packets() cabletest.Switch {
	return func(bridge, from string) []string { return s.hands.Packet(s, bridge, from) }
}

func muxOf(i int) cabletest.Mux {
	return cabletest.Mux{Bridge: bridgeName(i), NIC: nicName(i), Upper: upperName(i), Lower: lowerName(i)}
}

// Names returns the members of a set as the API names them, which is how package cabletest wants what is dropped.
func Names(set cable.Roles) []string {
	var names []string
	for _, r := range set.List() {
		names = append(names, r.String())
	}
	return names
}

func states() []cable.State {
	var all []cable.State
	for _, side := range []cable.Side{cable.UpperToR, cable.LowerToR} {
		for dropped := range cable.AllRoles + 1 {
			all = append(all, cable.State{Active: side, Dropped: dropped})
		}
	}
	return all
}

func (s *suite) discover() {
	s.addMux(0)
	s.hands.AddBridge(s, bridgeName(1), nicName(1), upperName(1))
	s.hands.AddBridge(s, bridgeName(2), "eth0", upperName(2), lowerName(2))
	s.addMux(3)
	s.hands.SetSide(s, bridgeName(3), upperName(3), "lower_tor")
	s.hands.AddBridge(s, "mbr-"+VMSet+"-1-0", "muxy-other-0", "o.1", "o.2")
	s.hands.AddBridge(s, "br-int", "muxy-none-0", "n.1", "n.2")

	got := s.mustDiscover()
	if diff := cmp.Diff([]string{bridgeName(0), bridgeName(1), bridgeName(2), bridgeName(3)}, slices.Sorted(maps.Keys(got))); diff != "" {
		s.Errorf("bridges (-want +got):\n%s", diff)
	}
	mux := got[bridgeName(0)].Mux
	if mux.VMSet != VMSet || mux.Index != 0 || !mux.Ports.Numbered() {
		s.Errorf("%s: %+v, want port 0 of %s with numbered ports", bridgeName(0), mux, VMSet)
	}
	if r := mux.Read(got[bridgeName(0)].Flows, cable.Settings{}, cable.State{Active: cable.LowerToR}); !r.Proper || r.State != (cable.State{}) {
		s.Errorf("%s: read as %+v from %v, want upper_tor", bridgeName(0), r, got[bridgeName(0)].Flows)
	}
	if mapped := got[bridgeName(3)].Mux.Ports; mapped[cable.Lower].Name != upperName(3) || mapped[cable.Upper].Name != lowerName(3) {
		s.Errorf("%s: %+v, want external_ids:mux-side to win over the names", bridgeName(3), mapped)
	}
	for bridge, reason := range map[string]string{
		bridgeName(1): "it has 2 ports",
		bridgeName(2): "no NIC",
	} {
		if got := got[bridge].Rejected; !strings.Contains(got, reason) {
			s.Errorf("%s: rejected with %q, want %q", bridge, got, reason)
		}
	}
}

func (s *suite) everyState() {
	s.addMux(0)
	mux := s.mustDiscover()[bridgeName(0)].Mux
	at := cable.State{}
	// Discover may have prepared the bridge, so the first update does not rely on what stood there.
	if err := s.apply(cable.Update{Bridge: bridgeName(0), Want: mux.Ports.Program(at, 0)})[0]; err != nil {
		s.Fatal(err)
	}
	for _, to := range states() {
		if err := s.apply(cable.Update{Bridge: bridgeName(0), Want: mux.Ports.Program(to, 0), Have: mux.Ports.Program(at, 0), Known: true})[0]; err != nil {
			s.Fatalf("%v → %v: %v", at, to, err)
		}
		s.wantPackets(0, to)
		if r := mux.Read(s.mustRead(bridgeName(0)).Flows, cable.Settings{}, cable.State{Active: to.Active.Other()}); !r.Proper || r.State != to {
			s.Errorf("%v → %v: read back as %+v", at, to, r)
		}
		at = to
	}
}

func (s *suite) fromGarbage() {
	s.addMux(0)
	mux := s.mustDiscover()[bridgeName(0)].Mux
	for _, to := range []cable.State{{}, {Active: cable.LowerToR, Dropped: cable.RolesOf(cable.Upper)}} {
		s.hands.AddFlow(s, bridgeName(0), 5, nicName(0), "NORMAL")
		s.hands.AddFlow(s, bridgeName(0), 60000, upperName(0), lowerName(0), nicName(0))
		s.hands.AddFlow(s, bridgeName(0), 0, lowerName(0), nicName(0))
		if r := mux.Read(s.mustRead(bridgeName(0)).Flows, cable.Settings{}, cable.State{}); r.Proper || len(r.Conditions) == 0 {
			s.Errorf("foreign flows read as %+v", r)
		}
		if err := s.apply(cable.Update{Bridge: bridgeName(0), Want: mux.Ports.Program(to, 0)})[0]; err != nil {
			s.Fatal(err)
		}
		s.wantPackets(0, to)
		if flows := s.mustRead(bridgeName(0)).Flows; len(flows) != 2 {
			s.Errorf("flows left behind: %v", flows)
		}
	}
}

func (s *suite) batch() {
	const n = 8
	for i := range n {
		s.addMux(i)
	}
	seen := s.mustDiscover()
	lower := cable.State{Active: cable.LowerToR}
	var updates []cable.Update
	for i := range n {
		updates = append(updates, cable.Update{Bridge: bridgeName(i), Want: seen[bridgeName(i)].Mux.Ports.Program(lower, 0)})
	}
	s.hands.RemoveBridge(s, bridgeName(3))
	for i, err := range s.apply(updates...) {
		if i != 3 {
			if err != nil {
				s.Errorf("update %d: %v", i, err)
			}
			s.wantPackets(i, lower)
			continue
		}
		var refused *cable.SwitchError
		if !errors.As(err, &refused) || refused.Bridge != bridgeName(3) {
			s.Errorf("update of a removed bridge: %v, want a SwitchError that names it", err)
		}
	}
}

func (s *suite) read() {
	s.addMux(0)
	s.mustDiscover()
	if sight := s.mustRead(bridgeName(7)); !sight.Gone {
		s.Errorf("a bridge that is not there: %+v, want Gone", sight)
	}
	before := s.mustRead(bridgeName(0)).Mux.Ports
	s.hands.RemovePort(s, bridgeName(0), nicName(0))
	if sight := s.mustRead(bridgeName(0)); !strings.Contains(sight.Rejected, "it has 2 ports") {
		s.Errorf("without its NIC: %+v, want it rejected", sight)
	}
	s.hands.AddPort(s, bridgeName(0), nicName(0))
	after := s.mustRead(bridgeName(0)).Mux.Ports
	if after[cable.NIC].Number == before[cable.NIC].Number || !after.Numbered() {
		s.Errorf("the NIC came back as %+v, was %+v; want a new number", after[cable.NIC], before[cable.NIC])
	}
}

func (s *suite) watch() {
	s.addMux(0)
	mux := s.mustDiscover()[bridgeName(0)].Mux
	// Discover may have removed the flows when it prepared the bridge.
	if err := s.apply(cable.Update{Bridge: bridgeName(0), Want: mux.Ports.Program(cable.State{}, 0)})[0]; err != nil {
		s.Fatal(err)
	}
	var mu sync.Mutex
	last := map[string]cable.Sight{}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.sw.Watch(ctx, func(sight cable.Sight) {
			mu.Lock()
			defer mu.Unlock()
			last[sight.Bridge] = sight
		})
	}()
	waitFor := func(what string, bridge string, ok func(cable.Sight) bool) {
		s.Helper()
		for deadline := time.Now().Add(wait.Limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			sight, seen := last[bridge]
			mu.Unlock()
			if seen && ok(sight) {
				return
			}
		}
		mu.Lock()
		defer mu.Unlock()
		s.Fatalf("%s was not seen within %v; last: %+v", what, wait.Limit, last[bridge])
	}
	s.hands.AddFlow(s, bridgeName(0), 0, lowerName(0), nicName(0))
	waitFor("a flow added by hand", bridgeName(0), func(sight cable.Sight) bool {
		r := sight.Mux.Read(sight.Flows, sight.Settings, cable.State{})
		return len(r.Conditions) > 0 && r.Conditions[0].Code == api.ConditionBothForward
	})
	s.addMux(1)
	waitFor("a new bridge", bridgeName(1), func(sight cable.Sight) bool {
		return sight.Rejected == "" && !sight.Building && sight.Mux.Read(sight.Flows, sight.Settings, cable.State{Active: cable.LowerToR}).State == cable.State{}
	})
	s.hands.RemoveBridge(s, bridgeName(0))
	waitFor("a removed bridge", bridgeName(0), func(sight cable.Sight) bool { return sight.Gone })
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			s.Errorf("Watch: %v", err)
		}
	case <-time.After(wait.Limit):
		s.Fatal("Watch did not end with its context")
	}
}

// startEngine runs an engine on the switch until the test ends.
func (s *suite) startEngine(timeout time.Duration, log *slog.Logger) *engine.Engine {
	s.Helper()
	names, err := cable.NewNames(VMSet)
	if err != nil {
		s.Fatal(err)
	}
	e := engine.New(engine.Config{Names: names, Switch: s.sw, Log: log, Timeout: timeout})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("engine: %v", err)
		}
	})
	select {
	case <-e.Ready():
	case <-time.After(wait.Limit):
		s.Fatalf("engine is not ready: %v", e.NotReady())
	}
	return e
}

func (s *suite) engine() {
	s.addMux(0)
	s.hands.AddBridge(s, bridgeName(1), nicName(1), upperName(1), lowerName(1)) // no flow of ours: to be repaired
	s.addMux(2)
	s.hands.DelFlows(s, bridgeName(2))
	s.hands.AddFlow(s, bridgeName(2), 0, lowerName(2), nicName(2)) // lower active, upstream gone: side kept, repaired
	e := s.startEngine(wait.Limit, slog.New(slog.DiscardHandler))
	s.wantPackets(0, cable.State{})
	s.wantPackets(1, cable.State{})
	s.wantPackets(2, cable.State{Active: cable.LowerToR})

	nic, upper := cable.RolesOf(cable.NIC), cable.RolesOf(cable.Upper)
	at := cable.State{}
	for _, step := range []struct {
		name   string
		change cable.Change
		flaps  int
	}{
		{"toggle", cable.Change{Move: cable.MoveToggle}, 1},
		{"the same side", cable.Change{Move: cable.MoveTo, Side: cable.LowerToR}, 1},
		{"drop nic", cable.Change{Drop: nic}, 1},
		{"the other side while dropped", cable.Change{Move: cable.MoveTo, Side: cable.UpperToR}, 2},
		{"output nic", cable.Change{Output: nic}, 2},
		{"drop upper", cable.Change{Drop: upper}, 2},
		{"toggle with a drop", cable.Change{Move: cable.MoveToggle}, 3},
		{"reset", cable.Reset(), 3},
	} {
		at = step.change.Apply(at, nil)
		res := e.Do(s.Context(), map[int]cable.Change{0: step.change}, engine.Origin{Cause: engine.API})[0]
		if res.Err != nil {
			s.Fatalf("%s: %v", step.name, res.Err)
		}
		if res.Snapshot.State != at || res.Snapshot.Flaps != step.flaps || res.Snapshot.Healthy() != (at.Dropped == 0) {
			s.Errorf("%s: %v, %d flaps, healthy %v; want %v, %d", step.name, res.Snapshot.State, res.Snapshot.Flaps, res.Snapshot.Healthy(), at, step.flaps)
		}
		s.wantPackets(0, at)
	}

	// Reset makes it right whatever somebody did, even before the agent has noticed.
	s.hands.DelFlows(s, bridgeName(0))
	s.hands.AddFlow(s, bridgeName(0), 60000, lowerName(0), upperName(0))
	if res := e.Do(s.Context(), map[int]cable.Change{0: cable.Reset()}, engine.Origin{Cause: engine.API})[0]; res.Err != nil {
		s.Fatal(res.Err)
	}
	if res := e.Do(s.Context(), map[int]cable.Change{0: {Move: cable.MoveTo, Side: cable.LowerToR}}, engine.Origin{Cause: engine.API})[0]; res.Err != nil {
		s.Fatal(res.Err)
	}
	s.wantPackets(0, cable.State{Active: cable.LowerToR})

	s.wantPackets(1, cable.State{})
	s.wantPackets(2, cable.State{Active: cable.LowerToR})
}

func (s *suite) engineConcurrent() {
	const n, clients, each = 4, 4, 5
	for i := range n {
		s.addMux(i)
	}
	e := s.startEngine(wait.Limit, slog.New(slog.DiscardHandler))
	toggle := map[int]cable.Change{}
	for i := range n {
		toggle[i] = cable.Change{Move: cable.MoveToggle}
	}
	var clientsDone sync.WaitGroup
	for c := range clients {
		clientsDone.Go(func() {
			for range each {
				changes := toggle
				if c%2 == 0 {
					changes = map[int]cable.Change{c: {Move: cable.MoveToggle}}
				}
				for i, res := range e.Do(context.Background(), changes, engine.Origin{Cause: engine.API}) {
					if res.Err != nil {
						s.Errorf("mux %d: %v", i, res.Err)
					}
				}
			}
		})
	}
	clientsDone.Wait()
	// Each toggle is a toggle: two clients toggled all of them, and clients 0 and 2 one each.
	for i := range n {
		flaps := clients / 2 * each
		if i%2 == 0 {
			flaps += each
		}
		snap := e.Snapshot(i)
		if want := cable.Side(flaps % 2); snap.Flaps != flaps || snap.State.Active != want {
			s.Errorf("mux %d: %d flaps, %v; want %d, %v", i, snap.Flaps, snap.State, flaps, want)
		}
		s.wantPackets(i, snap.State)
	}
}
