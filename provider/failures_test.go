package provider_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// flaps are the flap counters of ports.
func flaps(t *testing.T, a *agenttest.Agent, ports ...int) string {
	t.Helper()
	var all []string
	for _, port := range ports {
		all = append(all, fmt.Sprintf("port %d: %d", port, look(t, a, port).FlapCounter))
	}
	return strings.Join(all, ", ")
}

// A port that is not there and one that the switch refuses fail themselves: the others are set once, by the first apply.
func TestPortsWithADeadAndAnUnknownOne(t *testing.T) {
	for _, policy := range []string{"correct", "ignore"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			var dead atomic.Bool
			dead.Store(true)
			endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch && dead.Load() {
					a.FailNext(3, "OFPFMFC_TABLE_FULL")
				}
				return false
			})
			config := settingsFor(endpoint, a.VMSet, `drift_policy = "`+policy+`"`) +
				ports("0 = "+lowerSide+"\n1 = "+lowerSide+"\n3 = "+lowerSide+"\n99 = "+lowerSide)
			w := newWorkspace(t, config)
			out := w.apply()
			saysInWords(t, out, "Warning: Port 3 of vms17-8 was not set", "OFPFMFC_TABLE_FULL",
				"Warning: Port 99 of vms17-8 was not set", "No such port. vms17-8 has no port 99. Ports that exist: 0-11.")
			first := flaps(t, a, 0, 1)
			if first != "port 0: 1, port 1: 1" {
				t.Errorf("after the first apply: %s", first)
			}
			for range 2 {
				out = w.fails("apply", "-auto-approve")
				saysInWords(t, out, "mux_ports.p will be updated in-place", "Error: No such port", "Error: The switch refused the change", "Setting port 3 of vms17-8 failed")
				mustNotSay(t, out, "must be replaced")
			}
			dead.Store(false)
			w.write(strings.Replace(config, "99 = "+lowerSide, "", 1))
			w.apply()
			w.planned()
			if got := flaps(t, a, 0, 1, 3); got != first+", port 3: 1" {
				t.Errorf("after all: %s", got)
			}
		})
	}
}

// None of the ports can be set: then nothing is in the state, and nothing tainted.
func TestPortsOfWhichNoneIsSet(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	w := newWorkspace(t, settings(a)+ports("3 = "+lowerSide+"\n99 = "+lowerSide))
	a.FailNext(3, "OFPFMFC_TABLE_FULL")
	saysInWords(t, w.fails("apply", "-auto-approve"), "Error: No such port", "Error: The switch refused the change", "OFPFMFC_TABLE_FULL")
	if left := w.ok("state", "list"); left != "" {
		t.Errorf("the state holds %s", left)
	}
}

// A port that doesn't exist is told of at the plan, once for each vm_set; only the apply makes it an error, of that port.
func TestUnknownPortsAtAPlan(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	config := `
resource "mux_port" "all" {
  count       = 16
  port_index  = count.index
  active_side = "lower_tor"
}
`
	w := newWorkspace(t, settings(a)+config+ports("0 = "+upperSide+"\n77 = "+upperSide))
	out := w.ok("plan")
	saysInWords(t, out, "Warning: No such port", "Ports that exist: 0-11.", "Unless something makes it in the same apply")
	if n := strings.Count(out, "No such port"); n != 1 {
		t.Errorf("got %d warnings, want 1:\n%s", n, out)
	}
	w.write(settings(a) + config)
	out = w.fails("apply", "-auto-approve")
	if n := strings.Count(out, "Error: No such port"); n != 4 {
		t.Errorf("got %d errors, want one for each port that is not there:\n%s", n, out)
	}
	if got := len(strings.Fields(w.ok("state", "list"))); got != 12 {
		t.Errorf("%d ports are in the state, want those 12 that exist", got)
	}

	a.Stop()
	w = newWorkspace(t, settings(a)+config)
	mustNotSay(t, w.ok("plan"), "Warning")
}

