package provider_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// telling puts a server before an agent that changes what it tells of each port.
func telling(t testing.TB, a *agenttest.Agent, change func(*api.Status)) string {
	t.Helper()
	target, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Request.URL.Path, api.VMSetPath(a.VMSet)) {
			return nil
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var one api.Status
		var all api.Muxes
		if err := json.Unmarshal(body, &one); err == nil && one.Bridge != "" {
			change(&one)
			body, err = json.Marshal(one)
			if err != nil {
				return err
			}
		} else if err := json.Unmarshal(body, &all); err == nil {
			for bridge, s := range all {
				change(&s)
				all[bridge] = s
			}
			if body, err = json.Marshal(all); err != nil {
				return err
			}
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return srv.URL
}

// because gives a port that the agent calls unhealthy, and for whatever else says so, a condition. An agent that tells conditions
// itself is left alone.
func because(code string, also func(*api.Status) bool) func(*api.Status) {
	return func(s *api.Status) {
		kind, _ := api.ConditionKindOf(code)
		if len(s.Conditions) > 0 || s.Reason == "" && !also(s) {
			return
		}
		if s.Reason == "" {
			s.Reason = kind.Means
		}
		s.Healthy = s.Healthy && !kind.Unhealthy
		s.ReasonCode = code
		s.Conditions = []api.Condition{{Code: code, Reason: s.Reason, Cure: "look at " + s.Bridge}}
	}
}

func never(*api.Status) bool   { return false }
func port3(s *api.Status) bool { return s.PortIndex == 3 }

// A port that is wrong on the switch, and that a write mends, is planned and mended, without a reset.
func TestUnhealthyPortIsMended(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		was(t, a) // a test's drop, which is not Terraform's
		w := newWorkspace(t, settingsFor(telling(t, a, because(api.ConditionForeignFlow, never)), a.VMSet)+resource())
		w.apply()
		a.AddForeignFlow(3)
		out, code := w.run("plan", "-detailed-exitcode")
		if code != 2 {
			t.Fatalf("a foreign flow plans nothing:\n%s", out)
		}
		saysInWords(t, out, "-> (known after apply)", "1 to change")
		mustNotSay(t, out, "active_side", "foreign flow")
		w.apply()
		if err := agentHas(t, a, 3, "lower_tor", 1, api.UpperToR)(nil); err != nil {
			t.Error(err)
		}
		if s := look(t, a, 3); s.Reason != "" {
			t.Errorf("the port was not mended: %s", s.Reason)
		}
		mustNotSay(t, w.planned(), "Warning")
	})
}

// Where a write doesn't help, or must not happen, there is no plan; one warning for each vm_set says what is wrong.
func TestUnhealthyPortThatIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		tells  func(*api.Status)
		policy string
		break3 bool
		says   string
	}{
		"a write doesn't help":     {because(api.ConditionPortBlocked, port3), "correct", false, "(port_blocked). What helps: look at mbr-vms17-8-3"},
		"a port without a carrier": {because(api.ConditionPortDown, port3), "correct", false, "a port has no carrier (port_down)"},
		"drift is ignored":         {because(api.ConditionForeignFlow, never), "ignore", true, "foreign flow"},
		"an agent without codes": {func(s *api.Status) {
			s.Conditions, s.ReasonCode, s.Dropped = nil, "", nil
		}, "correct", true, "foreign flow"},
		"a code of tomorrow": {func(s *api.Status) {
			if s.PortIndex == 3 {
				s.Healthy, s.Conditions = false, []api.Condition{{Code: "of_tomorrow", Reason: "nobody knows yet"}}
			}
		}, "correct", false, "nobody knows yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			w := newWorkspace(t, settingsFor(telling(t, a, tc.tells), a.VMSet, `drift_policy = "`+tc.policy+`"`)+port(3, onLower)+ports("4 = "+upperSide))
			w.apply()
			if tc.break3 {
				a.AddForeignFlow(3)
			}
			for range 2 {
				out := w.planned()
				saysInWords(t, out, "Warning: Ports of vms17-8 are not as they should be", "port 3: ", tc.says)
				if n := strings.Count(out, "not as they should be"); n != 1 {
					t.Errorf("got %d warnings, want 1:\n%s", n, out)
				}
			}
			w.write(settingsFor(telling(t, a, tc.tells), a.VMSet, `drift_policy = "`+tc.policy+`"`) + port(3, onLower))
			w.apply() // and goes on working
		})
	}
}

