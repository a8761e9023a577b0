package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
)

// scripted is a switch where something happens right after it was read, and is told before the reader goes on.
type scripted struct {
	*simswitch.Switch
	afterDiscover, afterRead, beforeApply scene
}

func (s *scripted) Discover(ctx context.Context) ([]cable.Sight, error) {
	sights, err := s.Switch.Discover(ctx)
	s.afterDiscover.play("")
	return sights, err
}

func (s *scripted) Read(ctx context.Context, bridge string) (cable.Sight, error) {
	sight, err := s.Switch.Read(ctx, bridge)
	s.afterRead.play(bridge)
	return sight, err
}

func (s *scripted) Apply(updates []cable.Update, done func(int, error)) {
	s.beforeApply.play("")
	s.Switch.Apply(updates, done)
}

// A scene is played once.
type scene struct {
	atomic.Pointer[func(bridge string)]
}

func (s *scene) set(f func(bridge string)) { s.Store(&f) }

func (s *scene) play(bridge string) {
	if f := s.Swap(nil); f != nil {
		(*f)(bridge)
		time.Sleep(time.Millisecond) // of fake time: whoever watches has seen it
	}
}

func runScripted(t *testing.T, n int, test func(*bench, *scripted)) {
	t.Helper()
	var s scripted
	run(t, n, func(sw *simswitch.Switch, cfg *engine.Config) {
		s.Switch = sw
		cfg.Switch = &s
	}, func(b *bench) { test(b, &s) })
}

