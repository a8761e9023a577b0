package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/child"
)

const (
	bridge0 = "mbr-vms17-8-0"
	nic0    = "muxy-vms17-8-0"
	upper0  = "enp59s0f1.3216"
	lower0  = "enp59s0f1.3217"
)

// wantCode wants a mux in a state, with a condition as its worst, and a packet of the active ToR to reach the server or not.
func (b *bench) wantCode(state cable.State, code string, passes bool) {
	b.Helper()
	s := b.Snapshot(0)
	if s == nil {
		b.Fatal("mux 0 is not served")
	}
	got := ""
	if len(s.Conditions) > 0 {
		got = s.Conditions[0].Code
	}
	if s.State != state || got != code {
		b.Errorf("%v, %q; want %v, %q", s.State, got, state, code)
	}
	if got := slices.Contains(b.sw.Inject(s.Bridge, s.Ports[state.Active.Role()].Name), nic0); got != passes {
		b.Errorf("a packet of the %s reaches the server: %v, want %v", state.Active, got, passes)
	}
}

// A ToR whose device is gone takes nothing from the other: neither its way, nor a change of side, nor a restart.
func TestAMissingPortDisablesNothing(t *testing.T) {
	t.Run("at a start", func(t *testing.T) {
		run(t, 1, func(sw *simswitch.Switch, _ *engine.Config) {
			sw.DelFlows(bridge0)
			sw.AddFlow(bridge0, 0, nic0, upper0, lower0)
			sw.AddFlow(bridge0, 0, lower0, nic0)
			sw.BreakPort(bridge0, upper0)
		}, func(b *bench) {
			b.wantCode(lower, api.ConditionStandbyMissing, true)
			b.sw.MendPort(bridge0, upper0)
			time.Sleep(time.Second)
			b.wantMux(0, lower, 0, "")
		})
	})
	for _, port := range []string{nic0, upper0, lower0} {
		t.Run(port, func(t *testing.T) {
			run(t, 1, nil, func(b *bench) {
				// What is missing concerns the active way, or the standby ToR alone.
				wantMissing := func(state cable.State) {
					t.Helper()
					standby := port == lower0 && state.Active == cable.UpperToR || port == upper0 && state.Active == cable.LowerToR
					code := map[bool]string{false: api.ConditionPortMissing, true: api.ConditionStandbyMissing}[standby]
					b.wantCode(state, code, standby)
					if got := b.Snapshot(0).Healthy(); got != standby {
						t.Errorf("%v without %s: healthy %v, want %v", state, port, got, standby)
					}
				}
				b.sw.BreakPort(bridge0, port)
				time.Sleep(time.Second)
				wantMissing(upper)
				for _, to := range []cable.State{lower, upper, lower} {
					res := b.do(0, cable.Change{Move: cable.MoveTo, Side: to.Active})
					if res.Err != nil {
						t.Errorf("to %v: %v", to, res.Err)
					}
					wantMissing(to)
				}
				b.sw.Restart()
				time.Sleep(time.Second)
				wantMissing(lower)
				dropped := cable.State{Active: cable.LowerToR, Dropped: cable.RolesOf(cable.Upper)}
				if res := b.do(0, cable.Change{Drop: cable.RolesOf(cable.Upper)}); res.Err != nil || res.Snapshot.State != dropped {
					t.Errorf("drop: %v, %v", res.Err, res.Snapshot.State)
				}
				if res := b.do(0, cable.Reset()); res.Err != nil || res.Snapshot.State != lower {
					t.Errorf("reset: %v, %v", res.Err, res.Snapshot.State)
				}
				b.sw.MendPort(bridge0, port)
				time.Sleep(time.Second)
				b.wantMux(0, lower, 3, "")
			})
		})
	}
}

// What a placeholder holds outlives the agent.
func TestASideThatWaitsForItsPortOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, err := cable.NewNames("vms17-8")
		if err != nil {
			t.Fatal(err)
		}
		sw := simswitch.New(names, 1)
		start := func() (*engine.Engine, func()) {
			e := engine.New(engine.Config{Names: names, Switch: sw, Log: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			synctest.Wait()
			return e, func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		e, stop := start()
		sw.BreakPort(bridge0, lower0)
		time.Sleep(time.Second)
		if res := e.Do(t.Context(), map[int]cable.Change{0: toggle}, engine.Origin{Cause: engine.API})[0]; res.Err != nil {
			t.Fatal(res.Err)
		}
		stop()
		e, stop = start()
		defer func() { stop() }()
		if got := e.Snapshot(0).State; got != lower {
			t.Errorf("after a restart it is %v, want the side that was asked for", got)
		}
		sw.MendPort(bridge0, lower0)
		time.Sleep(time.Second)
		if got := sw.Inject(bridge0, lower0); !slices.Equal(got, []string{nic0}) || !e.Snapshot(0).Healthy() {
			t.Errorf("with its port back: a packet comes out at %v, healthy %v", got, e.Snapshot(0).Healthy())
		}
	})
}

