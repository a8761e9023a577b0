package provider_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const restore = `on_destroy = "restore"`

// either is port 3 of a testbed on the lower ToR, by each of the resources, and the resource's address.
func either(t *testing.T, test func(t *testing.T, resource func(lines ...string) string, address string)) {
	t.Run("mux_port", func(t *testing.T) {
		t.Parallel()
		test(t, func(lines ...string) string { return port(3, append(lines, onLower)...) }, "mux_port.p")
	})
	t.Run("mux_ports", func(t *testing.T) {
		t.Parallel()
		test(t, func(lines ...string) string { return ports("3 = "+lowerSide, lines...) }, "mux_ports.p")
	})
}

// was drops the upper ToR of port 3, so that its original is more than a side.
func was(t *testing.T, a *agenttest.Agent) {
	t.Helper()
	if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, api.UpperToR); err != nil {
		t.Fatal(err)
	}
}

// isBack checks that port 3 is as was left it.
func isBack(t *testing.T, a *agenttest.Agent, out string) {
	t.Helper()
	if err := agentHas(t, a, 3, "upper_tor", look(t, a, 3).FlapCounter, api.UpperToR)(nil); err != nil {
		t.Errorf("the port was not put back: %v\n%s", err, out)
	}
}

// Core passes no private state for a tainted object: the original must not live there.
func TestTaintedPortIsRestored(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, address string) {
		a := agenttest.Start(t)
		was(t, a)
		w := newWorkspace(t, settings(a)+resource(restore))
		w.apply()
		w.ok("taint", address)
		w.apply()
		out := w.destroy()
		mustNotSay(t, out, "Warning", "import")
		isBack(t, a, out)
	})
}

// A port that is kept for the resource that replaces it has the original of the one before.
func TestOriginalIsHandedOver(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, address string) {
		a := agenttest.Start(t)
		was(t, a)
		w := newWorkspace(t, settings(a)+resource())
		w.apply()
		w.apply("-replace=" + address)
		w.ok("taint", address)
		w.apply("-refresh=false")
		if err := agentHas(t, a, 3, "lower_tor", 1, api.UpperToR)(nil); err != nil {
			t.Errorf("a replacement that changes nothing has flapped: %v", err)
		}
		w.write(settings(a) + resource(restore))
		mustNotSay(t, w.apply(), "Warning")
		isBack(t, a, w.destroy())
	})
}

// The write is done, its answer is lost, and all that follows is refused, until the budget is spent.
func TestCreateWhoseAnswerIsLostIsRestored(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		was(t, a)
		endpoint, loses := losing(t, a)
		loses.Store(true)
		w := newWorkspace(t, impatient(settingsFor(endpoint, a.VMSet))+resource(restore))
		w.fails("apply", "-auto-approve")
		loses.Store(false)
		w.apply()
		out := w.destroy()
		mustNotSay(t, out, "Warning")
		isBack(t, a, out)
	})
}

// The replacement cannot be set: what Terraform knows of the port must not go with the one that was destroyed.
func TestReplacementThatFailsKeepsTheOriginal(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, address string) {
		a := agenttest.Start(t)
		was(t, a)
		var refuse atomic.Bool
		endpoint := before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPatch && refuse.Load() {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set(api.ErrorCodeHeader, api.CodeSwitch)
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = w.Write([]byte(`{"err_msg":"table full","failed":{"mbr-vms17-8-3":{"code":"switch_error","err_msg":"table full"}}}`))
				return true
			}
			return false
		})
		w := newWorkspace(t, settingsFor(endpoint, a.VMSet)+resource())
		w.apply()
		refuse.Store(true)
		saysInWords(t, w.fails("apply", "-auto-approve", "-replace="+address), "table full")
		refuse.Store(false)
		w.write(settingsFor(endpoint, a.VMSet) + resource(restore))
		w.apply()
		w.apply()
		isBack(t, a, w.destroy())
	})
}

