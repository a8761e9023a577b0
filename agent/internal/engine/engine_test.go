package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an engine that runs on a simulated switch, in a synctest bubble.
type bench struct {
	*testing.T
	*engine.Engine
	sw     *simswitch.Switch
	names  *cable.Names
	cancel context.CancelFunc
	ended  chan error
}

// run runs test on an engine with n ports, on fake time.
func run(t *testing.T, n int, prepare func(*simswitch.Switch, *engine.Config), test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		names, err := cable.NewNames("vms17-8")
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, sw: simswitch.New(names, n), names: names, ended: make(chan error, 1)}
		cfg := engine.Config{Names: names, Switch: b.sw, Log: slog.New(slog.DiscardHandler)}
		if prepare != nil {
			prepare(b.sw, &cfg)
		}
		b.Engine = engine.New(cfg)
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(context.Background())
		go func() { b.ended <- b.Engine.Run(ctx) }()
		synctest.Wait()
		test(b)
		b.cancel()
		if err := <-b.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func (b *bench) bridge(i int) string { return b.names.Bridge(i) }

func (b *bench) do(i int, c cable.Change) engine.Result {
	return b.Do(context.Background(), map[int]cable.Change{i: c}, engine.Origin{Cause: engine.API})[i]
}

// wantMux compares a mux with what is expected, and its state with where packets go.
func (b *bench) wantMux(i int, state cable.State, flaps int, reason string) {
	b.Helper()
	s := b.Snapshot(i)
	if s == nil {
		b.Fatalf("mux %d is not served", i)
	}
	if s.State != state || s.Flaps != flaps || !strings.Contains(s.Reason, reason) || reason == "" && s.Reason != "" {
		b.Errorf("mux %d: %v, %d flaps, reason %q; want %v, %d, %q", i, s.State, s.Flaps, s.Reason, state, flaps, reason)
	}
	if reason != "" {
		return
	}
	m := cabletest.Mux{Bridge: s.Bridge, NIC: s.Ports[cable.NIC].Name, Upper: s.Ports[cable.Upper].Name, Lower: s.Ports[cable.Lower].Name}
	cabletest.Switch(b.sw.Inject).Check(b, m, state.Active.String(), switchtest.Names(state.Dropped)...)
}

var (
	toggle = cable.Change{Move: cable.MoveToggle}
	upper  = cable.State{}
	lower  = cable.State{Active: cable.LowerToR}
	nic    = cable.RolesOf(cable.NIC)
)

func TestNotReadyBeforeTheFirstFullRead(t *testing.T) {
	var resume func()
	prepare := func(sw *simswitch.Switch, _ *engine.Config) { resume = sw.Stall() }
	run(t, 2, prepare, func(b *bench) {
		time.Sleep(10 * time.Second)
		if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "the switch does not answer") {
			b.Errorf("Ready() = %v, want the reason", err)
		}
		if len(b.Snapshots()) != 0 {
			b.Error("muxes are served that were never read")
		}
		resume()
		time.Sleep(10 * time.Second)
		if err := b.Ready(); err != nil {
			b.Errorf("Ready() = %v after the switch came back", err)
		}
		b.wantMux(1, upper, 0, "")
	})
}

func TestDropsAtTheStart(t *testing.T) {
	for keep, want := range map[bool]cable.State{false: lower, true: {Active: cable.LowerToR, Dropped: nic}} {
		prepare := func(sw *simswitch.Switch, cfg *engine.Config) {
			cfg.KeepDrops = keep
			sw.DelFlows("mbr-vms17-8-0")
			sw.AddFlow("mbr-vms17-8-0", 0, "muxy-vms17-8-0", "enp59s0f1.3216", "enp59s0f1.3217")
			sw.AddFlow("mbr-vms17-8-0", 0, "enp59s0f1.3217") // as a dropped NIC is left: the side is known
		}
		run(t, 1, prepare, func(b *bench) { b.wantMux(0, want, 0, "") })
	}
}

