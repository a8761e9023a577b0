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
