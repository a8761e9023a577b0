package agent

import (
	"fmt"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
)

// maxSimulatePorts is more than any testbed has, and little enough for a laptop.
const maxSimulatePorts = 10_000

// newSwitch makes the switch of one vm_set that cfg.Driver names.
func (cfg Config) newSwitch(names *cable.Names) (engine.Switch, error) {
	switch cfg.Driver {
	case DriverSimulated:
		if cfg.SimulatePorts < 0 || cfg.SimulatePorts > maxSimulatePorts {
			return nil, fmt.Errorf("cannot simulate %d ports: want 0 to %d", cfg.SimulatePorts, maxSimulatePorts)
		}
		return simswitch.New(names, cfg.SimulatePorts), nil
	}
	return nil, fmt.Errorf("unknown driver %q: want %s, %s or %s", cfg.Driver, DriverOpenFlow, DriverOfctl, DriverSimulated)
}
