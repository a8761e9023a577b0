package provider_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// held is a state or a configuration of mux_ports with ports on a side, to be restored.
func (p *plugin) held(vmSet, side string, indexes ...int) tftypes.Value {
	p.t.Helper()
	typ := p.port.AttributeTypes["ports"]
	one := object(p.t, typ.(tftypes.Map).ElementType)
	elements := map[string]tftypes.Value{}
	for _, index := range indexes {
		elements[strconv.Itoa(index)] = p.value(one, attrs{"active_side": side})
	}
	return p.value(p.port, attrs{"vm_set": vmSet, "ports": tftypes.NewValue(typ, elements), "on_destroy": "restore"})
}

// Of two ports that are not in the answer, one is gone and the other doesn't answer: nothing is known of that one, so it stays.
func TestPortThatDoesNotAnswerIsNotGone(t *testing.T) {
	for _, silent := range []int{3, 4} {
		t.Run("port "+strconv.Itoa(silent), func(t *testing.T) {
			a := agenttest.Start(t)
			a.RemoveBridge(3)
			a.RemoveBridge(4)
			p := newPluginFor(t, "mux_ports")
			p.useFor(before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == api.PortPath(a.VMSet, silent) {
					w.WriteHeader(http.StatusGatewayTimeout)
					return true
				}
				return false
			}), a.VMSet)
			s := resourceState{value: p.held(a.VMSet, "upper_tor", 2, 3, 4)}
			after, words := p.read(s)
			mustSay(t, words, "ERROR: A proxy answers in place of the agent", api.PortPath(a.VMSet, silent), "504")
			if !after.value.Equal(s.value) {
				t.Errorf("the state is %s", after.value)
			}
		})
	}
}

// The failure of the first port is the whole story, which the breaker spares the second one: it must be told.
func TestFailureOfTheFirstMissingPortIsTold(t *testing.T) {
	a := agenttest.Start(t)
	a.RemoveBridge(3)
	a.RemoveBridge(4)
	var asked atomic.Int32
	p := newPluginFor(t, "mux_ports")
	p.useFor(before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == api.VMSetPath(a.VMSet) {
			return false
		}
		asked.Add(1)
		w.WriteHeader(http.StatusBadGateway)
		return true
	}), a.VMSet)
	_, words := p.read(resourceState{value: p.held(a.VMSet, "upper_tor", 2, 3, 4)})
	if asked.Load() == 0 {
		t.Fatal("no port was asked for by itself")
	}
	mustSay(t, words, "ERROR: A proxy answers in place of the agent", api.PortPath(a.VMSet, 3), "502")
}

// One port is rejected when it is asked for and served a moment later; the other is gone. The last answer alone says too little.
func TestRejectedPortBesideOneThatIsGone(t *testing.T) {
	a := agenttest.Start(t)
	a.RemoveBridge(3)
	a.RemoveBridge(4)
	p := newPluginFor(t, "mux_ports")
	p.useFor(before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != api.PortPath(a.VMSet, 3) {
			return false
		}
		w.Header().Set(api.ErrorCodeHeader, api.CodeRejectedMux)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"err_msg":"it has two ports"}`))
		return true
	}), a.VMSet)
	s := resourceState{value: p.held(a.VMSet, "upper_tor", 2, 3, 4)}
	after, words := p.read(s)
	mustSay(t, words, "ERROR: The bridge is not a usable mux", "it has two ports")
	if !after.value.Equal(s.value) {
		t.Errorf("the state is %s", after.value)
	}
}

// A restore meets a bridge that became unusable and a switch that refuses: both keep a port, and both are told.
func TestRestoreThatFailsForTwoReasons(t *testing.T) {
	a := agenttest.Start(t)
	p := newPluginFor(t, "mux_ports")
	p.use(a)
	s, words := p.apply(resourceState{}, p.held(a.VMSet, "lower_tor", 3, 4))
	if words != "" {
		t.Fatal(words)
	}
	a.RemoveBridge(3)
	a.AddBridge(3, "muxy-vms17-8-3", "enp59s0f1.3219")
	a.FailNext(4, "OFPFMFC_TABLE_FULL")
	p.use(a) // another run
	_, words = p.destroy(s)
	mustSay(t, words, "ERROR: The port was not restored", "The agent rejects bridge mbr-vms17-8-3", "OFPFMFC_TABLE_FULL", "The state still holds ports 3-4 of vms17-8")
}

// A resource that failed holds nothing: another one that names the port is not the second.
func TestPortThatCouldNotBeTakenOverIsNotManagedTwice(t *testing.T) {
	a := agenttest.Start(t)
	p := newPluginFor(t, "mux_ports")
	p.use(a)
	for range 2 {
		s, words := p.apply(resourceState{}, p.held(a.VMSet, "lower_tor", 77))
		mustSay(t, words, "ERROR: No such port")
		mustNotSay(t, words, "managed twice")
		if !s.value.IsNull() {
			t.Error("the state has the port")
		}
	}
}

// An agent that dies while it is asked which ports exist spares the next resource neither the wait nor the story.
func TestAgentThatDiesBeforeItNamesItsPorts(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.useFor(before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != api.VMSetPath(a.VMSet) {
			return false
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	}), a.VMSet)
	_, words := p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 77, "active_side": "lower_tor"}))
	mustSay(t, words, "ERROR: No such port")
	_, words = p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}))
	mustSay(t, words, "ERROR: A proxy answers in place of the agent", "502 Bad Gateway", "Attempts: ")
}