// Under "ignore" another way to write the same endpoint writes nothing, and so does the change of policy itself.
func TestEndpointSpelledOtherwise(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		w := newWorkspace(t, settings(a, `drift_policy = "ignore"`)+resource())
		w.apply()
		a.Flip(3) // linkmgrd
		for _, endpoint := range []string{a.URL, a.URL + "/", "HTTP" + strings.TrimPrefix(a.URL, "http")} {
			w.write(settings(a, `drift_policy = "ignore"`) + resource(`endpoint = "`+endpoint+`"`))
			w.apply()
		}
		if err := agentHas(t, a, 3, "upper_tor", 2)(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestPolicyThatBecomesIgnoreWritesNothing(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		w := newWorkspace(t, settings(a)+resource())
		w.apply()
		a.Flip(3)
		w.ok("plan", "-refresh-only")
		w.ok("apply", "-refresh-only", "-auto-approve") // the state now holds the drift
		for _, config := range []string{settings(a) + resource(`drift_policy = "ignore"`), settings(a, `drift_policy = "ignore"`) + resource()} {
			w.write(config)
			w.apply()
			w.planned()
		}
		if err := agentHas(t, a, 3, "upper_tor", 2)(nil); err != nil {
			t.Error(err)
		}
		// And what is edited is written, at the same time as well.
		w.write(strings.Replace(settings(a)+resource(`drift_policy = "ignore"`), "lower_tor", "upper_tor", 1))
		w.apply()
		a.Flip(3)
		w.write(settings(a) + resource(`drift_policy = "ignore"`))
		w.apply()
		if err := agentHas(t, a, 3, "lower_tor", 3)(nil); err != nil {
			t.Error(err)
		}
	})
}

// A changed on_destroy, or a changed timeout, is nothing for the agent.
func TestSettingsOfTerraformAloneSendNothing(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		w := newWorkspace(t, settings(a)+resource())
		w.apply()
		var requests atomic.Int32
		endpoint := before(t, a, func(http.ResponseWriter, *http.Request) bool {
			requests.Add(1)
			return false
		})
		w.write(settingsFor(endpoint, a.VMSet) + resource(restore, `timeouts = { update = "1m" }`))
		saysInWords(t, w.apply("-refresh=false"), "1 changed")
		if n := requests.Load(); n != 0 {
			t.Errorf("got %d requests, want none", n)
		}
	})
}

// An answer of 200 that can't be read says that the write was done: the resource must not be lost.
func TestBrokenAnswerToAWrite(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	var once sync.Once
	endpoint := before(t, a, func(w http.ResponseWriter, r *http.Request) (answered bool) {
		if r.Method == http.MethodPatch {
			once.Do(func() {
				a.Flip(3) // as the write does
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"mbr-vms17-8-3":{"active_si`))
				answered = true
			})
		}
		return answered
	})
	w := newWorkspace(t, settingsFor(endpoint, a.VMSet)+port(3, onLower, restore))
	saysInWords(t, w.fails("apply", "-auto-approve"), "the answer is not the JSON of the mux API")
	w.apply()
	w.destroy()
	if got := look(t, a, 3).ActiveSide; got != "upper_tor" {
		t.Errorf("the port is on %s", got)
	}
}

// A token from a file ends with a line break. One that no header can hold is refused before anything is tried.
func TestToken(t *testing.T) {
	t.Parallel()
	needTerraform(t)
	a := agenttest.Start(t)
	var sent sync.Map
	endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		sent.Store(r.Header.Get("Authorization"), true)
		return false
	})
	w := newWorkspace(t, settingsFor(endpoint, a.VMSet, `token = file("${path.module}/tok")`)+port(3, onLower))
	file := filepath.Join(w.dir, "tok")
	for _, token := range []string{"s3cret\n", "two\nlines"} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if token == "s3cret\n" {
			w.apply()
			continue
		}
		out := w.fails("plan")
		saysInWords(t, out, "Error: Bad token", "one word of printable ASCII characters")
		mustNotSay(t, out, "Cannot reach", "two")
	}
	sent.Range(func(header, _ any) bool {
		if header != "Bearer s3cret" {
			t.Errorf("sent %q", header)
		}
		return true
	})
}