// A repeat after a restart of the agent, or of one whose first call landed late, changes nothing.
func TestARepeatIsKnownByWhatTheSwitchSays(t *testing.T) {
	by := func(id string) engine.Origin { return engine.Origin{Cause: engine.API, ReqID: id} }
	ask := func(e *engine.Engine, id string, c cable.Change) engine.Result {
		return e.Do(context.Background(), map[int]cable.Change{0: c}, by(id))[0]
	}
	for name, change := range map[string]cable.Change{
		"toggle": toggle, "random that draws the side that is": {Move: cable.MoveRandom}, "drop": {Drop: nic},
	} {
		t.Run(name, func(t *testing.T) {
			var sw *simswitch.Switch
			run(t, 1, func(s *simswitch.Switch, cfg *engine.Config) {
				sw = s
				cfg.Random = func() cable.Side { return cable.UpperToR }
			}, func(b *bench) {
				first := ask(b.Engine, "a", change).Snapshot.State
				time.Sleep(time.Minute)
				again := engine.New(engine.Config{
					Names: b.names, Switch: sw, Log: slog.New(slog.DiscardHandler), KeepDrops: true,
					Random: func() cable.Side { return cable.LowerToR },
				})
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- again.Run(ctx) }()
				synctest.Wait()
				if res := ask(again, "a", change); res.Err != nil || res.Snapshot.State != first {
					t.Errorf("the repeat: %v, %v; want %v", res.Err, res.Snapshot.State, first)
				}
				ask(again, "b", cable.Change{Move: cable.MoveTo, Side: cable.LowerToR, Output: nic})
				if res := ask(again, "a", change); res.Snapshot.State != lower {
					t.Errorf("the repeat undid what another did since: %v", res.Snapshot.State)
				}
				time.Sleep(engine.RememberRequests)
				if change == toggle {
					if res := ask(again, "a", toggle); res.Snapshot.State != upper {
						t.Errorf("after ten minutes it is no repeat: %v", res.Snapshot.State)
					}
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("of a request that is forgotten", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			drop := cable.Change{Drop: nic}
			ask(b.Engine, "a", drop)
			time.Sleep(engine.RememberRequests + time.Minute)
			if err := b.Reload(t.Context()); err != nil { // which ends drops
				t.Fatal(err)
			}
			if res := ask(b.Engine, "a", drop); res.Snapshot.State.Dropped != nic {
				t.Errorf("a reload has brought a request back that was made long ago: %v", res.Snapshot.State)
			}
		})
	})
	t.Run("landed late", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			resume := b.sw.Stall()
			if res := ask(b.Engine, "a", toggle); res.Err == nil {
				t.Fatal("a hung switch confirmed a change")
			}
			resume()
			time.Sleep(10 * time.Second)
			b.wantMux(0, lower, 1, "")
			ask(b.Engine, "other", cable.Change{Move: cable.MoveTo, Side: cable.UpperToR})
			if res := ask(b.Engine, "a", toggle); res.Err != nil || res.Snapshot.State != upper {
				t.Errorf("the repeat: %v, %v; want it done, and what another did since kept", res.Err, res.Snapshot.State)
			}
			b.wantMux(0, upper, 2, "")
		})
	})
}

func TestFlowRestoreWait(t *testing.T) {
	t.Run("of a running agent", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			b.do(0, toggle)
			b.sw.SetRestoreWait(true)
			time.Sleep(time.Second)
			b.wantCode(lower, api.ConditionRestoreWaitSet, true) // it does nothing before the next restart
			if !b.Snapshot(0).Healthy() {
				t.Error("unhealthy, though all passes")
			}
			b.sw.Restart()
			time.Sleep(time.Second)
			b.wantCode(lower, api.ConditionRestoring, false)
			if res := b.do(0, toggle); !errors.Is(res.Err, engine.ErrRestoring) {
				t.Errorf("a change meanwhile: %v, want it to be tried again", res.Err)
			}
			// The script restores what it saved before the last toggle.
			b.sw.AddFlow(bridge0, 0, nic0, upper0, lower0)
			b.sw.AddFlow(bridge0, 0, upper0, nic0)
			time.Sleep(time.Second)
			b.wantCode(lower, api.ConditionRestoring, false)
			b.sw.SetRestoreWait(false)
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "")
		})
	})
	t.Run("that nobody removes", func(t *testing.T) {
		run(t, 1, nil, func(b *bench) {
			b.sw.SetRestoreWait(true)
			b.sw.Restart()
			time.Sleep(31 * time.Second)
			if res := b.do(0, toggle); res.Err != nil || res.Snapshot.Healthy() || res.Snapshot.State != lower {
				t.Errorf("a change after half a minute: %+v, want it written, unhealthy", res)
			}
			b.wantCode(lower, api.ConditionRestoring, false)
			b.sw.SetRestoreWait(false)
			time.Sleep(time.Second)
			b.wantMux(0, lower, 1, "")
		})
	})
	t.Run("at the start of the agent", func(t *testing.T) {
		run(t, 1, func(sw *simswitch.Switch, _ *engine.Config) {
			sw.SetRestoreWait(true)
			sw.Restart()
		}, func(b *bench) {
			time.Sleep(time.Second)
			if why := b.NotReady(); why == nil || why.Code != api.NotReadyRestoring {
				t.Errorf("not ready because of %v, want %s", why, api.NotReadyRestoring)
			}
			b.sw.AddFlow(bridge0, 0, nic0, upper0, lower0)
			b.sw.AddFlow(bridge0, 0, lower0, nic0)
			b.sw.SetRestoreWait(false)
			time.Sleep(time.Second)
			b.wantMux(0, lower, 0, "") // what the script restored
		})
	})
	t.Run("set for long at the start of the agent", func(t *testing.T) {
		run(t, 1, func(sw *simswitch.Switch, _ *engine.Config) {
			time.Sleep(time.Minute)
			sw.SetRestoreWait(true)
		}, func(b *bench) {
			b.wantCode(upper, api.ConditionRestoreWaitSet, true)
			if res := b.do(0, toggle); res.Err != nil || !res.Snapshot.Healthy() {
				t.Errorf("a change: %+v, want it as usual", res)
			}
		})
	})
}

