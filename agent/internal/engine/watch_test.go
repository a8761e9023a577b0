package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
)

func TestARestartedSwitchGetsItsFlowsBack(t *testing.T) {
	run(t, 3, nil, func(b *bench) {
		b.do(0, toggle)
		dropped := cable.State{Dropped: cable.RolesOf(cable.Lower)}
		b.do(1, cable.Change{Drop: dropped.Dropped})
		b.sw.DelFlows(b.bridge(2)) // by a person, before
		time.Sleep(time.Second)
		b.sw.Restart()
		time.Sleep(time.Second)
		b.wantMux(0, lower, 1, "")
		b.wantMux(1, dropped, 0, "")
		b.wantMux(2, upper, 0, "")
		missing := "the flow from lower_tor (enp59s0f1.3219) to the NIC is missing"
		want := []string{
			"lower_tor → lower_tor: " + missing + " by recovery",
			"lower_tor: " + missing + " → lower_tor by recovery",
		}
		if got := b.history(0)[2:]; !slices.Equal(got, want) {
			t.Errorf("history %q, want %q", got, want)
		}

		// What a person does after that is a person's again.
		b.sw.DelFlows(b.bridge(0))
		time.Sleep(time.Second)
		b.wantMux(0, lower, 1, missing)
	})
}

func TestARepairIsTriedUntilItSucceeds(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		b.do(0, toggle)
		events := len(b.history(0))
		for range 4 {
			b.sw.FailNext(b.bridge(0), "OFPFMFC_TABLE_FULL")
		}
		b.sw.Restart()
		time.Sleep(time.Second)
		b.wantMux(0, lower, 1, "its flows could not be put right: set flows on "+b.bridge(0)+": OFPFMFC_TABLE_FULL")
		time.Sleep(time.Minute)
		b.wantMux(0, lower, 1, "")
		if got := len(b.history(0)) - events; got != 3 {
			b.Errorf("%d events, want three: what was lost, that it could not be put right, that it was", got)
		}
	})
}

func TestARepairAtTheStartIsTriedAgain(t *testing.T) {
	prepare := func(sw *simswitch.Switch, _ *engine.Config) {
		sw.AddFlow("mbr-vms17-8-0", 1, "muxy-vms17-8-0", "NORMAL")
		sw.FailNext("mbr-vms17-8-0", "OFPFMFC_TABLE_FULL")
	}
	run(t, 1, prepare, func(b *bench) {
		time.Sleep(time.Minute)
		b.wantMux(0, upper, 0, "")
		if flows := b.mustRead().Flows; len(flows) != 2 {
			b.Errorf("flows are %v, want those of a mux", flows)
		}
	})
}

func (b *bench) mustRead() cable.Sight {
	b.Helper()
	s, err := b.sw.Read(b.Context(), b.bridge(0))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// However many wait behind a change that is not answered, and whenever they came, each hears within the timeout.
func TestChangesFailWithinTheTimeout(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		resume := b.sw.Stall()
		var asking sync.WaitGroup
		for range 40 {
			asking.Go(func() {
				started := time.Now()
				if res := b.do(0, toggle); res.Err == nil {
					b.Error("a change of a hung switch succeeded")
				}
				if took := time.Since(started); took > 3*time.Second {
					b.Errorf("it took %v of fake time", took)
				}
			})
			time.Sleep(300 * time.Millisecond)
		}
		asking.Wait()
		resume()
		time.Sleep(10 * time.Second)
		s := b.Snapshot(0)
		b.wantMux(0, s.State, s.Flaps, "")
	})
}

// An outage is one event, however long it lasts and however often the switch is looked at.
func TestAnOutageIsOneEvent(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		events := len(b.Journal.History(0))
		resume := b.sw.Stall()
		b.sw.RemovePort(b.bridge(0), "enp59s0f1.3217")
		b.do(0, toggle)
		time.Sleep(time.Hour)
		if got := b.history(0)[events:]; len(got) != 1 || !strings.Contains(got[0], "not known whether") {
			b.Errorf("events %q, want the one of the change", got)
		}
		resume()
		time.Sleep(time.Second)
		b.wantMux(0, upper, 0, "it has 2 ports")
	})
}