// What one policy puts right by itself, another one warns of: whose resource is read first doesn't matter.
func TestUnhealthyPortsUnderBothPolicies(t *testing.T) {
	for _, first := range []int{3, 4} {
		a := agenttest.Start(t)
		p := newPlugin(t)
		p.useFor(telling(t, a, func(s *api.Status) {
			if code := map[int]string{3: api.ConditionForeignFlow, 4: api.ConditionPortBlocked}[s.PortIndex]; code != "" {
				s.Healthy, s.Conditions = false, []api.Condition{{Code: code, Reason: "it is so"}}
			}
		}), a.VMSet)
		said := map[int]string{}
		for _, port := range []int{first, 7 - first} {
			policy := map[int]string{3: "ignore", 4: "correct"}[port]
			said[port] = reads(p, resourceState{value: p.value(p.port, attrs{
				"vm_set": a.VMSet, "port_index": port, "active_side": "upper_tor", "drift_policy": policy,
			})})
		}
		mustSay(t, said[3], "port 3: it is so (foreign_flow)", `Under drift_policy = "ignore" Terraform plans nothing`)
		mustSay(t, said[4], "port 4: it is so (port_blocked)", "Setting such a port again doesn't mend it")
	}
}

// What a write doesn't mend may begin while one mends something else: that is no failure of the write, and a warning from then on.
func TestTroubleThatBeginsWhileAPortIsMended(t *testing.T) {
	a := agenttest.Start(t)
	var blocked atomic.Bool
	told := telling(t, a, func(s *api.Status) {
		switch {
		case s.PortIndex != 3:
		case blocked.Load():
			s.Healthy, s.Conditions = false, []api.Condition{{Code: api.ConditionPortBlocked, Reason: "it is down"}}
		default:
			s.Healthy, s.Conditions = false, []api.Condition{{Code: api.ConditionForeignFlow, Reason: "it is foreign"}}
		}
	})
	var writes atomic.Int32
	p := newPlugin(t)
	p.useFor(before(t, &agenttest.Agent{URL: told}, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			writes.Add(1)
			blocked.Store(true)
		}
		return false
	}), a.VMSet)
	config := p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "upper_tor"})
	s, words := p.read(resourceState{value: config})
	if words != "" {
		t.Fatal(words)
	}
	if s, words = p.apply(s, config); words != "" || writes.Load() != 1 {
		t.Errorf("after %d writes: %s", writes.Load(), words)
	}
	mustSay(t, reads(p, s), "WARNING: Ports of vms17-8 are not as they should be: port 3: it is down (port_blocked)")
}

