package simswitch

import (
	"fmt"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// AddBridge adds a bridge with ports and no flows. An existing one gets the missing ports, as with --may-exist.
func (s *Switch) AddBridge(name string, ports ...string) {
	s.do(name, func() {
		if s.bridges[name] == nil {
			s.makeBridge(name)
		}
	})
	for _, p := range ports {
		s.AddPort(name, p)
	}
}

// Swap makes a bridge anew in one step, as one transaction of the database does, so that nobody sees it absent: with ports
// under new numbers, and no flows.
func (s *Switch) Swap(name string, ports ...string) {
	s.do(name, func() {
		number := s.mustBridge(name).number
		s.makeBridge(name)
		b := s.bridges[name]
		for _, p := range ports {
			number++
			b.ports = append(b.ports, cable.Candidate{Port: cable.Port{Name: p, Number: number}})
		}
		b.number = number
	})
}

// makeBridge is called with mu held.
func (s *Switch) makeBridge(name string) {
	s.rows++
	b := &bridge{row: fmt.Sprint(s.rows), life: s.newLife()}
	b.index, b.ours = s.names.Index(name)
	if s.watched {
		b.building = time.AfterFunc(quiet, func() {
			s.do(name, func() { b.building = nil })
		})
	}
	s.bridges[name] = b
}

// RemoveBridge removes a bridge with all that is on it. Another one of its port index may be the mux now.
func (s *Switch) RemoveBridge(name string) {
	s.all(func(*bridge) {}, func() {
		delete(s.bridges, name)
		s.changed(name)
	})
}

// AddPort adds a port under a number of its own.
func (s *Switch) AddPort(name, port string) {
	s.onBridge(name, func(b *bridge) {
		if b.find(port) < 0 {
			b.number++
			b.ports = append(b.ports, cable.Candidate{Port: cable.Port{Name: port, Number: b.number}})
		}
	})
}

// RemovePort removes a port. Flows that name its number stay.
func (s *Switch) RemovePort(name, port string) {
	s.onBridge(name, func(b *bridge) {
		b.ports = slices.DeleteFunc(b.ports, func(c cable.Candidate) bool { return c.Name == port })
	})
}

// BreakPort takes the device of a port away: the port stays on the bridge, without a number.
func (s *Switch) BreakPort(name, port string) {
	s.onBridge(name, func(b *bridge) {
		c := &b.ports[b.mustFind(port)]
		c.Number, c.Fault = 0, fmt.Sprintf("could not open network device %s (No such device)", port)
	})
}

// MendPort brings the device of a port back, under a new number.
func (s *Switch) MendPort(name, port string) {
	s.onBridge(name, func(b *bridge) {
		b.number++
		c := &b.ports[b.mustFind(port)]
		c.Number, c.Fault = b.number, ""
	})
}

// AddFlow adds a flow by port names, of the priority that ovs-ofctl gives by default when priority is 0. No output is a
// drop, and the only output "NORMAL" is an ordinary switch's action.
func (s *Switch) AddFlow(name string, priority int, from string, to ...string) {
	s.onBridge(name, func(b *bridge) {
		f := cable.NewFlow(b.ports[b.mustFind(from)].Number)
		if len(to) == 1 && to[0] == cable.Normal {
			f.Action = cable.Normal
		} else {
			var out []uint32
			for _, p := range to {
				out = append(out, b.ports[b.mustFind(p)].Number)
			}
			f = cable.NewFlow(f.InPort, out...)
		}
		if priority != 0 {
			f.Priority = uint16(priority)
		}
		b.add(cable.Entry{Flow: f})
	})
}

// AddRawFlow adds any flow.
func (s *Switch) AddRawFlow(name string, e cable.Entry) {
	s.onBridge(name, func(b *bridge) { b.add(e) })
}

// SetSide writes external_ids:mux-side of a port.
func (s *Switch) SetSide(name, port, side string) {
	s.onBridge(name, func(b *bridge) { b.ports[b.mustFind(port)].Side = side })
}

// DelFlows removes all flows of a bridge.
func (s *Switch) DelFlows(name string) { s.onBridge(name, func(b *bridge) { b.flows = nil }) }

// SetPort changes what the switch says of a port beside its flows.
func (s *Switch) SetPort(name, port string, set func(*cable.Port)) {
	s.onBridge(name, func(b *bridge) { set(&b.ports[b.mustFind(port)].Port) })
}

// Configure changes what the switch was told of a bridge. RestoreWait is the whole switch's: see SetRestoreWait.
func (s *Switch) Configure(name string, set func(*cable.Settings)) {
	s.onBridge(name, func(b *bridge) { set(&b.settings) })
}

// Restart restarts the switch: all bridges and ports are there again, without flows. Where flow-restore-wait is set, it
// forwards nothing until that is removed.
func (s *Switch) Restart() {
	s.all(func(b *bridge) { b.flows, b.life = nil, s.life }, func() {
		s.blocked = s.waits
		s.newLife()
	})
}

// SetRestoreWait sets other_config:flow-restore-wait, or removes it.
func (s *Switch) SetRestoreWait(waits bool) {
	s.all(func(*bridge) {}, func() { s.waits, s.blocked = waits, s.blocked && waits })
}

// all changes the switch and each of its bridges.
func (s *Switch) all(each func(*bridge), whole func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole()
	for name, b := range s.bridges {
		each(b)
		s.changed(name)
	}
}

// FailNext makes the switch refuse the next update of a bridge with these words. It may be called several times.
func (s *Switch) FailNext(name, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[name] = append(s.refusals[name], words)
}

// Stall makes the switch hang until the returned function is called: reads time out, and updates are applied late.
func (s *Switch) Stall() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled != nil {
		panic("simswitch: it hangs already")
	}
	stalled := make(chan struct{})
	s.stalled = stalled
	return func() {
		s.mu.Lock()
		s.stalled = nil
		for _, do := range s.late {
			do()
		}
		s.late = nil
		s.mu.Unlock()
		close(stalled)
	}
}