func (b *bench) mustReload() {
	b.Helper()
	if err := b.Reload(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) addMux(i int) {
	b.sw.AddBridge(b.bridge(i), b.names.NIC(i), "u", "v")
	b.sw.AddFlow(b.bridge(i), 0, b.names.NIC(i), "u", "v")
	b.sw.AddFlow(b.bridge(i), 0, "v", b.names.NIC(i))
}

func (b *bench) wantGone(i int) {
	b.Helper()
	if s := b.Snapshot(i); s != nil {
		b.Errorf("mux %d is served though its bridge is gone: phase %v, %v; %q", i, s.State, s.Conditions, b.history(i))
	}
}

func TestWhatGoesDuringAReloadIsNotServed(t *testing.T) {
	t.Run("a new bridge", func(t *testing.T) {
		runScripted(t, 1, func(b *bench, s *scripted) {
			b.addMux(1)
			s.afterDiscover.set(func(string) { b.sw.RemoveBridge(b.bridge(1)) })
			b.mustReload()
			time.Sleep(time.Minute)
			b.wantGone(1)
		})
	})
	t.Run("a new bridge, while the reload waits for another", func(t *testing.T) {
		runScripted(t, 1, func(b *bench, s *scripted) {
			b.sw.DelFlows(b.bridge(0)) // to be repaired
			b.addMux(1)
			s.beforeApply.set(func(string) { b.sw.RemoveBridge(b.bridge(1)) })
			b.mustReload()
			if s.beforeApply.Load() != nil {
				t.Fatal("nothing was written, so the reload waited for nothing")
			}
			time.Sleep(time.Minute)
			b.wantGone(1)
			b.wantMux(0, upper, 0, "")
		})
	})
	t.Run("a served bridge", func(t *testing.T) {
		runScripted(t, 2, func(b *bench, s *scripted) {
			s.afterDiscover.set(func(string) { b.sw.RemoveBridge(b.bridge(1)) })
			b.mustReload()
			time.Sleep(time.Second)
			b.wantGone(1)
		})
	})
	t.Run("a rejected bridge", func(t *testing.T) {
		runScripted(t, 1, func(b *bench, s *scripted) {
			b.sw.AddBridge(b.bridge(5), "muxy-vms17-8-5")
			time.Sleep(5 * time.Second)
			s.afterDiscover.set(func(string) { b.sw.RemoveBridge(b.bridge(5)) })
			b.mustReload()
			time.Sleep(time.Second)
			if got := b.Rejected(); len(got) != 0 {
				t.Errorf("rejected: %v, want none", got)
			}
		})
	})
	t.Run("a bridge that is new and rejected meanwhile", func(t *testing.T) {
		runScripted(t, 1, func(b *bench, s *scripted) {
			b.addMux(1)
			s.afterDiscover.set(func(string) { b.sw.RemovePort(b.bridge(1), "u") })
			b.mustReload()
			time.Sleep(time.Second)
			b.wantGone(1)
			if got := b.Rejected(); len(got) != 1 || got[0].Bridge != b.bridge(1) {
				t.Errorf("rejected: %v, want %s", got, b.bridge(1))
			}
		})
	})
}

// A new bridge whose first write fails is shown as what it is, is changed as any other, and heals.
func TestANewBridgeWhoseFirstWriteFails(t *testing.T) {
	runScripted(t, 1, func(b *bench, _ *scripted) {
		b.sw.AddBridge(b.bridge(1), b.names.NIC(1), "u", "v")
		b.sw.FailNext(b.bridge(1), "OFPFMFC_TABLE_FULL")
		b.mustReload()
		if b.Snapshot(1).Healthy() {
			t.Error("healthy without flows")
		}
		if res := b.do(1, toggle); res.Err != nil || res.Snapshot.State != lower {
			t.Errorf("a change right then: %+v", res)
		}
		time.Sleep(time.Minute)
		b.wantMux(1, lower, 1, "")
		b.sw.RemoveBridge(b.bridge(1))
		time.Sleep(time.Second)
		b.wantGone(1)
		b.addMux(1)
		time.Sleep(time.Minute)
		b.wantMux(1, lower, 0, "") // another one
	})
}

func TestANewbornBridge(t *testing.T) {
	t.Run("deleted while it is served first", func(t *testing.T) {
		runScripted(t, 0, func(b *bench, s *scripted) {
			b.addMux(0)
			s.afterRead.set(b.sw.RemoveBridge)
			time.Sleep(time.Minute)
			b.wantGone(0)
		})
	})
	t.Run("changed while it is served first", func(t *testing.T) {
		runScripted(t, 0, func(b *bench, s *scripted) {
			b.addMux(0)
			s.afterRead.set(func(bridge string) { b.sw.RemovePort(bridge, "u"); b.sw.AddPort(bridge, "w") })
			time.Sleep(time.Minute)
			if got := b.Snapshot(0).Ports; !slices.ContainsFunc(got[:], func(p cable.Port) bool { return p.Name == "w" }) {
				t.Errorf("served with the ports %v, want the one that came", got)
			}
			b.wantMux(0, b.Snapshot(0).State, 0, "")
		})
	})
	t.Run("of a port index that another bridge has, which goes", func(t *testing.T) {
		runScripted(t, 1, func(b *bench, _ *scripted) {
			b.sw.AddBridge("mb-vms17-8-0", "mux-vms17-8-0", "x", "y")
			time.Sleep(5 * time.Second)
			if got := b.Rejected(); len(got) != 1 || got[0].Code != "index_taken" {
				t.Errorf("rejected: %v, want the second bridge", got)
			}
			b.sw.RemoveBridge(b.bridge(0))
			time.Sleep(5 * time.Second)
			if s := b.Snapshot(0); s == nil || s.Bridge != "mb-vms17-8-0" || len(b.Rejected()) != 0 {
				t.Errorf("served: %+v, rejected: %v; want the other bridge served", s, b.Rejected())
			}
		})
	})
}

// A bridge that is made anew keeps the mux's side where nobody wrote flows, and has its own where somebody did.
func TestABridgeMadeAnew(t *testing.T) {
	for name, wrote := range map[string]bool{"as the factory made it": false, "with flows": true} {
		t.Run(name, func(t *testing.T) {
			run(t, 1, nil, func(b *bench) {
				b.do(0, cable.Change{Drop: nic})
				want := cable.State{Dropped: nic}
				ports := b.Snapshot(0).Ports
				b.sw.Swap(b.bridge(0), ports[cable.NIC].Name, ports[cable.Upper].Name, ports[cable.Lower].Name)
				if wrote {
					b.sw.AddFlow(b.bridge(0), 0, ports[cable.NIC].Name, ports[cable.Upper].Name, ports[cable.Lower].Name)
					b.sw.AddFlow(b.bridge(0), 0, ports[cable.Lower].Name, ports[cable.NIC].Name)
					want = lower
				}
				time.Sleep(500 * time.Millisecond)
				if got := len(b.mustRead().Flows); !wrote && got != 0 {
					t.Errorf("%d flows were written while somebody may still be building it", got)
				}
				time.Sleep(5 * time.Second)
				b.wantMux(0, want, 0, "")
				if last := b.history(0); !wrote && last[len(last)-1] != "upper_tor, dropped nic: the flow from upper_tor (enp59s0f1.3216) to the NIC is missing → upper_tor, dropped nic by recovery" {
					t.Errorf("history ends with %q", last[len(last)-1])
				}
			})
		})
	}
}

// Nothing of the above depends on luck: a reload meets a bridge that comes and goes all the time.
func TestReloadsBesideABridgeThatComesAndGoes(t *testing.T) {
	run(t, 1, nil, func(b *bench) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 40 {
				b.addMux(1)
				time.Sleep(time.Duration(i) * 60 * time.Millisecond)
				b.sw.RemoveBridge(b.bridge(1))
				time.Sleep(time.Millisecond)
			}
		}()
		for range 200 {
			b.mustReload()
			time.Sleep(7 * time.Millisecond)
		}
		<-done
		synctest.Wait()
		time.Sleep(time.Minute)
		b.wantGone(1)
		b.wantMux(0, upper, 0, "")
	})
}