func TestEveryMuxIsTriedAndEachFailureNamed(t *testing.T) {
	run(t, 40, nil, func(b *bench) {
		b.sw.FailNext(b.bridge(11), "OFPFMFC_TABLE_FULL")
		b.sw.FailNext(b.bridge(29), "OFPFMFC_TABLE_FULL")
		changes := map[int]cable.Change{}
		for i := range 40 {
			changes[i] = toggle
		}
		changes[99] = toggle
		results := b.Do(context.Background(), changes, engine.Origin{Cause: engine.API})
		for i := range 40 {
			err := results[i].Err
			if i != 11 && i != 29 {
				if err != nil {
					b.Errorf("mux %d: %v", i, err)
				}
				b.wantMux(i, lower, 1, "")
				continue
			}
			if err == nil || err.Error() != "set flows on "+b.bridge(i)+": OFPFMFC_TABLE_FULL" {
				b.Errorf("mux %d: %v, want the switch's own words", i, err)
			}
			b.wantMux(i, upper, 0, "") // the old flows and the old state stand
		}
		if err := results[99].Err; !errors.Is(err, engine.ErrUnknownPort) {
			b.Errorf("port 99: %v, want ErrUnknownPort", err)
		}
		// The retry of a failed change is an ordinary change.
		if res := b.do(11, toggle); res.Err != nil || res.Snapshot.State != lower {
			b.Errorf("retry: %+v", res)
		}
	})
}

func TestFlapRules(t *testing.T) {
	run(t, 1, func(_ *simswitch.Switch, cfg *engine.Config) {
		cfg.Random = func() cable.Side { return cable.LowerToR }
	}, func(b *bench) {
		for _, step := range []struct {
			change cable.Change
			state  cable.State
			flaps  int
		}{
			{cable.Change{Move: cable.MoveTo, Side: cable.UpperToR}, upper, 0},
			{cable.Change{Move: cable.MoveRandom}, lower, 1},
			{cable.Change{Move: cable.MoveRandom}, lower, 1},
			{cable.Change{Drop: nic}, cable.State{Active: cable.LowerToR, Dropped: nic}, 1},
			{toggle, cable.State{Dropped: nic}, 2},
			{cable.Change{Output: nic}, upper, 2},
			{cable.Reset(), upper, 2},
			{cable.Change{}, upper, 2},
		} {
			if res := b.do(0, step.change); res.Err != nil {
				b.Fatal(res.Err)
			}
			b.wantMux(0, step.state, step.flaps, "")
		}
		snaps, err := b.ClearFlaps([]int{0})
		if err != nil || len(snaps) != 1 || snaps[0].Flaps != 0 {
			b.Errorf("ClearFlaps: %v, %v", snaps, err)
		}
		b.do(0, toggle)
		if _, err := b.ClearFlaps([]int{0, 7}); !errors.Is(err, engine.ErrUnknownPort) {
			b.Errorf("ClearFlaps with an unknown port: %v", err)
		}
		b.wantMux(0, lower, 1, "") // and nothing was cleared
	})
}

func TestAHungSwitchAppliesLate(t *testing.T) {
	run(t, 2, nil, func(b *bench) {
		resume := b.sw.Stall()
		started := time.Now()
		res := b.do(0, toggle)
		var refused *cable.SwitchError
		if !errors.As(res.Err, &refused) || !refused.Unknown {
			b.Fatalf("err = %v, want an unknown outcome", res.Err)
		}
		if took := time.Since(started); took > 3*time.Second {
			b.Errorf("it took %v of fake time, want the timeout", took)
		}
		b.wantMux(0, upper, 0, "it is not known whether the last change was applied")
		b.wantMux(1, upper, 0, "")
		resume()
		time.Sleep(5 * time.Second)
		b.wantMux(0, lower, 1, "") // published under the request that asked for it
	})
}

