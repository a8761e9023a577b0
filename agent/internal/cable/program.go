package cable

import (
	"hash/fnv"
	"slices"
)

// A Cookie marks a flow of ours on the switch: 16 bits 0x6d75 ("mu"), 4 bits of Kind, 44 bits of value.
type Cookie uint64

// A Kind says what a flow of ours is there for.
type Kind uint8

// The kinds. The value of a base flow downstream is the hash of the request that changed the mux last.
const (
	Base        Kind = iota // one of the flows of a mux's state
	Fault                   // what a tester asked to be broken; its value is the fault's number
	Placeholder             // a drop at the bridge's own port, which holds the state while a port is missing
)

const (
	cookieMark = 0x6d75
	valueBits  = 44
	valueMask  = 1<<valueBits - 1
)

// NewCookie returns the cookie of a kind with a value of at most 44 bits.
func NewCookie(k Kind, value uint64) Cookie {
	return Cookie(cookieMark<<48 | uint64(k)<<valueBits | value&valueMask)
}

// Kind returns what kind of a flow of ours bears the cookie. ok is false when the flow is somebody else's.
func (c Cookie) Kind() (k Kind, ok bool) {
	return Kind(c >> valueBits & 0xf), c>>48 == cookieMark
}

// Value returns the 44 bits of a cookie of ours.
func (c Cookie) Value() uint64 { return uint64(c) & valueMask }

// requestBits is how many bits of a request's hash there is room for beside the state in a placeholder.
const requestBits = 40

// RequestHash returns what the switch remembers of a request, 40 bits and never 0; 0 for the empty reqId.
func RequestHash(reqID string) uint64 {
	if reqID == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(reqID))
	sum := h.Sum64()
	return max(1, (sum^sum>>requestBits)&(1<<requestBits-1))
}

// A Program is the flows that shall stand on a bridge.
type Program []Entry

// Program returns the flows of a cable in state s: upstream, then downstream, as far as the ports live. Both are always
// there, with a drop where nothing passes: what is absent on a switch is never taken for a wish. While a port is missing a
// placeholder holds the state, so that whoever reads the switch finds it. request is the RequestHash of who asked for it.
func (p Ports) Program(s State, request uint64) Program {
	program := make(Program, 0, 3)
	if p[NIC].Number != 0 {
		var up [2]uint32
		n := 0
		for _, r := range [...]Role{Upper, Lower} {
			if !s.Dropped.Has(r) && p[r].Number != 0 {
				up[n] = p[r].Number
				n++
			}
		}
		program = append(program, Entry{Flow: NewFlow(p[NIC].Number, up[:n]...), Cookie: NewCookie(Base, 0)})
		if active := p[s.Active.Role()].Number; active != 0 {
			down := NewFlow(active)
			if !s.Dropped.Has(NIC) {
				down.Out[0] = p[NIC].Number
			}
			program = append(program, Entry{Flow: down, Cookie: NewCookie(Base, request)})
		}
	}
	if !p.Numbered() {
		program = append(program, placeholder(s, request))
	}
	return program
}

// placeholder returns the entry that holds a state: its value is the request's hash, three bits of drops and one of the side.
func placeholder(s State, request uint64) Entry {
	return Entry{Flow: NewFlow(Local), Cookie: NewCookie(Placeholder, request<<4|uint64(s.Dropped)<<1|uint64(s.Active))}
}

// held returns the state and the request that a placeholder holds. ok is false when e is not one.
func (e *Entry) held() (s State, request uint64, ok bool) {
	if kind, ours := e.Cookie.Kind(); !ours || kind != Placeholder || e.Flow != NewFlow(Local) {
		return State{}, 0, false
	}
	v := e.Cookie.Value()
	return State{Active: Side(v & 1), Dropped: Roles(v>>1) & AllRoles}, v >> 4, true
}

// Stands reports whether exactly the flows of the program are there, whatever their cookies.
func (p Program) Stands(flows []Entry) bool {
	if len(p) != len(flows) {
		return false
	}
	for i := range p {
		if !slices.ContainsFunc(flows, func(e Entry) bool { return e.Flow == p[i].Flow }) {
			return false
		}
	}
	return true
}

// An Update asks a switch to make the flows of one bridge exactly Want, in one atomic step.
type Update struct {
	Bridge string
	Want   Program
	// Have are the flows that stand there. When Known is false nobody can tell, and everything is removed in the same step.
	Have  Program
	Known bool
}

// Steps returns the flows to delete (strictly: same table, match and priority) and to add. With flush, everything is
// to be deleted first. A flow that stands with another request's cookie is added again, which keeps its packet counter
// (measured, Open vSwitch 2.15 and 3.1).
func (u Update) Steps() (flush bool, del []Flow, add []Entry) {
	if !u.Known {
		return true, nil, u.Want
	}
	for _, have := range u.Have {
		if !slices.ContainsFunc(u.Want, func(w Entry) bool { return w.SameMatch(have.Flow) }) {
			del = append(del, have.Flow)
		}
	}
	for _, want := range u.Want {
		i := slices.IndexFunc(u.Have, func(h Entry) bool { return h.Flow == want.Flow })
		if i < 0 || u.Have[i].outdated(want.Cookie) {
			add = append(add, want)
		}
	}
	return false, del, add
}

// outdated reports whether an entry's cookie has to make way for another one.
func (e *Entry) outdated(by Cookie) bool {
	kind, ours := e.Cookie.Kind()
	wanted, _ := by.Kind()
	return !ours || kind != wanted || by != e.Cookie && (by.Value() != 0 || kind == Placeholder)
}
