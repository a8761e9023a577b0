package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// idleTime holds one of the looks at all bridges that an agent takes every 30 s although it is told of changes.
const idleTime = 40 * time.Second

// BenchmarkIdle is what an agent costs that nobody asks anything, told of changes and polling, with 120 and 1,000 bridges: the
// share of a core that it uses itself, and that ovs-vswitchd uses more. What the agent uses without a switch, and ovs-vswitchd
// with the same bridges without an agent, is taken off. Beside that it is how soon a start is ready, the memory then, and how
// soon a change is seen that somebody else makes, the time of his ovs-ofctl included.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{120, 1000} {
		b.Run(fmt.Sprintf("bridges=%d", n), func(b *testing.B) { benchmarkIdle(b, n) })
	}
}

func benchmarkIdle(b *testing.B, n int) {
	o := ovstest.Start(b)
	muxes := o.AddMuxes(vmSet, n)
	first := startAgent(b, o) // sets fail_mode
	first.Stop()
	for b.Loop() {
		metrics := map[string]float64{}
		idle := func(args ...string) (agent, vswitchd, megabytes, seen float64) {
			a := startAgent(b, o, args...)
			defer a.Stop()
			time.Sleep(2 * time.Second) // what a start entails is over
			agentBefore, vswitchdBefore := cpuTime(b, a.PID()), cpuTime(b, o.Vswitchd.PID())
			started := time.Now()
			time.Sleep(idleTime)
			passed := time.Since(started)
			percent := func(d time.Duration) float64 { return 100 * d.Seconds() / passed.Seconds() }
			agent, vswitchd = percent(cpuTime(b, a.PID())-agentBefore), percent(cpuTime(b, o.Vswitchd.PID())-vswitchdBefore)
			megabytes = rss(b, a.PID())
			if len(args) == 0 || args[0] == "--watch" {
				seen = seenAfter(b, o, a, muxes[n/2].Bridge, n/2)
			}
			return agent, vswitchd, megabytes, seen
		}
		agentBase, vswitchdBase, _, _ := idle("--driver", "simulated", "--simulate-ports", strconv.Itoa(n))
		for name, args := range map[string][]string{"told": nil, "polled": {"--watch", "poll"}} {
			agent, vswitchd, megabytes, seen := idle(args...)
			metrics["agent-"+name+"-%"], metrics["vswitchd-"+name+"-%"] = agent-agentBase, vswitchd-vswitchdBase
			metrics[name+"-MiB"], metrics["seen-"+name+"-ms"] = megabytes, seen
		}
		metrics["agent-base-%"], metrics["vswitchd-base-%"] = agentBase, vswitchdBase
		var ready []float64
		for range 5 {
			started := time.Now()
			a := startAgent(b, o)
			ready = append(ready, ms(time.Since(started)))
			a.Stop()
		}
		metrics["start-ms"] = median(ready)
		report(b, metrics)
	}
}

// seenAfter is how long it takes in the median until the agent shows a flow that somebody else adds or removes.
func seenAfter(b *testing.B, o *ovstest.OVS, a *agentproc.Agent, bridge string, port int) float64 {
	b.Helper()
	var took []float64
	for range 5 {
		for _, foreign := range []bool{true, false} {
			started := time.Now()
			if foreign {
				o.Ofctl("add-flow", bridge, "priority=40000,icmp,actions=drop")
			} else {
				o.Ofctl("--strict", "del-flows", bridge, "priority=40000,icmp")
			}
			for a.Status(port).Healthy == foreign {
				time.Sleep(time.Millisecond)
			}
			took = append(took, ms(time.Since(started)))
		}
	}
	return median(took)
}

// cpuTime is how long a process has run on a core, to the nanosecond (proc(5), schedstat). It is that of all threads that
// live: neither process ends any while it is idle.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	must(b, err)
	var all time.Duration
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		var ran time.Duration
		_, err = fmt.Sscan(string(text), &ran)
		must(b, err)
		all += ran
	}
	if all == 0 {
		lack.Of(b, "the kernel keeps no schedstat")
	}
	return all
}
