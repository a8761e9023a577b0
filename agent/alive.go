package agent

import (
	"fmt"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
)

// longestRound is how long the loop that reads a switch may take to come round. It does so every few seconds whatever Open
// vSwitch does: only a fault of the agent itself can keep it.
const longestRound = 10 * time.Second

// A reader is a switch that is read by a loop.
type reader interface {
	// Alive is when the loop came round last; zero while it doesn't run.
	Alive() time.Time
}

// alive says which switch is not read any more, although it should be.
func alive(engines []*engine.Engine, switches []engine.Switch) error {
	for i, sw := range switches {
		r, ok := sw.(reader)
		if !ok {
			continue
		}
		if at := r.Alive(); !at.IsZero() && time.Since(at) > longestRound {
			return fmt.Errorf("%s: the switch was not looked at for %v", engines[i].VMSet(), time.Since(at).Round(time.Second))
		}
	}
	return nil
}
