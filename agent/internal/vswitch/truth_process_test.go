package vswitch_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A process is an agent that can be treated as such.
type process struct {
	*agentproc.Agent
	t     *testing.T
	o     *ovstest.OVS
	muxes []ovstest.Mux
}

// newProcess starts an agent on a switch and waits until it listens. user is who runs it; 0 is root.
func newProcess(t *testing.T, o *ovstest.OVS, muxes []ovstest.Mux, by way, user uint32) *process {
	t.Helper()
	watch := "auto"
	if by.poll {
		watch = "poll"
	}
	a := agentproc.Start(t, agentproc.Config{VMSet: vmSet, RunDir: o.RunDir, Args: []string{"--watch", watch}, User: user})
	return &process{Agent: a, t: t, o: o, muxes: muxes}
}

// checkTruth compares the status of each mux with where packets go.
func (p *process) checkTruth() {
	p.t.Helper()
	all := p.Statuses()
	for _, m := range p.muxes {
		s := all[m.Bridge]
		if astray := cabletest.Switch(p.o.Trace).Astray(m, s.ActiveSide); !s.Healthy || astray != "" {
			p.t.Errorf("%s, active %s, healthy %v: %s", m.Bridge, s.ActiveSide, s.Healthy, astray)
		}
	}
}

// TestTruthOfAnAgentThatEnds ends the agent in the midst of changes of all ports. Each mux is a proper cable afterwards, and
// the next agent finds it so.
func TestTruthOfAnAgentThatEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		o := ovstest.Start(t)
		muxes := o.AddMuxes(vmSet, 40)
		o.SetTestbedFlows(muxes[:1]...)
		newProcess(t, o, muxes, by, 0).WaitReady() // has set fail_mode, and runs beside the others
		for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
			p := newProcess(t, o, muxes, by, 0)
			p.WaitReady()
			var toggling sync.WaitGroup
			begun := make(chan bool, 1)
			toggling.Go(func() {
				client := http.Client{Timeout: wait.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
				for {
					res, err := client.Post(p.URL+api.VMSetPath(vmSet), "application/json", strings.NewReader(`{"active_side":"toggle"}`))
					if err != nil {
						return // it has ended
					}
					res.Body.Close()
					select {
					case begun <- true:
					default:
					}
				}
			})
			<-begun
			time.Sleep(time.Duration(i) * 7 * time.Millisecond) // somewhere in a change
			if sig == syscall.SIGKILL {
				p.Kill()
			} else {
				p.Stop()
			}
			toggling.Wait()
			for _, m := range muxes {
				up, low := o.Trace(m.Bridge, m.Upper), o.Trace(m.Bridge, m.Lower)
				if len(up)+len(low) != 1 || len(o.Trace(m.Bridge, m.NIC)) != 2 {
					t.Errorf("after %v, %s: from the upper ToR to %v, from the lower to %v; want exactly one of them to reach the NIC", sig, m.Bridge, up, low)
				}
			}
		}
		p := newProcess(t, o, muxes, by, 0)
		p.WaitReady()
		p.checkTruth()
	})
}

// TestTruthAfterAPause stops the agent while somebody changes more than Open vSwitch keeps for a reader that does not read.
func TestTruthAfterAPause(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		o := ovstest.Start(t)
		muxes := o.AddMuxes(vmSet, 2)
		p := newProcess(t, o, muxes, by, 0)
		p.WaitReady()
		p.checkTruth()
		p.Signal(syscall.SIGSTOP)
		m, n := muxes[0], o.Ports(muxes[0].Bridge)
		var many strings.Builder
		for i := range 20000 {
			fmt.Fprintf(&many, "priority=9,ip,nw_src=10.%d.%d.1,actions=drop\n", i/250, i%250)
		}
		cmd := o.Command("ovs-ofctl", "add-flows", m.Bridge, "-")
		cmd.Stdin = strings.NewReader(many.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.Ofctl("del-flows", m.Bridge)
		o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d,%d", n[m.NIC], n[m.Upper], n[m.Lower]))
		o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", n[m.Lower], n[m.NIC]))
		p.Signal(syscall.SIGCONT)
		waitFor(t, "what was done meanwhile is adopted", func() bool {
			s := p.Status(0)
			return s.Healthy && s.ActiveSide == api.LowerToR
		})
		p.checkTruth()
	})
}

// TestTruthWithoutPermission runs the agent as a user who may not open Open vSwitch's sockets, and then may.
func TestTruthWithoutPermission(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		lack.Root(t, "another user's rights are tried")
		const nobody = 65534
		o := ovstest.Start(t)
		muxes := o.AddMuxes(vmSet, 2)
		if err := os.Chmod(o.RunDir, 0o755); err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, o, muxes, by, nobody)
		for _, step := range []struct{ words, sockets string }{
			{"no permission to open " + o.RunDir + "/db.sock", "db.sock"},
			{"permission denied", "*.mgmt"},
		} {
			waitFor(t, "the agent says: "+step.words, func() bool {
				code, text := p.Get(api.VMSetPath(vmSet))
				return code == http.StatusServiceUnavailable && strings.Contains(text, step.words)
			})
			sockets, err := filepath.Glob(filepath.Join(o.RunDir, step.sockets))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range sockets {
				if err := os.Chown(path, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.WaitReady()
		p.checkTruth()
	})
}