func TestABridgeThatIsNotAMuxAtPresentIsNotChanged(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		flows := b.mustRead().Flows
		b.sw.SetSide(b.bridge(0), "muxy-vms17-8-0", "nic")
		b.sw.SetSide(b.bridge(0), "enp59s0f1.3216", "nic")
		time.Sleep(time.Second)
		const why = "ports muxy-vms17-8-0 and enp59s0f1.3216 both are nic"
		if res := b.do(0, cable.Reset()); res.Err == nil || !strings.Contains(res.Err.Error(), why) {
			b.Errorf("error %v, want the reason", res.Err)
		}
		b.wantMux(0, upper, 0, why)
		b.sw.SetSide(b.bridge(0), "enp59s0f1.3216", "")
		time.Sleep(time.Second)
		b.wantMux(0, upper, 0, "")
		if got := b.mustRead().Flows; got[0].Flow != flows[0].Flow || got[1].Flow != flows[1].Flow || len(got) != 2 {
			b.Errorf("flows are %v, were %v", got, flows)
		}
	})
}

// A capture port beside the three changes nothing, while the agent runs and at its start.
func TestAFourthPortChangesNothing(t *testing.T) {
	run(t, 2, func(sw *simswitch.Switch, _ *engine.Config) { sw.AddPort("mbr-vms17-8-1", "capture") }, func(b *bench) {
		b.sw.AddPort(b.bridge(0), "capture")
		time.Sleep(time.Second)
		for i := range 2 {
			b.wantMux(i, upper, 0, "")
			b.do(i, toggle)
			b.sw.BreakPort(b.bridge(i), b.Snapshot(i).Ports[cable.Upper].Name)
			time.Sleep(time.Second)
			b.wantMux(i, lower, 1, "No such device")
			if got := b.sw.Inject(b.bridge(i), b.Snapshot(i).Ports[cable.Lower].Name); !slices.Equal(got, []string{b.names.NIC(i)}) {
				t.Errorf("mux %d: a packet of the surviving ToR comes out at %v, want the NIC", i, got)
			}
		}
	})
}

func TestSidesThatChangeOverAreAdopted(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		b.sw.SetSide(b.bridge(0), "enp59s0f1.3216", "lower_tor")
		time.Sleep(time.Second)
		b.wantMux(0, lower, 0, "") // the same port passes, under its new name
	})
}

// preparer is a switch that flushes a bridge when it is read, as the real one does where fail_mode is to be set.
type preparer struct {
	*simswitch.Switch
	due atomic.Bool
}

func (p *preparer) Read(ctx context.Context, bridge string) (cable.Sight, error) {
	s, err := p.Switch.Read(ctx, bridge)
	if p.due.Swap(false) {
		s.Flushed = true
		p.DelFlows(bridge)
	}
	return s, err
}

func (p *preparer) Watch(ctx context.Context, seen func(cable.Sight)) error {
	return p.Switch.Watch(ctx, func(s cable.Sight) {
		s.Unprepared = p.due.Load()
		seen(s)
	})
}

// The flows of a bridge that was prepared are those of a mux, and gone.
func TestAPreparedBridgeGetsItsFlowsBack(t *testing.T) {
	var p preparer
	prepare := func(sw *simswitch.Switch, cfg *engine.Config) {
		p.Switch = sw
		cfg.Switch = &p
	}
	run(t, 1, prepare, func(b *bench) {
		b.do(0, toggle)
		p.due.Store(true)
		b.sw.SetSide(b.bridge(0), "enp59s0f1.3216", "") // anything that has it looked at
		time.Sleep(time.Second)
		if p.due.Load() {
			b.Error("the bridge was not read")
		}
		b.wantMux(0, lower, 1, "")
	})
}

// A change that comes before anybody noticed a restart writes one flow into an empty table; the other is put back.
func TestAChangeRightAfterARestart(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		s := b.Snapshot(0)
		want := s.Ports.Program(lower, 0)
		b.do(0, toggle)
		b.sw.Restart()
		b.sw.AddRawFlow(b.bridge(0), want[1])
		time.Sleep(time.Second)
		b.wantMux(0, lower, 1, "")
	})
}

