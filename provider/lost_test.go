package provider_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// losing puts a server before an agent that loses the answers to writes while the flag is set.
func losing(t *testing.T, a *agenttest.Agent) (endpoint string, loses *atomic.Bool) {
	t.Helper()
	loses = &atomic.Bool{}
	target := must(url.Parse(a.URL))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	return before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || !loses.Load() {
			return false
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}), loses
}

// An update adds a port, and the answer is lost: how the port was before must not be lost with it.
func TestAddedPortWhoseAnswerIsLostIsRestored(t *testing.T) {
	for name, more := range map[string][]string{"refreshed": nil, "not refreshed": {"-refresh=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			was(t, a)
			endpoint, loses := losing(t, a)
			provider := impatient(settingsFor(endpoint, a.VMSet))
			w := newWorkspace(t, provider+ports("1 = "+lowerSide, restore))
			w.apply()
			w.write(provider + ports("1 = "+lowerSide+"\n3 = "+lowerSide, restore))
			loses.Store(true)
			saysInWords(t, w.fails("apply", "-auto-approve"), "Setting port 3 of vms17-8 failed")
			if err := agentHas(t, a, 3, "lower_tor", 1, api.UpperToR)(nil); err != nil {
				t.Fatalf("the write should have landed: %v", err)
			}
			loses.Store(false)
			w.apply(more...)
			w.planned()
			out := w.destroy(more...)
			mustNotSay(t, out, "Warning")
			isBack(t, a, out)
		})
	}
}

// A port moves from one resource to another one, which can't set it: how it was before both must not be lost.
func TestPortThatIsHandedOverAndRefusedIsRestored(t *testing.T) {
	for name, refuse := range map[string]func(a *agenttest.Agent, w http.ResponseWriter, r *http.Request) bool{
		"refused": func(_ *agenttest.Agent, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(api.ErrorCodeHeader, api.CodeSwitch)
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"err_msg":"table full","failed":{"mbr-vms17-8-3":{"code":"switch_error","err_msg":"table full"}}}`))
			return true
		},
		"not there": func(a *agenttest.Agent, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != api.PortPath(a.VMSet, 3) {
				return false
			}
			w.WriteHeader(http.StatusGatewayTimeout)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.Start(t)
			was(t, a)
			var refuses atomic.Bool
			many := newPluginFor(t, "mux_ports")
			one := many.as("mux_port")
			endpoint := before(t, a, func(w http.ResponseWriter, r *http.Request) bool { return refuses.Load() && refuse(a, w, r) })
			run := func() { many.useFor(endpoint, a.VMSet) }
			run()
			held3, words := one.apply(resourceState{}, one.value(one.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}))
			s, more := many.apply(resourceState{}, many.held(a.VMSet, "lower_tor", 1))
			if words += more; words != "" {
				t.Fatal(words)
			}

			run()
			_, words = one.destroy(held3)
			refuses.Store(true)
			s, more = many.apply(s, many.held(a.VMSet, "lower_tor", 1, 3))
			if words != "" || !strings.HasPrefix(more, "ERROR") {
				t.Fatal(words, more)
			}
			refuses.Store(false)
			run()
			s, words = many.read(s)
			s, more = many.apply(s, many.held(a.VMSet, "lower_tor", 1, 3))
			if words += more; words != "" {
				t.Fatal(words)
			}
			run()
			if _, words = many.destroy(s); words != "" {
				t.Error(words)
			}
			isBack(t, a, "")
		})
	}
}

// Under "ignore" a read keeps what was applied. Where nobody knows whether a write landed it has to look.
func TestUpdateWhoseAnswerIsLostUnderIgnore(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		endpoint, loses := losing(t, a)
		provider := impatient(settingsFor(endpoint, a.VMSet, `drift_policy = "ignore"`))
		lower := provider + resource()
		w := newWorkspace(t, onTheUpper(lower))
		w.apply()
		loses.Store(true)
		w.write(lower)
		w.fails("apply", "-auto-approve")
		loses.Store(false)
		w.write(onTheUpper(lower)) // never mind
		w.apply()
		if err := agentHas(t, a, 3, "upper_tor", 2)(nil); err != nil {
			t.Error(err)
		}
	})
}

// A restore whose answer is lost leaves the port in the state, which then can't say how the port is.
func TestRestoreWhoseAnswerIsLostUnderIgnore(t *testing.T) {
	for name, away := range map[string]string{"port": "1 = " + lowerSide, "resource": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			endpoint, loses := losing(t, a)
			provider := impatient(settingsFor(endpoint, a.VMSet, `drift_policy = "ignore"`))
			both := provider + ports("1 = "+lowerSide+"\n3 = "+lowerSide, restore)
			w := newWorkspace(t, both)
			w.apply()
			loses.Store(true)
			w.write(provider)
			if away != "" {
				w.write(provider + ports(away, restore))
			}
			saysInWords(t, w.fails("apply", "-auto-approve"), "Error: The port was not restored")
			loses.Store(false)
			w.write(both) // never mind
			w.apply()
			if err := agentHas(t, a, 3, "lower_tor", 3)(nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// A port that could not be set is tried again without a refresh as well.
func TestUnsetPortIsTriedAgainWithoutARefresh(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	w := newWorkspace(t, settings(a)+ports("1 = "+lowerSide+"\n3 = "+lowerSide))
	a.FailNext(3, "OFPFMFC_TABLE_FULL")
	saysInWords(t, w.apply(), "Warning: Port 3 of vms17-8 was not set")
	saysInWords(t, w.apply("-refresh=false"), "1 changed")
	if got := flaps(t, a, 1, 3); got != "port 1: 1, port 3: 1" {
		t.Error(got)
	}
}

// onTheUpper is a configuration for the lower ToR with the upper one.
func onTheUpper(config string) string { return strings.ReplaceAll(config, "lower_tor", "upper_tor") }

// The port is not as it was just set, and then the agent dies: that story must be told, and the port kept.
func TestAgentThatDiesBeforeASecondLook(t *testing.T) {
	a := agenttest.Start(t)
	var dead atomic.Bool
	p := newPlugin(t)
	p.useFor(before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case dead.Load():
			w.WriteHeader(http.StatusBadGateway)
			return true
		case r.Method == http.MethodPatch:
			dead.Store(true)
			writeJSON(t, w, api.Muxes{"mbr-vms17-8-3": look(t, a, 3)}) // somebody was quicker
			return true
		}
		return false
	}), a.VMSet)
	s, words := p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}))
	mustSay(t, words, "ERROR: A proxy answers in place of the agent", "502 Bad Gateway", "Attempts: ")
	if s.value.IsNull() {
		t.Error("the port was written, but the state does not have it")
	}
}
