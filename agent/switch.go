package agent

import (
	"fmt"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ofctl"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
)

// maxSimulatePorts is more than any testbed has, and little enough for a laptop.
const maxSimulatePorts = 10_000

// ofctlPoll is the pause between two looks at all bridges with a process for each: half a second's work for 120 of them.
const ofctlPoll = 10 * time.Second

// newSwitch makes the switch of one vm_set that cfg.Driver names, and what ends it.
func (cfg Config) newSwitch(names *cable.Names) (sw engine.Switch, closeSwitch func(), err error) {
	if cfg.Watch != "" && cfg.Watch != WatchAuto && cfg.Watch != WatchPoll {
		return nil, nil, fmt.Errorf("unknown way to watch %q: want %s or %s", cfg.Watch, WatchAuto, WatchPoll)
	}
	switch cfg.Driver {
	case DriverSimulated:
		if cfg.SimulatePorts < 0 || cfg.SimulatePorts > maxSimulatePorts {
			return nil, nil, fmt.Errorf("cannot simulate %d ports: want 0 to %d", cfg.SimulatePorts, maxSimulatePorts)
		}
		return simswitch.New(names, cfg.SimulatePorts), func() {}, nil
	case DriverOfctl:
		conn := ofctl.New(ofctl.Config{RunDir: cfg.OVSRunDir, Timeout: cfg.ChangeTimeout})
		vs := cfg.newVSwitch(names, conn, ofctlPoll)
		return vs, vs.Close, nil
	case DriverOpenFlow:
		pool := openflow.NewPool(openflow.Config{Dir: cfg.OVSRunDir, Timeout: cfg.ChangeTimeout})
		vs := cfg.newVSwitch(names, pool, time.Second)
		return vs, func() { vs.Close(); pool.Close() }, nil
	}
	return nil, nil, fmt.Errorf("unknown driver %q: want %s, %s or %s", cfg.Driver, DriverOpenFlow, DriverOfctl, DriverSimulated)
}

func (cfg Config) newVSwitch(names *cable.Names, conn vswitch.Conn, poll time.Duration) *vswitch.Switch {
	return vswitch.New(vswitch.Config{
		RunDir: cfg.OVSRunDir, Names: names, Conn: conn, KeepFailMode: cfg.KeepFailMode, Timeout: cfg.ChangeTimeout,
		Poll: cfg.Watch == WatchPoll, PollInterval: poll, Log: cfg.Log.With("vm_set", names.VMSet()),
	})
}
