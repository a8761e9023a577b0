package engine

import (
	"context"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A Switch is where the bridges of one vm_set live. vswitch is the real one, simswitch the one in memory; switchtest is
// the contract of both.
//
// Methods may be called at the same time, except that the engine has at most one update of a bridge on its way.
type Switch interface {
	// Discover reads every bridge whose name fits the vm_set, and prepares those that are muxes. An error means that the
	// switch as a whole could not be read; what is wrong with one bridge is in its Sight.
	Discover(ctx context.Context) ([]cable.Sight, error)

	// Read reads one bridge again. It returns a Sight with Gone set when there is none.
	Read(ctx context.Context, bridge string) (cable.Sight, error)

	// Apply starts all updates at once and returns without waiting for the switch. It calls done exactly once for each,
	// from any goroutine, with nil when the switch has confirmed it, and else with a *cable.SwitchError. An update that is
	// refused leaves the flows as they were. done must not block.
	Apply(updates []cable.Update, done func(i int, err error))

	// Watch reports what it sees of bridges, in order for each bridge, until ctx ends; what is the same as before may be
	// reported again. It returns nil when ctx ended.
	Watch(ctx context.Context, seen func(cable.Sight)) error
}