// The new resource takes the port over before the old one gives it up, which must not undo it.
func TestCreateBeforeDestroy(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, address string) {
		a := agenttest.Start(t)
		w := newWorkspace(t, settings(a)+resource(restore, `lifecycle { create_before_destroy = true }`))
		w.apply()
		w.ok("taint", address)
		out := w.apply()
		saysInWords(t, out, "Warning: The port was not restored", "create_before_destroy", "port 3: upper_tor with dropped []")
		mustNotSay(t, out, "managed twice")
		if err := agentHas(t, a, 3, "lower_tor", 1)(nil); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		w.planned()
	})
}

// old010 is the private state of version 0.1.0 with the original of port 3.
func old010(t *testing.T, key, value string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string][]byte{key: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// State of version 0.1.0 knows nothing of original and healthy, and has the originals in its private state.
func TestStateOf010(t *testing.T) {
	const originals = `{"3":{"active_side":"upper_tor","dropped":["upper_tor"]}}`
	for typeName, raw := range map[string]string{
		"mux_port":  `{"active_side":"lower_tor","dropped":null,"drift_policy":null,"endpoint":null,"on_destroy":"restore","port_index":3,"timeouts":null,"vm_set":"vms17-8"}`,
		"mux_ports": `{"ports":{"3":{"active_side":"lower_tor","dropped":null}},"drift_policy":null,"endpoint":null,"on_destroy":"restore","timeouts":null,"vm_set":"vms17-8"}`,
	} {
		for _, refreshed := range []bool{true, false} {
			t.Run(typeName+map[bool]string{true: ", refreshed", false: ""}[refreshed], func(t *testing.T) {
				a := agenttest.Start(t)
				was(t, a)
				a.Flip(3)
				p := newPluginFor(t, typeName)
				p.use(a)
				upgraded := must(p.server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
					TypeName: typeName, RawState: &tfprotov6.RawState{JSON: []byte(raw)},
				}))(t)
				p.quiet(upgraded.Diagnostics)
				s := resourceState{p.unpack(p.port, upgraded.UpgradedState), old010(t, "originals", originals)}
				config := s.value
				if refreshed {
					var words string
					if s, words = p.read(s); words != "" {
						t.Fatal(words)
					}
					if got := s.value.String(); !strings.Contains(got, `"original":tftypes`) || strings.Contains(string(s.private), "originals") {
						t.Errorf("the original was not moved: %s, %s", got, s.private)
					}
					p.emptyPlan(s, config)
				}
				if s, words := p.destroy(s); words != "" || !s.value.IsNull() {
					t.Errorf("got %s and %s", words, s.value)
				}
				isBack(t, a, "")
			})
		}
	}
}

// The plan takes the original from the private state as the apply does, also where nothing could be read.
func TestPlanOfStateOf010(t *testing.T) {
	const originals = `{"3":{"active_side":"upper_tor","dropped":["upper_tor"]}}`
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	for name, endpointLater := range map[string]bool{"not refreshed": false, "endpoint not known yet": true} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.Start(t)
			p := newPlugin(t)
			s := resourceState{
				p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}), old010(t, "originals", originals),
			}
			p.use(a)
			if endpointLater {
				p.quiet(p.configure(attrs{"vm_set": a.VMSet, "endpoint": unknown}, false).Diagnostics)
				var words string
				if s, words = p.read(s); words != "" {
					t.Fatal(words)
				}
			}
			config := p.with(s.value, "active_side", "upper_tor")
			plan := p.plan(s, config)
			p.quiet(plan.Diagnostics)
			planned := p.attribute(p.unpack(p.port, plan.PlannedState), "original")
			p.use(a)
			after, words := p.apply(s, config)
			if words != "" {
				t.Fatal(words)
			}
			was := p.value(object(t, p.port.AttributeTypes["original"]), attrs{"active_side": "upper_tor", "dropped": []string{"upper_tor"}})
			if applied := p.attribute(after.value, "original"); !planned.Equal(was) || !applied.Equal(was) {
				t.Errorf("the original is planned as %s, and is then %s", planned, applied)
			}
		})
	}
}