func TestNothingPilesUpBehindAHungSwitch(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		resume := b.sw.Stall()
		started := time.Now()
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() {
				if res := b.do(0, toggle); res.Err == nil {
					b.Error("a change of a hung switch succeeded")
				}
			})
		}
		waiting.Wait()
		if took := time.Since(started); took > 10*time.Second {
			b.Errorf("100 changes took %v of fake time", took)
		}
		resume()
		time.Sleep(10 * time.Second)
		if res := b.do(0, cable.Change{Move: cable.MoveTo, Side: cable.LowerToR}); res.Err != nil {
			b.Error(res.Err)
		}
		s := b.Snapshot(0)
		b.wantMux(0, lower, s.Flaps, "")
	})
}

func TestAChangeIsGivenUpOnlyBeforeItStarts(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		resume := b.sw.Stall()
		ctx, cancel := context.WithCancel(context.Background())
		first, second := make(chan engine.Result, 1), make(chan engine.Result, 1)
		do := func(answer chan engine.Result) {
			answer <- b.Do(ctx, map[int]cable.Change{0: toggle}, engine.Origin{Cause: engine.API})[0]
		}
		go do(first)
		synctest.Wait()
		go do(second)
		synctest.Wait()
		cancel()
		resume()
		if res := <-first; res.Err != nil {
			b.Errorf("the change that had started: %v", res.Err)
		}
		if res := <-second; !errors.Is(res.Err, context.Canceled) {
			b.Errorf("the change in the queue: %v, want it given up", res.Err)
		}
		b.wantMux(0, lower, 1, "")
	})
}

func TestStopFinishesWhatStartedAndStartsNothing(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		resume := b.sw.Stall()
		started := make(chan engine.Result, 1)
		go func() { started <- b.do(0, toggle) }()
		synctest.Wait()
		b.cancel()
		synctest.Wait()
		late := make(chan engine.Result, 1)
		go func() { late <- b.do(0, toggle) }()
		synctest.Wait()
		resume()
		if res := <-started; res.Err != nil {
			b.Errorf("the change under way: %v", res.Err)
		}
		if res := <-late; !errors.Is(res.Err, engine.ErrStopping) {
			b.Errorf("a change after the stop: %v, want it refused", res.Err)
		}
		b.wantMux(0, lower, 1, "")
	})
}

func TestWhatAPersonDoesIsAdoptedAndNotFought(t *testing.T) {
	const bridge, muxy, up, low = "mbr-vms17-8-0", "muxy-vms17-8-0", "enp59s0f1.3216", "enp59s0f1.3217"
	tests := []struct {
		name   string
		act    func(*simswitch.Switch)
		want   cable.State
		reason string
	}{
		{"flushed", func(sw *simswitch.Switch) { sw.DelFlows(bridge) }, cable.State{Active: cable.LowerToR, Dropped: cable.AllRoles}, ""},
		{"switched by hand", func(sw *simswitch.Switch) {
			sw.DelFlows(bridge)
			sw.AddFlow(bridge, 0, muxy, up, low)
			sw.AddFlow(bridge, 0, up, muxy)
		}, upper, ""},
		{"doubled", func(sw *simswitch.Switch) { sw.AddFlow(bridge, 0, up, muxy) }, lower, "packets of both ToRs reach the NIC"},
		{"foreign", func(sw *simswitch.Switch) {
			sw.AddRawFlow(bridge, cable.Flow{Priority: 40000, Match: "arp", Action: cable.Normal + "x"})
		}, lower, "foreign flow: priority=40000,arp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, 1, nil, func(b *bench) {
				b.do(0, toggle)
				tt.act(b.sw)
				time.Sleep(time.Second)
				b.wantMux(0, tt.want, 1, tt.reason) // no flap of ours
				if res := b.do(0, cable.Reset()); res.Err != nil {
					b.Fatal(res.Err)
				}
				time.Sleep(time.Second)
				b.wantMux(0, cable.State{Active: tt.want.Active}, 1, "")
			})
		})
	}
}