// The data source says why.
func TestConditionsOfADataSource(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	w := newWorkspace(t, settingsFor(telling(t, a, because(api.ConditionPortBlocked, port3)), a.VMSet)+`
data "mux_port" "p" { port_index = 3 }
data "mux_ports" "all" {}
output "conditions" { value = jsonencode([data.mux_port.p.reason_code, data.mux_port.p.conditions]) }
output "same" { value = jsonencode(data.mux_port.p.conditions) == jsonencode(data.mux_ports.all.ports["3"].conditions) }
`)
	w.apply()
	var got []any
	if err := json.Unmarshal([]byte(w.ok("output", "-raw", "conditions")), &got); err != nil {
		t.Fatal(err)
	}
	kind, _ := api.ConditionKindOf(api.ConditionPortBlocked)
	want := []any{kind.Code, []any{map[string]any{"code": kind.Code, "reason": kind.Means, "cure": "look at mbr-vms17-8-3"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := strings.TrimSpace(w.ok("output", "-raw", "same")); got != "true" {
		t.Errorf("data.mux_ports says something else: %s", got)
	}
}

// The dropped of the status counts; the flows only where there is none.
func TestDroppedOfTheStatus(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	lost := func(s *api.Status) { // a lost flow is no drop
		if s.PortIndex == 3 {
			s.Flows[s.Ports.NIC], s.Dropped = nil, []string{}
		}
	}
	w := newWorkspace(t, settingsFor(telling(t, a, lost), a.VMSet)+port(3, onLower, `dropped = []`))
	w.apply()
	w.planned()
}

// Something keeps the port from being well: the apply says so in words.
func TestPortThatStaysUnhealthy(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		w := newWorkspace(t, settingsFor(telling(t, a, because(api.ConditionBothForward, port3)), a.VMSet)+resource())
		w.apply()
		out := w.fails("apply", "-auto-approve")
		kind, _ := api.ConditionKindOf(api.ConditionBothForward)
		saysInWords(t, out, "Error: The port is still not healthy", fmt.Sprintf("port 3: %s (both_forward)", kind.Means), "something keeps changing it")
		mustNotSay(t, out, "linkmgrd", "bug")
	})
}

const (
	escape    = "\x1b[2J\u202e" // clears a terminal, and turns text around
	harmless  = "\ufffd[2J\ufffd"
	foreigner = "no" + escape + "\nrm -rf"
	cleaned   = "no" + harmless + " rm -rf"
)

// What an agent says in an answer of 200 reaches a terminal as well, in warnings and in errors.
func TestWordsOfAnAgentArePrintable(t *testing.T) {
	a := agenttest.Start(t)
	condition := func(s *api.Status) {
		if s.PortIndex == 3 {
			s.Healthy, s.Conditions = false, []api.Condition{{Code: api.ConditionPortBlocked, Reason: foreigner, Cure: foreigner}}
		}
	}
	reason := func(s *api.Status) {
		if s.PortIndex == 3 {
			s.Healthy, s.Reason, s.Conditions = false, foreigner, nil
		}
	}
	unmended := func(s *api.Status) {
		condition(s)
		s.ActiveSide = api.UpperToR
	}
	overview := func(vmSet string, v api.VMSet) string {
		return before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != api.PathOverview {
				return false
			}
			writeJSON(t, w, api.Overview{VMSets: map[string]api.VMSet{vmSet: v}})
			return true
		})
	}
	rejected := []api.Rejected{{Bridge: foreigner + "-77", PortIndex: 77, Reason: foreigner}}
	for name, tc := range map[string]struct {
		endpoint string
		port     int // 77 is not there
		does     func(*plugin, resourceState) string
		says     string
	}{
		"a condition":          {telling(t, a, condition), 3, reads, "WARNING: Ports of vms17-8"},
		"a reason":             {telling(t, a, reason), 3, reads, "WARNING: Ports of vms17-8"},
		"a port that differs":  {telling(t, a, unmended), 3, sets, "ERROR: The port did not stay"},
		"a rejected bridge":    {overview(a.VMSet, api.VMSet{Ready: true, Rejected: rejected}), 77, reads, "ERROR: The bridge is not a usable mux"},
		"a vm_set that waits":  {overview(a.VMSet, api.VMSet{Reason: foreigner}), 77, reads, "ERROR: The agent is not ready"},
		"the name of a vm_set": {overview(foreigner, api.VMSet{}), 77, reads, "ERROR: The agent serves another vm_set"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t)
			p.useFor(tc.endpoint, a.VMSet)
			words := tc.does(p, resourceState{value: p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": tc.port, "active_side": "upper_tor"})})
			mustSay(t, words, tc.says, cleaned)
			if strings.ContainsAny(words, escape[:1]+"\u202e") {
				t.Errorf("a terminal would act on %q", words)
			}
		})
	}
}

// The names of vm_sets that a query finds are an agent's words too.
func TestNamesThatAQueryFindsArePrintable(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	for name, served := range map[string]bool{"found": true, "not found": false} {
		t.Run(name, func(t *testing.T) {
			p := newPluginFor(t, "mux_ports")
			p.useFor(before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == api.PathOverview:
					writeJSON(t, w, api.Overview{VMSets: map[string]api.VMSet{foreigner: {Ready: true}}})
					return true
				case served:
					r.URL.Path, r.URL.RawPath = api.VMSetPath(a.VMSet), ""
				}
				return false
			}), a.VMSet)
			for _, r := range p.list(attrs{}, false, 100) {
				words := r.DisplayName + said(r.Diagnostics)
				mustSay(t, words, cleaned)
				if strings.ContainsAny(words, escape[:1]+"\u202e") {
					t.Errorf("a terminal would act on %q", words)
				}
			}
		})
	}
}

func reads(p *plugin, s resourceState) string {
	_, words := p.read(s)
	return words
}

// sets asks for the lower ToR.
func sets(p *plugin, s resourceState) string {
	_, words := p.apply(s, p.with(s.value, "active_side", "lower_tor"))
	return words
}
