package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// idleTime holds one of the looks at all bridges that an agent takes every 30 s although it is told of changes.
const idleTime = 40 * time.Second

// BenchmarkIdle is what an agent costs that nobody asks anything: the share of a core that it uses itself, and that
// ovs-vswitchd uses more, with 120 bridges, told of changes and polling. What the agent uses without a switch, and
// ovs-vswitchd with the same bridges without an agent, is taken off.
func BenchmarkIdle(b *testing.B) {
	o := ovstest.Start(b)
	o.AddMuxes(vmSet, 120)
	first := startAgent(b, o) // sets fail_mode
	first.Stop()
	for b.Loop() {
		idle := func(args ...string) (agent, vswitchd float64) {
			a := startAgent(b, o, args...)
			defer a.Stop()
			time.Sleep(2 * time.Second) // what a start entails is over
			agentBefore, vswitchdBefore := cpuTime(b, a.PID()), cpuTime(b, o.Vswitchd.PID())
			started := time.Now()
			time.Sleep(idleTime)
			passed := time.Since(started)
			percent := func(d time.Duration) float64 { return 100 * d.Seconds() / passed.Seconds() }
			return percent(cpuTime(b, a.PID()) - agentBefore), percent(cpuTime(b, o.Vswitchd.PID()) - vswitchdBefore)
		}
		agentBase, vswitchdBase := idle("--driver", "simulated", "--simulate-ports", "120")
		agentTold, vswitchdTold := idle()
		agentPolled, vswitchdPolled := idle("--watch", "poll")
		report(b, map[string]float64{
			"agent-base-%": agentBase, "vswitchd-base-%": vswitchdBase,
			"agent-told-%": agentTold - agentBase, "vswitchd-told-%": vswitchdTold - vswitchdBase,
			"agent-polled-%": agentPolled - agentBase, "vswitchd-polled-%": vswitchdPolled - vswitchdBase,
		})
	}
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