// What an import found of drops stays undecided over the upgrade.
func TestImportOf010(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.use(a)
	s := resourceState{
		p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "upper_tor", "dropped": []string{}}), old010(t, "imported", "[3]"),
	}
	s, words := p.read(s)
	if words != "" {
		t.Fatal(words)
	}
	p.emptyPlan(s, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "upper_tor"}))
}

// emptyPlan fails the test when a configuration plans a change.
func (p *plugin) emptyPlan(s resourceState, config tftypes.Value) {
	p.t.Helper()
	plan := p.plan(s, config)
	p.quiet(plan.Diagnostics)
	if got := p.unpack(p.port, plan.PlannedState); !got.Equal(s.value) {
		p.t.Errorf("the plan is %s, want the state: %s", got, s.value)
	}
}

// A port that is taken out and can't be put back stays in the state.
func TestRemovedPortThatCantBeRestored(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	w := newWorkspace(t, settings(a)+ports("1 = "+lowerSide+"\n3 = "+lowerSide, restore))
	w.apply()
	w.write(settings(a) + ports("1 = "+lowerSide, restore))
	a.FailNext(3, "OFPFMFC_TABLE_FULL")
	saysInWords(t, w.fails("apply", "-auto-approve"), "Error: The port was not restored", "OFPFMFC_TABLE_FULL", "The state still holds port 3 of vms17-8")
	out := w.apply()
	saysInWords(t, out, "1 changed")
	for port, side := range map[int]string{1: "lower_tor", 3: "upper_tor"} {
		if got := look(t, a, port).ActiveSide; got != side {
			t.Errorf("port %d is on %s, want %s", port, got, side)
		}
	}
	w.planned()
}

// What the error of a restore names has to work while the agent is away.
func TestWaysOutOfARestore(t *testing.T) {
	for name, tc := range map[string]struct {
		needs firstIn
		out   func(w *workspace, provider string, resource func(...string) string, address string)
	}{
		"state rm": {firstIn{"1.0.0", "1.6.0"}, func(w *workspace, _ string, _ func(...string) string, address string) {
			w.ok("state", "rm", address)
		}},
		"removed block": {since.removed, func(w *workspace, provider string, _ func(...string) string, address string) {
			w.write(provider + "removed {\n  from = " + address + "\n  lifecycle { destroy = false }\n}\n")
			w.apply("-refresh=false")
		}},
		"keep, then destroy": {firstIn{"1.0.0", "1.6.0"}, func(w *workspace, provider string, resource func(...string) string, _ string) {
			w.write(provider + resource(`on_destroy = "keep"`))
			w.apply("-refresh=false")
			w.destroy("-refresh=false")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			either(t, func(t *testing.T, resource func(...string) string, address string) {
				has(t, name, tc.needs)
				a := agenttest.Start(t)
				provider := impatient(settings(a))
				w := newWorkspace(t, provider+resource(restore))
				w.apply()
				a.Stop()
				out := w.fails("destroy", "-auto-approve", "-refresh=false")
				saysInWords(t, out, "Error: The port was not restored", "terraform state rm ADDRESS", "a removed block in place of the resource",
					`on_destroy = "keep", then terraform apply -refresh=false, then terraform destroy -refresh=false`)
				tc.out(w, provider, resource, address)
				if left := w.ok("state", "list"); left != "" {
					t.Errorf("the state still holds %s", left)
				}
			})
		})
	}
}

// Two resources that have the same port are told of, at the apply that makes the second and at each refresh.
func TestPortManagedTwice(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	both := settings(a) + port(3, onLower) + ports("2 = "+lowerSide+"\n3 = "+lowerSide)
	w := newWorkspace(t, both)
	saysInWords(t, w.apply(), "Warning: A port is managed twice", "Port 3 of vms17-8 belongs to more than one resource")
	saysInWords(t, w.planned(), "Warning: A port is managed twice")
	w.write(settings(a) + ports("2 = "+lowerSide+"\n3 = "+lowerSide))
	w.apply()
	mustNotSay(t, w.planned(), "managed twice")
	mustNotSay(t, w.apply("-replace=mux_ports.p"), "managed twice")
	w.ok("taint", "mux_ports.p")
	mustNotSay(t, w.apply(), "managed twice")
}