func TestAReloadAndANewBridge(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		b.sw.AddBridge(b.bridge(1), "muxy-vms17-8-1", "u", "v")
		time.Sleep(100 * time.Millisecond)
		if err := b.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.do(1, toggle)
		dropped := cable.State{Active: cable.LowerToR, Dropped: nic}
		b.do(1, cable.Change{Drop: nic})
		time.Sleep(5 * time.Second)
		b.wantMux(1, dropped, 1, "") // served once, and not served anew when its quiet second is over
		if got := b.history(1); len(got) != 4 {
			t.Errorf("history: %q, want that it came, was repaired, toggled and dropped", got)
		}
	})
}

func TestALateToggleAfterACounterWasCleared(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		for range 5 {
			b.do(0, toggle)
		}
		resume := b.sw.Stall()
		b.do(0, toggle)
		if _, err := b.ClearFlaps(nil); err != nil {
			t.Fatal(err)
		}
		resume()
		time.Sleep(10 * time.Second)
		b.wantMux(0, upper, 1, "")
	})
}

func TestARepairThatFailedIsNotForgotten(t *testing.T) {
	prepare := func(sw *simswitch.Switch, _ *engine.Config) {
		sw.DelFlows("mbr-vms17-8-0")
		sw.AddFlow("mbr-vms17-8-0", 0, "muxy-vms17-8-0", "enp59s0f1.3216", "enp59s0f1.3217")
		sw.AddFlow("mbr-vms17-8-0", 0, "enp59s0f1.3217") // dropped, to be repaired at the start
		sw.FailNext("mbr-vms17-8-0", "OFPFMFC_TABLE_FULL")
	}
	run(t, 1, prepare, func(b *bench) {
		time.Sleep(time.Minute)
		b.wantMux(0, lower, 0, "")
	})
}

func TestKeepDropsOfANewBridge(t *testing.T) {
	run(t, 1, func(_ *simswitch.Switch, cfg *engine.Config) { cfg.KeepDrops = true }, func(b *bench) {
		b.sw.AddBridge(b.bridge(1), "muxy-vms17-8-1", "u", "v")
		b.sw.AddFlow(b.bridge(1), 0, "muxy-vms17-8-1", "u", "v")
		b.sw.AddFlow(b.bridge(1), 0, "v")
		b.sw.AddBridge(b.bridge(2), "muxy-vms17-8-2", "x", "y")
		time.Sleep(time.Minute)
		b.wantMux(1, cable.State{Active: cable.LowerToR, Dropped: nic}, 0, "")
		b.wantMux(2, upper, 0, "")
	})
}

// hanging is a switch that never answers changes while it hangs.
type hanging struct {
	*simswitch.Switch
	now atomic.Bool
}

func (h *hanging) Apply(updates []cable.Update, done func(int, error)) {
	if !h.now.Load() {
		h.Switch.Apply(updates, done)
		return
	}
	go func() {
		time.Sleep(3 * time.Second)
		for i, u := range updates {
			done(i, &cable.SwitchError{Bridge: u.Bridge, Op: "set flows", Err: errors.New("no answer"), Unknown: true, Retryable: true})
		}
	}()
}

func TestAChangeBehindARepairThatHangs(t *testing.T) {
	var h hanging
	run(t, 1, func(sw *simswitch.Switch, cfg *engine.Config) {
		h.Switch = sw
		cfg.Switch = &h
	}, func(b *bench) {
		h.now.Store(true)
		b.sw.Restart()
		time.Sleep(100 * time.Millisecond)
		started := time.Now()
		if res := b.do(0, toggle); res.Err == nil || time.Since(started) > 3*time.Second {
			t.Errorf("%v after %v of fake time, want a failure within the timeout", res.Err, time.Since(started))
		}
		h.now.Store(false)
		time.Sleep(20 * time.Second)
		b.wantMux(0, upper, 0, "")
	})
}

// An agent that is told to stop while it starts puts back what its own preparation removed.
func TestStopDuringTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, err := cable.NewNames("vms17-8")
		if err != nil {
			t.Fatal(err)
		}
		sw := simswitch.New(names, 3)
		sw.DelFlows(names.Bridge(1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e := engine.New(engine.Config{Names: names, Switch: sw, Log: slog.New(slog.DiscardHandler)})
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := sw.Inject(names.Bridge(1), "enp59s0f1.3217"); !slices.Equal(got, []string{names.NIC(1)}) {
			t.Errorf("a packet from the upper ToR comes out at %v, want the NIC", got)
		}
	})
}
