package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const manyPorts = 120

// statesOf are the states of all ports of a testbed as they were applied.
func statesOf(p *plugin, vmSet string) []resourceState {
	states := make([]resourceState, manyPorts)
	for i := range states {
		states[i].value = p.value(p.port, attrs{"vm_set": vmSet, "port_index": i, "active_side": "upper_tor"})
	}
	return states
}

func TestRefreshOfManyPortsIsOneRequest(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(manyPorts))
	a.Flip(7)
	var requests, reading atomic.Int32
	all := make(chan struct{})
	p := newPlugin(t)
	p.useFor(before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		requests.Add(1)
		if r.Method != http.MethodGet || r.URL.Path != api.VMSetPath(a.VMSet) {
			t.Errorf("got %s %s", r.Method, r.URL.Path)
		}
		<-all
		return false
	}), a.VMSet)
	var wg sync.WaitGroup
	for i, s := range statesOf(p, a.VMSet) {
		wg.Go(func() {
			if reading.Add(1) == manyPorts {
				close(all)
			}
			now, words := p.read(s)
			if words != "" {
				t.Error(words)
			}
			want := "upper_tor"
			if i == 7 {
				want = "lower_tor"
			}
			if got := now.value.String(); !strings.Contains(got, want) {
				t.Errorf("port %d was read as %s", i, got)
			}
		})
	}
	wg.Wait()
	if n := requests.Load(); n != 1 {
		t.Errorf("the refresh of %d ports took %d requests, want 1", manyPorts, n)
	}
}

// A dead agent is one error with the whole story; each other port has a line, and none at all where a refresh fails, whatever
// the scheduler makes of it.
func TestDeadAgentWithManyPorts(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	a.Stop()
	for name, tc := range map[string]struct {
		call   func(*plugin, resourceState) string
		silent bool
	}{
		"refresh": {call: func(p *plugin, s resourceState) string {
			_, words := p.read(s)
			return words
		}, silent: true},
		"create": {call: func(p *plugin, s resourceState) string {
			_, words := p.apply(resourceState{}, s.value)
			return words
		}},
		"update": {call: func(p *plugin, s resourceState) string {
			_, words := p.apply(resourceState{value: p.with(s.value, "active_side", "lower_tor")}, s.value)
			return words
		}},
		"restore": {call: func(p *plugin, s resourceState) string {
			original := p.value(object(p.t, p.port.AttributeTypes["original"]), attrs{"active_side": "lower_tor", "dropped": []string{}})
			_, words := p.destroy(resourceState{value: p.with(p.with(s.value, "on_destroy", "restore"), "original", original)})
			return words
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlugin(t)
				p.use(a)
				said := make(chan string, manyPorts)
				var wg sync.WaitGroup
				for _, s := range statesOf(p, a.VMSet) {
					wg.Go(func() { said <- tc.call(p, s) })
				}
				wg.Wait()
				close(said)
				var full, short int
				for words := range said {
					switch {
					case words == "" && tc.silent:
						short++
					case strings.HasSuffix(strings.TrimSpace(words), "):"): // and no detail
						short++
						mustSay(t, words, "ERROR: ", "failed as well: cannot reach the agent ("+a.URL+"/mux/vms17-8")
					default:
						full++
						mustSay(t, words, "ERROR: ", "annot reach the agent", a.URL+"/mux/vms17-8", "connection refused", "Attempts: ")
					}
				}
				if full != 1 || short != manyPorts-1 {
					t.Errorf("got %d full errors and %d others, want 1 and %d", full, short, manyPorts-1)
				}
			})
		})
	}
}

// One dead server does not slow the others down: each endpoint has its own budget, connections and limit.
func TestDeadAgentBesideOthers(t *testing.T) {
	dead := agenttest.Start(t, agenttest.Ports(1))
	dead.Stop()
	p := newPlugin(t)
	p.use(dead)
	var wg sync.WaitGroup
	for i := range 9 {
		a := agenttest.Start(t, agenttest.VMSet(fmt.Sprintf("vms%d-1", i)), agenttest.Ports(2))
		for port := range 2 {
			wg.Go(func() {
				s := resourceState{value: p.value(p.port, attrs{
					"endpoint": a.URL, "vm_set": a.VMSet, "port_index": port, "active_side": "upper_tor",
				})}
				if _, words := p.read(s); words != "" {
					t.Error(words)
				}
			})
		}
	}
	_, words := p.read(statesOf(p, dead.VMSet)[0])
	mustSay(t, words, "Cannot reach the agent")
	wg.Wait()
}