// Waiting returns how many calls of Apply wait for a switch that hangs.
func (s *Switch) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.late)
}

// Inject sends a packet with no special header into a port, and returns the names of the ports where it comes out, in
// order of the name. A packet that OVS would bridge as a switch (NORMAL) floods.
func (s *Switch) Inject(name, port string) []string {
	var names []string
	s.read(name, func(b *bridge) {
		in := b.ports[b.mustFind(port)].Port
		if s.blocked || in.Number == 0 || in.Down || in.NoReceive || in.Blocked != "" {
			return
		}
		best := -1
		for i := range b.flows {
			if matches(&b.flows[i].Flow, in.Number) && (best < 0 || b.flows[i].Priority > b.flows[best].Priority) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		f := &b.flows[best]
		f.Packets++
		for _, p := range b.ports {
			passes := p.Number != 0 && p.Number != in.Number && !p.Down && !p.NoForward && p.Blocked == ""
			if passes && (f.Action == cable.Normal || f.Action == "" && slices.Contains(f.Out[:], p.Number)) {
				names = append(names, p.Name)
			}
		}
	})
	slices.Sort(names)
	return names
}

// matches reports whether a packet with no special header that enters at a port is one of f's.
func matches(f *cable.Flow, in uint32) bool {
	return f.Table == 0 && f.Match == "" && (f.InPort == 0 || f.InPort == in)
}

// do runs f on the switch and tells the watchers.
func (s *Switch) do(name string, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed(name)
}

// onBridge changes a bridge, which then has to stand still anew if it was not built yet.
func (s *Switch) onBridge(name string, f func(*bridge)) {
	s.do(name, func() {
		b := s.mustBridge(name)
		f(b)
		if b.building != nil {
			b.building.Reset(quiet)
		}
	})
}

func (s *Switch) read(name string, f func(*bridge)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.mustBridge(name))
}

func (s *Switch) mustBridge(name string) *bridge {
	b := s.bridges[name]
	if b == nil {
		panic("simswitch: no bridge named " + name)
	}
	return b
}

func (b *bridge) find(port string) int {
	return slices.IndexFunc(b.ports, func(c cable.Candidate) bool { return c.Name == port })
}

func (b *bridge) mustFind(port string) int {
	i := b.find(port)
	if i < 0 {
		panic("simswitch: no port named " + port)
	}
	return i
}
