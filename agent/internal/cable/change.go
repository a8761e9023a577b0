package cable

// A Change is what somebody asks of one mux. The zero Change does nothing.
type Change struct {
	// Side, when Move is MoveTo, is the side to take.
	Side Side
	Move Move
	// Drop and Output stop and restore ports. Output wins where both name one.
	Drop, Output Roles
	// SetDropped, when not nil, is the whole set of dropped ports, before Drop and Output.
	SetDropped *Roles
	// Rewrite writes the flows even when the mux is thought to have them already.
	Rewrite bool
}

// A Move is how a Change picks the active side.
type Move uint8

// The moves. MoveRandom may pick the current side.
const (
	MoveNone Move = iota
	MoveTo
	MoveToggle
	MoveRandom
)

// Reset returns the change that restores all ports and writes the flows whatever stands there.
func Reset() Change { return Change{Output: AllRoles, Rewrite: true} }

// Empty reports whether the change asks for nothing.
func (c Change) Empty() bool { return c == Change{} }

// Apply returns the state after the change, given the one before. random draws a side for MoveRandom.
func (c Change) Apply(s State, random func() Side) State {
	switch c.Move {
	case MoveTo:
		s.Active = c.Side
	case MoveToggle:
		s.Active = s.Active.Other()
	case MoveRandom:
		s.Active = random()
	}
	if c.SetDropped != nil {
		s.Dropped = *c.SetDropped
	}
	s.Dropped = (s.Dropped | c.Drop) &^ c.Output
	return s
}
