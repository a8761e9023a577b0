package provider_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// The benchmarks run real terraform, with the provider as a process. Both sides of a comparison take turns within one run,
// and only the ratio of their medians says anything: `go test -run '^$' -bench . -benchtime 1x ./provider`.

// Rounds of a comparison.
const (
	fewRounds  = 3 // where each takes a minute
	manyRounds = 5
)

// steps are what a benchmark runs with terraform, in this order.
var steps = []struct {
	name string
	args []string
}{
	{"apply", []string{"apply", "-auto-approve"}},
	{"refresh", []string{"plan", "-detailed-exitcode"}}, // fails unless nothing has changed
	{"destroy", []string{"destroy", "-auto-approve"}},
}

// a configured is a folder with a configuration.
type configured struct {
	dir string
	env []string
}

func configure(b *testing.B, config string, env ...string) configured {
	b.Helper()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	return configured{dir, env}
}

// run runs each step once and returns the times. after is called after each.
func (c configured) run(b *testing.B, after func(step string)) []time.Duration {
	b.Helper()
	var times []time.Duration
	for _, step := range steps {
		started := time.Now()
		if out := terraformIn(b, c.dir, c.env, step.args...); b.Failed() {
			b.Fatal(out)
		}
		times = append(times, time.Since(started))
		after(step.name)
	}
	return times
}

func nothingToDo(string) {}

// manyOf is a resource for each of the ports.
func manyOf(resource string, n int) string {
	return fmt.Sprintf(`
resource %q "p" {
  count       = %d
  vm_set      = "vms17-8"
  port_index  = count.index
  active_side = count.index %% 2 == 0 ? "upper_tor" : "lower_tor"
  dropped     = []
}
`, resource, n)
}

// startOnOVS runs an agent on a real Open vSwitch with many muxes.
func startOnOVS(b *testing.B) (url, vmSet string) {
	b.Helper()
	const name = "vms17-8"
	ovs := ovstest.Start(b)
	ovs.SetTestbedFlows(ovs.AddMuxes(name, manyPorts)...)
	return agentproc.StartReady(b, agentproc.Config{VMSet: name, RunDir: ovs.RunDir, Args: []string{"--log-level", "error"}}).URL, name
}

// BenchmarkManyPorts compares mux_port on a real Open vSwitch with as many resources of a provider that does nothing, and a
// thousand of them on a simulated switch.
func BenchmarkManyPorts(b *testing.B) {
	needTerraform(b)
	b.Run("120", func(b *testing.B) {
		url, vmSet := startOnOVS(b)
		compare(b, manyPorts, manyRounds, "MUX_ENDPOINT="+url, "MUX_VM_SET="+vmSet)
	})
	b.Run("1000", func(b *testing.B) {
		a := agenttest.Start(b, agenttest.Ports(1000))
		compare(b, 1000, fewRounds, "MUX_ENDPOINT="+a.URL, "MUX_VM_SET="+a.VMSet)
	})
}

// compare reports the times of mux_port, and their ratios to those of nothing_port.
func compare(b *testing.B, ports, rounds int, env ...string) {
	b.Helper()
	mux, bare := configure(b, manyOf("mux_port", ports), env...), configure(b, manyOf("nothing_port", ports))
	for b.Loop() {
		var ours, theirs [][]time.Duration
		for range rounds {
			ours = append(ours, mux.run(b, nothingToDo))
			theirs = append(theirs, bare.run(b, nothingToDo))
		}
		for i, step := range steps {
			a, n := median(ours, i), median(theirs, i)
			b.ReportMetric(a.Seconds()*1000, step.name+"-ms")
			b.ReportMetric(a.Seconds()/n.Seconds(), step.name+"-ratio")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// median returns the median time of a step.
func median(runs [][]time.Duration, step int) time.Duration {
	var times []time.Duration
	for _, run := range runs {
		times = append(times, run[step])
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkRequests counts the HTTP requests of each step, of which the numbers say everything.
func BenchmarkRequests(b *testing.B) {
	needTerraform(b)
	for name, tc := range map[string]struct {
		ports  int
		config string
	}{
		"mux_port": {manyPorts, manyOf("mux_port", manyPorts)},
		"mux_ports-of-1000": {1000, `
resource "mux_ports" "p" {
  ports = { for i in range(1000) : i => { active_side = i % 2 == 0 ? "upper_tor" : "lower_tor" } }
}
`},
	} {
		b.Run(name, func(b *testing.B) {
			a := agenttest.Start(b, agenttest.Ports(tc.ports))
			var requests atomic.Int32
			endpoint := before(b, a, func(http.ResponseWriter, *http.Request) bool {
				requests.Add(1)
				return false
			})
			c := configure(b, tc.config, "MUX_ENDPOINT="+endpoint, "MUX_VM_SET="+a.VMSet)
			for b.Loop() {
				times := c.run(b, func(step string) { b.ReportMetric(float64(requests.Swap(0)), step+"-requests") })
				for i, step := range steps {
					b.ReportMetric(times[i].Seconds()*1000, step.name+"-ms")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
