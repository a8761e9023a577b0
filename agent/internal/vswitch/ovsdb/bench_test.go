package ovsdb

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// BenchmarkConnect is how long it takes until all rows are known, and what they hold, on the database of a testbed, and beside
// the 22,000 rows of a crowded server. No ovs-vswitchd runs, which has nothing to do with that.
func BenchmarkConnect(b *testing.B) {
	for _, crowd := range []int{0, 11000} {
		b.Run(fmt.Sprintf("foreign=%d", 2*crowd), func(b *testing.B) {
			o := ovstest.Start(b)
			muxes := o.AddMuxes("vms17-8", 120)
			o.Vswitchd.Stop()
			if crowd > 0 {
				insertCrowd(b, o, crowd)
			}
			ours := func(name string) bool { return strings.HasPrefix(name, "mbr-vms17-8-") }
			var connect, look, told time.Duration
			var heap uint64
			n := 0
			for b.Loop() {
				d := New(Config{Path: filepath.Join(o.RunDir, "db.sock"), Timeout: wait.Limit, Changed: func(Change) {}})
				started := time.Now()
				if err := d.Connect(b.Context()); err != nil {
					b.Fatal(err)
				}
				connect += time.Since(started)
				started = time.Now()
				v, err := d.View(ours)
				if err != nil || len(v.Bridges) != len(muxes) {
					b.Fatalf("%d bridges, error %v", len(v.Bridges), err)
				}
				told += time.Since(started)
				started = time.Now()
				if _, stale, err := d.Look(b.Context(), ours); err != nil || stale {
					b.Fatalf("stale %v, error %v", stale, err)
				}
				look += time.Since(started)
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap = max(heap, m.HeapAlloc)
				d.Close()
				n++
			}
			per := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(n) }
			b.ReportMetric(per(connect), "connect-ms")
			b.ReportMetric(per(told), "read-ms")
			b.ReportMetric(per(look), "look-ms")
			b.ReportMetric(float64(heap)/(1<<20), "heap-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// insertCrowd adds a bridge with so many ports, in one transaction.
func insertCrowd(b *testing.B, o *ovstest.OVS, ports int) {
	b.Helper()
	var ops []operation
	var names []any
	named := func(format string, i int) []any { return []any{"named-uuid", fmt.Sprintf(format, i)} }
	for i := range ports {
		name := fmt.Sprintf("vnet%d", i)
		ids := []any{"map", []any{[]any{"iface-id", "6ff6b8a5-" + name}, []any{"vm-uuid", "0f3a-" + name}}}
		ops = append(ops,
			operation{"op": "insert", "table": tableInterface, "uuid-name": fmt.Sprintf("i%d", i), "row": map[string]any{"name": name, "external_ids": ids}},
			operation{"op": "insert", "table": tablePort, "uuid-name": fmt.Sprintf("p%d", i), "row": map[string]any{"name": name, "interfaces": named("i%d", i)}})
		names = append(names, named("p%d", i))
	}
	ops = append(ops,
		operation{"op": "insert", "table": tableBridge, "uuid-name": "b0", "row": map[string]any{"name": "br-int", "ports": []any{"set", names}}},
		operation{"op": "mutate", "table": tableRoot, "where": []any{}, "mutations": []any{[]any{"bridges", "insert", []any{"set", []any{named("b%d", 0)}}}}})
	d := New(Config{Path: filepath.Join(o.RunDir, "db.sock"), Timeout: wait.Limit, Changed: func(Change) {}})
	defer d.Close()
	err := d.use(b.Context(), func(ctx context.Context, c *conn) error {
		_, err := d.transact(ctx, c, ops...)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