func TestWhatTheSwitchLostIsPutBack(t *testing.T) {
	const bridge = "mbr-vms17-8-0"
	t.Run("NORMAL", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			b.do(0, toggle)
			b.sw.DelFlows(bridge)
			b.sw.AddRawFlow(bridge, cable.Flow{Action: cable.Normal})
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "")
		})
	})
	t.Run("device gone and back under a new number", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			b.do(0, toggle)
			b.sw.BreakPort(bridge, "muxy-vms17-8-0")
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "could not open network device muxy-vms17-8-0")
			if res := b.do(0, toggle); res.Err == nil || !strings.Contains(res.Err.Error(), "No such device") {
				b.Errorf("toggle without the NIC: %v, want the reason", res.Err)
			}
			b.sw.MendPort(bridge, "muxy-vms17-8-0")
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "")
		})
	})
	t.Run("port removed and added", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			b.do(0, toggle)
			b.sw.RemovePort(bridge, "enp59s0f1.3217")
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "it has 2 ports")
			b.sw.AddPort(bridge, "enp59s0f1.3217")
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "")
		})
	})
}

func TestBridgesComeAndGo(t *testing.T) {
	run(t, 2, nil, func(b *bench) {
		b.sw.RemoveBridge(b.bridge(0))
		time.Sleep(time.Second)
		if b.Snapshot(0) != nil {
			b.Error("a deleted bridge is still served")
		}
		if res := b.do(0, toggle); !errors.Is(res.Err, engine.ErrUnknownPort) {
			b.Errorf("change of a deleted bridge: %v", res.Err)
		}

		// The testbed's script builds a bridge step by step; it is served when it stands still.
		b.sw.AddBridge(b.bridge(5), "muxy-vms17-8-5", "u", "v")
		time.Sleep(500 * time.Millisecond)
		b.sw.AddFlow(b.bridge(5), 0, "muxy-vms17-8-5", "u", "v")
		b.sw.AddFlow(b.bridge(5), 0, "v", "muxy-vms17-8-5")
		time.Sleep(900 * time.Millisecond)
		if b.Snapshot(5) != nil {
			b.Error("a bridge is served while it is being built")
		}
		time.Sleep(3 * time.Second)
		b.wantMux(5, lower, 0, "")

		b.sw.AddBridge("mb-vms17-8-1", "mux-vms17-8-1", "x", "y")
		b.sw.AddBridge(b.bridge(7), "muxy-vms17-8-7")
		time.Sleep(3 * time.Second)
		var got []string
		for _, r := range b.Rejected() {
			got = append(got, r.Bridge+": "+r.Reason)
		}
		want := []string{
			"mb-vms17-8-1: port index 1 is served by bridge mbr-vms17-8-1",
			"mbr-vms17-8-7: it has 1 ports (muxy-vms17-8-7), a mux has 3",
		}
		if !slices.Equal(got, want) {
			b.Errorf("rejected: %q, want %q", got, want)
		}
		if err := b.Reload(context.Background()); err != nil {
			b.Fatal(err)
		}
		if len(b.Snapshots()) != 2 || len(b.Rejected()) != 2 {
			b.Errorf("after a reload: %d muxes, %d rejected; want 2 and 2", len(b.Snapshots()), len(b.Rejected()))
		}
	})
}

func TestReloadKeepsCountersAndRacesWithNothing(t *testing.T) {
	run(t, 4, nil, func(b *bench) {
		all := map[int]cable.Change{0: toggle, 1: toggle, 2: toggle, 3: toggle}
		var running sync.WaitGroup
		for range 10 {
			running.Go(func() { b.Do(context.Background(), all, engine.Origin{Cause: engine.API}) })
			running.Go(func() {
				if err := b.Reload(context.Background()); err != nil {
					b.Error(err)
				}
			})
		}
		running.Wait()
		for i := range 4 {
			b.wantMux(i, upper, 10, "")
		}
	})
}

