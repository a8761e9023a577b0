package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
)

func TestCountsTellWhoChangedWhat(t *testing.T) {
	run(t, 2, nil, func(b *bench) {
		want := func(what string, want engine.Counts) {
			t.Helper()
			if got := b.Journal.Counts(); got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		want("at the start", engine.Counts{})
		b.Do(context.Background(), map[int]cable.Change{0: toggle, 1: toggle}, engine.Origin{Cause: engine.API})
		b.do(0, cable.Change{Drop: cable.AllRoles})
		b.do(0, cable.Reset())
		want("two toggles, a drop and a reset", engine.Counts{Flaps: 2})
		if _, err := b.ClearFlaps([]int{0, 1}); err != nil {
			t.Fatal(err)
		}
		want("after clearing the counters of the muxes", engine.Counts{Flaps: 2})
		b.sw.DelFlows(b.bridge(0))
		time.Sleep(time.Second)
		want("somebody deleted flows", engine.Counts{Flaps: 2, External: 1})
		b.sw.AddRawFlow(b.bridge(1), cable.Entry{Flow: cable.Flow{Action: cable.Normal}})
		time.Sleep(time.Second)
		want("the switch fell back to NORMAL", engine.Counts{Flaps: 2, External: 1, Repairs: 1})
		b.sw.Restart()
		time.Sleep(time.Second)
		want("the switch was restarted", engine.Counts{Flaps: 2, External: 1, Repairs: 3, Reconnects: 2})
		b.sw.RemoveBridge(b.bridge(1))
		time.Sleep(time.Second)
		want("a bridge went", engine.Counts{Flaps: 2, External: 1, Repairs: 3, Reconnects: 2})
		resume := b.sw.Stall()
		b.do(0, toggle)
		time.Sleep(20 * time.Second)
		resume()
		time.Sleep(20 * time.Second)
		if got := b.Journal.Counts(); got.External != 1 || got.Flaps != 3 {
			t.Errorf("after an outage in which one change landed late: %+v, want no drift and one flap more", got)
		}
	})
}

func TestTheTimeOfAChangeIsSplit(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		resume := b.sw.Stall()
		first := make(chan engine.Result, 1)
		go func() { first <- b.do(0, toggle) }()
		time.Sleep(time.Second) // of fake time
		second := make(chan engine.Result, 1)
		go func() { second <- b.do(0, toggle) }()
		time.Sleep(time.Second)
		resume()
		if res := <-first; res.Queue != 0 || res.Switch < 2*time.Second {
			t.Errorf("the first: %v in the queue, %v for the switch; want none and 2 s", res.Queue, res.Switch)
		}
		if res := <-second; res.Queue < time.Second || res.Switch >= time.Second {
			t.Errorf("the second: %v in the queue, %v for the switch; want 1 s and next to nothing", res.Queue, res.Switch)
		}
		if res := b.do(0, cable.Change{}); res.Queue != 0 || res.Switch != 0 {
			t.Errorf("nothing to do: %v in the queue, %v for the switch", res.Queue, res.Switch)
		}
	})
}

// unreadable is a switch whose bridges are seen to have begun a new life before they can be read.
type unreadable struct {
	*simswitch.Switch
	now atomic.Bool
}

func (u *unreadable) Read(ctx context.Context, bridge string) (cable.Sight, error) {
	s, err := u.Switch.Read(ctx, bridge)
	if u.now.Load() {
		s.Err = errors.New("no answer")
	}
	return s, err
}

// A restart is counted once, however long the switch can't be read after it.
func TestARestartIsCountedOnce(t *testing.T) {
	var u unreadable
	run(t, 1, func(sw *simswitch.Switch, cfg *engine.Config) {
		u.Switch = sw
		cfg.Switch = &u
	}, func(b *bench) {
		u.now.Store(true)
		b.sw.Restart()
		b.do(0, toggle)
		time.Sleep(time.Minute)
		u.now.Store(false)
		time.Sleep(time.Minute)
		b.wantMux(0, b.Snapshot(0).State, b.Snapshot(0).Flaps, "")
		if got := b.Journal.Counts().Reconnects; got != 1 {
			t.Errorf("%d bridges were found anew, want 1", got)
		}
	})
}