// What a proxy, or an overloaded agent, says is blamed on it, and is waited for once.
func TestAnswersThatMeanThatTheAgentIsDown(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		title  string
		not    string
	}{
		{429, "slow down", "Too many requests", "versions"},
		{500, `{"err_msg":"boom"}`, "The agent failed", "versions"},
		{502, "<html>bad gateway</html>", "A proxy answers in place of the agent", "versions"},
		{504, "", "A proxy answers in place of the agent", "versions"},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t, agenttest.Ports(1))
			endpoint := before(t, a, func(w http.ResponseWriter, _ *http.Request) bool {
				switch {
				case strings.HasPrefix(tc.body, "{"):
					w.Header().Set("Content-Type", "application/json")
				case strings.HasPrefix(tc.body, "<"):
					w.Header().Set("Content-Type", "text/html")
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
				return true
			})
			w := newWorkspace(t, impatient(settingsFor(endpoint, a.VMSet))+`
resource "mux_port" "all" {
  count       = 60
  port_index  = count.index
  active_side = "lower_tor"
}
`)
			out := w.fails("apply", "-auto-approve")
			if n := strings.Count(out, "Attempts: "); n != 1 {
				t.Errorf("%d ports waited for it and told the whole story, want 1:\n%s", n, out)
			}
			saysInWords(t, out, "Error: "+tc.title, "failed as well: "+strings.ToLower(tc.title[:1])+tc.title[1:])
			mustNotSay(t, out, tc.not, "no mux agent")
		})
	}
}

// An answer that names muxes is one, however bad: it tells nothing of the other ports.
func TestAnswersThatNameMuxesAreAnswers(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(4))
	endpoint := before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(api.ErrorCodeHeader, api.CodePartial)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"err_msg":"it is slow","failed":{"mbr-vms17-8-0":{"code":"timeout","err_msg":"it is slow","retryable":true}}}`))
		return true
	})
	w := newWorkspace(t, impatient(settingsFor(endpoint, a.VMSet))+`
resource "mux_port" "all" {
  count       = 4
  port_index  = count.index
  active_side = "lower_tor"
}
`)
	out := w.fails("apply", "-auto-approve")
	if n := strings.Count(out, "Attempts: "); n != 4 {
		t.Errorf("%d ports were tried, want all 4:\n%s", n, out)
	}
}

// A dead agent tells its story once, and not in thousands of lines.
func TestLinesOfADeadAgent(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(manyPorts))
	config := impatient(settings(a)) + `
resource "mux_port" "all" {
  count       = 120
  port_index  = count.index
  active_side = "lower_tor"
  on_destroy  = "restore"
}
`
	w := newWorkspace(t, config)
	w.apply()
	a.Stop()
	for _, args := range [][]string{{"plan"}, {"apply", "-auto-approve"}, {"destroy", "-auto-approve"}} {
		out := w.fails(args...)
		saysInWords(t, out, "Error: Cannot reach the agent")
		lines := strings.Count(out, "\n")
		t.Logf("%s with a dead agent: %d lines", args[0], lines)
		if lines > 3*manyPorts {
			t.Errorf("%s said %d lines, want at most 3 for each port", args[0], lines)
		}
	}
	out := w.fails("destroy", "-auto-approve", "-refresh=false")
	if n := strings.Count(out, "terraform state rm"); n != 1 {
		t.Errorf("the ways out are told %d times, want once", n)
	}
	_, errors, _ := strings.Cut(out, "Error: ")
	t.Logf("destroy without a refresh: %d lines from the first error on", strings.Count(errors, "\n"))

	// A create has to be an error, around which terraform says where the resource is written.
	out = newWorkspace(t, config).fails("apply", "-auto-approve")
	_, errors, _ = strings.Cut(out, "Error: ")
	t.Logf("create with a dead agent: %d lines from the first error on", strings.Count(errors, "\n"))
	for _, one := range strings.Split(errors, "\nError: ")[1:] {
		ours, _, _ := strings.Cut(one, "\n\n")
		if strings.Count(one, "Attempts: ") == 0 && strings.Count(ours, "\n") > 2 {
			t.Errorf("a further error has more than 3 lines of ours:\n%s", one)
		}
	}
}