func TestReadersDoNotWaitForAChange(t *testing.T) {
	run(t, 3, nil, func(b *bench) {
		resume := b.sw.Stall()
		answered := make(chan engine.Result, 1)
		go func() { answered <- b.do(0, toggle) }()
		synctest.Wait()
		started := time.Now()
		if len(b.Snapshots()) != 3 || b.Snapshot(0).State != upper {
			b.Error("the last state is not shown during a change")
		}
		if time.Since(started) != 0 {
			b.Error("a reader waited")
		}
		resume()
		<-answered
	})
}

// events of port 0 as "from → to (cause client req_id)".
func (b *bench) history(i int) []string {
	var lines []string
	for _, ev := range b.History(i) {
		lines = append(lines, strings.TrimSpace(ev.From.String()+" → "+ev.To.String()+" by "+string(ev.Cause)+" "+ev.Client+" "+ev.ReqID))
	}
	return lines
}

func TestEveryChangeHasAnEventWithItsCause(t *testing.T) {
	run(t, 2, nil, func(b *bench) {
		by := engine.Origin{Cause: engine.API, Client: "10.0.0.7", ReqID: "5d1f"}
		b.Do(context.Background(), map[int]cable.Change{0: toggle}, by)
		b.do(0, cable.Change{Move: cable.MoveTo, Side: cable.LowerToR}) // no change, no event
		b.sw.DelFlows(b.bridge(0))
		time.Sleep(time.Second)
		b.do(0, cable.Reset())
		b.sw.AddRawFlow(b.bridge(0), cable.Flow{Action: cable.Normal})
		time.Sleep(time.Second)
		b.sw.RemoveBridge(b.bridge(0))
		time.Sleep(time.Second)
		normal := "packets from upper_tor (enp59s0f1.3216) do not simply go to the NIC; foreign flow: priority=0 actions=NORMAL"
		want := []string{
			"none → upper_tor by external",
			"upper_tor → lower_tor by api 10.0.0.7 5d1f",
			"lower_tor → lower_tor, dropped nic,upper_tor,lower_tor by external",
			"lower_tor, dropped nic,upper_tor,lower_tor → lower_tor by api",
			"lower_tor → lower_tor: " + normal + " by recovery",
			"lower_tor: " + normal + " → lower_tor by recovery",
			"lower_tor → none by external",
		}
		if got := b.history(0); !slices.Equal(got, want) {
			b.Errorf("history:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := b.history(1); !slices.Equal(got, want[:1]) {
			b.Errorf("history of the other mux: %q", got)
		}
	})
}

func TestEventsAfter(t *testing.T) {
	run(t, 2, nil, func(b *bench) {
		all, last, complete := b.EventsAfter(0)
		if len(all) != 2 || complete || all[1].Seq != last || last != all[0].Seq+1 {
			b.Fatalf("%d events to %d, complete %v; want two, of another life for a reader from 0", len(all), last, complete)
		}
		news := b.NewEvents(last)
		select {
		case <-news:
			b.Fatal("there is nothing new")
		default:
		}
		b.do(0, toggle)
		<-news
		<-b.NewEvents(last)
		evs, next, complete := b.EventsAfter(last)
		if len(evs) != 1 || !complete || next != last+1 || evs[0].To.State != lower {
			b.Errorf("after one toggle: %+v to %d, complete %v", evs, next, complete)
		}
		for range 6000 {
			b.do(0, toggle)
		}
		if evs, _, complete := b.EventsAfter(last); complete || len(evs) < 4096 || len(evs) > 5120 {
			b.Errorf("after 6000 toggles: %d events, complete %v; want the last 4096 and some", len(evs), complete)
		}
		if evs, next, complete := b.EventsAfter(next + 5999); len(evs) != 1 || !complete || evs[0].Seq != next {
			b.Errorf("the last one: %d events, complete %v", len(evs), complete)
		}
		if _, _, complete := b.EventsAfter(next + 1_000_000); complete {
			b.Error("a number that was never given is complete")
		}
		if got := len(b.History(0)); got != 100 {
			b.Errorf("history has %d events, want 100", got)
		}
		if got := len(b.History(1)); got != 1 {
			b.Errorf("the history of another mux has %d events, want its own", got)
		}
	})
}