// Absence is not a wish: what the switch lost is missing, and the next change writes it.
func TestAFlushIsNoDrop(t *testing.T) {
	for _, change := range []cable.Change{{Move: cable.MoveTo, Side: cable.LowerToR}, cable.Reset(), {Move: cable.MoveTo}} {
		run(t, 1, nil, func(b *bench) {
			b.sw.DelFlows(bridge0)
			time.Sleep(time.Second)
			b.wantCode(upper, api.ConditionFlowsMissing, false)
			res := b.do(0, change)
			if res.Err != nil || !res.Snapshot.Healthy() {
				t.Errorf("%+v: %+v", change, res)
			}
			b.wantCode(cable.State{Active: change.Side}, "", true)
			b.sw.Restart()
			time.Sleep(time.Second)
			b.wantCode(cable.State{Active: change.Side}, "", true)
		})
	}
}

// A flow of ours that will time out is not a proper one, and the same side set again writes it anew.
func TestAFlowThatTimesOutIsWrittenAnew(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		timed := b.mustRead().Flows[1]
		timed.HardTimeout = 60
		b.sw.AddRawFlow(bridge0, timed)
		time.Sleep(time.Second)
		b.wantCode(upper, api.ConditionForeignFlow, true)
		if res := b.do(0, cable.Change{Move: cable.MoveTo}); res.Err != nil || !res.Snapshot.Healthy() {
			t.Errorf("the same side again: %+v", res)
		}
		for _, e := range b.mustRead().Flows {
			if e.HardTimeout != 0 {
				t.Errorf("%v still times out", e)
			}
		}
	})
}

func TestPortsThatDoNotPass(t *testing.T) {
	for name, set := range map[string]func(*cable.Port){
		"down":          func(p *cable.Port) { p.Down = true },
		"no-receive":    func(p *cable.Port) { p.NoReceive = true },
		"spanning tree": func(p *cable.Port) { p.Blocked = "listening" },
	} {
		run(t, 1, nil, func(b *bench) {
			b.sw.SetPort(bridge0, upper0, set)
			time.Sleep(time.Second)
			b.wantCode(upper, api.ConditionPortBlocked, false)
			if b.Snapshot(0).Healthy() {
				t.Errorf("%s: healthy, though nothing passes", name)
			}
			events := len(b.history(0))
			b.do(0, cable.Reset())
			b.wantCode(upper, api.ConditionPortBlocked, false) // shown, not fought
			b.sw.SetPort(bridge0, upper0, func(p *cable.Port) { p.Down, p.NoReceive, p.Blocked = false, false, "" })
			time.Sleep(time.Second)
			b.wantMux(0, upper, 0, "")
			if got := len(b.history(0)) - events; got != 1 {
				t.Errorf("%s: %d events for its end, want one", name, got)
			}
		})
	}
}

// stuck is a log that nobody reads.
type stuck struct {
	slog.Handler
	free chan struct{}
}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }
func (s stuck) Handle(ctx context.Context, r slog.Record) error {
	<-s.free
	return s.Handler.Handle(ctx, r)
}

// A log that takes nothing keeps no change waiting, and says what it missed when it goes on.
func TestAStuckLogKeepsNobodyWaiting(t *testing.T) {
	var text child.Output
	var free chan struct{}
	run(t, 2, func(_ *simswitch.Switch, cfg *engine.Config) {
		free = make(chan struct{})
		cfg.Log = slog.New(stuck{slog.NewTextHandler(&text, nil), free})
	}, func(b *bench) {
		started := time.Now()
		for range 6000 {
			if res := b.do(0, toggle); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("the changes waited %v for the log", took)
		}
		close(free)
		synctest.Wait()
	})
	if got := text.String(); !strings.Contains(got, "the log was too slow for events") || !strings.Contains(got, "missed=") {
		t.Errorf("nothing is said of what the log missed:\n%.300s", got)
	}
}
