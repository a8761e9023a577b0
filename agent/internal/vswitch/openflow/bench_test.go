package openflow

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// BenchmarkToggleAll toggles all bridges of a real switch at once. It does so by a pool, and by what no program can beat:
// bundles made beforehand, all of them written, then all answers read, on open connections. The two take turns, so that
// whatever else the machine does meets both.
func BenchmarkToggleAll(b *testing.B) {
	for _, n := range []int{12, 120} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := ovstest.Start(b)
			muxes := o.AddMuxes("vms1", n)
			pool := newPool(b, o.RunDir, 0)
			limit := newLimit(b, o, muxes)

			// OVS gives all these bridges the same port numbers, in some order.
			states := [2]cable.Program{
				program(cable.NewFlow(1, 2, 3), cable.NewFlow(2, 1)),
				program(cable.NewFlow(1, 2, 3), cable.NewFlow(3, 1)),
			}
			batch := func(from, to int, known bool) []cable.Update {
				updates := make([]cable.Update, n)
				for i, m := range muxes {
					updates[i] = cable.Update{Bridge: m.Bridge, Have: states[from], Want: states[to], Known: known}
				}
				return updates
			}
			toggles := [2][]cable.Update{batch(0, 1, true), batch(1, 0, true)}
			byPool := func(updates []cable.Update) time.Duration {
				var wg sync.WaitGroup
				wg.Add(n)
				start := time.Now()
				pool.Apply(updates, func(i int, err error) {
					if err != nil {
						b.Error(err)
					}
					wg.Done()
				})
				wg.Wait()
				return time.Since(start)
			}
			byPool(batch(1, 0, false))

			var pools, limits []time.Duration
			for b.Loop() {
				// Each turn of one is undone by the other, so that both do the same work.
				pools = append(pools, byPool(toggles[0]))
				limits = append(limits, limit.do(b, toggles[1][0]))
			}
			p, l := median(pools), median(limits)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(p.Microseconds()), "µs-pool")
			b.ReportMetric(float64(l.Microseconds()), "µs-limit")
			b.ReportMetric(float64(p)/float64(l), "×limit")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// A limit holds open connections with nothing around them.
type limit struct {
	conns []net.Conn
	xid   uint32
}

func newLimit(b *testing.B, o *ovstest.OVS, muxes []ovstest.Mux) *limit {
	l := &limit{xid: 100}
	for _, m := range muxes {
		c, err := net.Dial("unix", filepath.Join(o.RunDir, m.Bridge+".mgmt"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		l.conns = append(l.conns, c)
		if _, err := c.Write(appendHello(nil, 1)); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range l.conns {
		if _, err := io.ReadFull(c, make([]byte, headerLen)); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

// do writes one and the same update to all connections, and reads all answers: one to the opening of the bundle, one to
// its commit.
func (l *limit) do(b *testing.B, u cable.Update) time.Duration {
	frames, last, err := appendUpdate(nil, l.xid, u)
	if err != nil {
		b.Fatal(err)
	}
	l.xid = last + 1
	answers := make([]byte, 2*16)
	start := time.Now()
	for _, c := range l.conns {
		if _, err := c.Write(frames); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range l.conns {
		if _, err := io.ReadFull(c, answers); err != nil {
			b.Fatal(err)
		}
		if answers[1] != typeBundleControl || answers[17] != typeBundleControl {
			b.Fatalf("answers are %s", hex.EncodeToString(answers))
		}
	}
	return time.Since(start)
}

// BenchmarkToggleOne compares a toggle with the shortest of all questions to OVS, a barrier.
func BenchmarkToggleOne(b *testing.B) {
	o := ovstest.Start(b)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(b, o.RunDir, 0)
	c, err := Dial(b.Context(), filepath.Join(o.RunDir, m.Bridge+".mgmt"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	u := cable.Update{
		Bridge: m.Bridge, Known: true,
		Have: program(cable.NewFlow(1, 2, 3), cable.NewFlow(2, 1)),
		Want: program(cable.NewFlow(1, 2, 3), cable.NewFlow(3, 1)),
	}
	var toggles, barriers []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := apply(b, pool, u)[0]; err != nil {
			b.Fatal(err)
		}
		toggles = append(toggles, time.Since(start))
		u.Have, u.Want = u.Want, u.Have
		start = time.Now()
		if err := c.Barrier(b.Context()); err != nil {
			b.Fatal(err)
		}
		barriers = append(barriers, time.Since(start))
	}
	t, q := median(toggles), median(barriers)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(t.Microseconds()), "µs-toggle")
	b.ReportMetric(float64(q.Microseconds()), "µs-barrier")
	b.ReportMetric(float64(t)/float64(q), "×barrier")
}
