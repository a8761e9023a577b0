package provider_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// invoke validates, plans and invokes an action, and returns its progress followed by what was said.
func (p *plugin) invoke(name string, set attrs) string {
	p.t.Helper()
	server, ok := p.server.(tfprotov6.ActionServer)
	if !ok {
		p.t.Fatal("the provider has no actions")
	}
	schema := p.schemas.ActionSchemas[name]
	if schema == nil {
		p.t.Fatalf("there is no action %s", name)
	}
	typ := object(p.t, schema.Schema.ValueType())
	config := p.pack(typ, p.value(typ, set))
	valid := must(server.ValidateActionConfig(p.t.Context(), &tfprotov6.ValidateActionConfigRequest{ActionType: name, Config: config}))(p.t)
	if words := said(valid.Diagnostics); words != "" {
		return words
	}
	plan := must(server.PlanAction(p.t.Context(), &tfprotov6.PlanActionRequest{ActionType: name, Config: config}))(p.t)
	if words := said(plan.Diagnostics); words != "" {
		return words
	}
	stream := must(server.InvokeAction(p.t.Context(), &tfprotov6.InvokeActionRequest{ActionType: name, Config: config}))(p.t)
	var lines []string
	for event := range stream.Events {
		switch e := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			lines = append(lines, e.Message)
		case tfprotov6.CompletedInvokeActionEventType:
			if words := said(e.Diagnostics); words != "" {
				lines = append(lines, words)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func portSet(ports ...int) tftypes.Value {
	values := make([]tftypes.Value, len(ports))
	for i, port := range ports {
		values[i] = tftypes.NewValue(tftypes.Number, port)
	}
	return tftypes.NewValue(tftypes.Set{ElementType: tftypes.Number}, values)
}

func TestActions(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	p := newPlugin(t)
	p.use(a)
	has := func(port int, side string, flaps int, dropped ...string) {
		t.Helper()
		if err := agentHas(t, a, port, side, flaps, dropped...)(nil); err != nil {
			t.Error(err)
		}
	}
	does := func(name string, set attrs, want string) {
		t.Helper()
		if got := p.invoke(name, set); got != want {
			t.Errorf("%s said %q, want %q", name, got, want)
		}
	}

	does("mux_toggle", attrs{}, "Toggled ports 0-2 of vms17-8.")
	does("mux_toggle", attrs{"ports": portSet(2, 0)}, "Toggled ports 0, 2 of vms17-8.")
	has(0, "upper_tor", 2)
	has(1, "lower_tor", 1)

	does("mux_set_side", attrs{"active_side": "lower_tor"}, "Set ports 0-2 of vms17-8.")
	has(0, "lower_tor", 3)
	has(1, "lower_tor", 1)

	does("mux_drop", attrs{"ports": portSet(1), "sides": []string{"nic"}}, "Dropped sides of port 1 of vms17-8.")
	does("mux_drop", attrs{"ports": portSet(1), "sides": []string{"upper_tor", "nic"}}, "Dropped sides of port 1 of vms17-8.")
	has(1, "lower_tor", 1, "nic", "upper_tor")
	does("mux_output", attrs{"sides": []string{"nic"}}, "Restored sides of ports 0-2 of vms17-8.")
	has(1, "lower_tor", 1, "upper_tor")
	does("mux_reset", attrs{"ports": portSet(1)}, "Reset port 1 of vms17-8.")
	has(1, "lower_tor", 1)
	does("mux_drop", attrs{"sides": []string{"lower_tor"}}, "Dropped sides of ports 0-2 of vms17-8.")
	does("mux_reset", attrs{}, "Reset all ports of vms17-8.")
	has(2, "lower_tor", look(t, a, 2).FlapCounter)

	does("mux_clear_flap_counter", attrs{"ports": portSet(1)}, "Cleared the flap counters of port 1 of vms17-8.")
	has(0, "lower_tor", 3)
	has(1, "lower_tor", 0)
	does("mux_clear_flap_counter", attrs{}, "Cleared the flap counters of all ports of vms17-8.")
	has(0, "lower_tor", 0)
	does("mux_reload", attrs{}, "Reloaded all ports of vms17-8.")

	other := agenttest.Start(t, agenttest.VMSet("vms21-1"), agenttest.Ports(1))
	does("mux_toggle", attrs{"endpoint": other.URL, "vm_set": "vms21-1"}, "Toggled port 0 of vms21-1.")
	if got := look(t, other, 0).ActiveSide; got != "lower_tor" {
		t.Errorf("the other agent's port is on %s", got)
	}
}

func TestActionsThatFail(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	p := newPlugin(t)
	p.use(a)
	for name, tc := range map[string]struct {
		action string
		set    attrs
		says   string
	}{
		"unknown port":         {"mux_toggle", attrs{"ports": portSet(1, 7)}, "vms17-8 has no port 7. Ports that exist: 0-2."},
		"unknown port, reset":  {"mux_reset", attrs{"ports": portSet(7)}, "vms17-8 has no port 7. Ports that exist: 0-2."},
		"unknown vm_set":       {"mux_reload", attrs{"vm_set": "vms99-1"}, "does not serve vms99-1; it serves vms17-8"},
		"no ports":             {"mux_toggle", attrs{"ports": portSet()}, "must contain at least 1 elements"},
		"no sides":             {"mux_drop", attrs{"sides": []string{}}, "must contain at least 1 elements"},
		"a word for no side":   {"mux_output", attrs{"sides": []string{"left"}}, `got: "left"`},
		"toggle is a verb":     {"mux_set_side", attrs{"active_side": "toggle"}, `got: "toggle"`},
		"agent without scheme": {"mux_reload", attrs{"endpoint": "server:8080"}, "it has no scheme"},
	} {
		t.Run(name, func(t *testing.T) { mustSay(t, p.invoke(tc.action, tc.set), "ERROR: ", tc.says) })
	}
	for i := range 3 {
		if s := look(t, a, i); s.FlapCounter != 0 {
			t.Errorf("port %d was changed by an action that failed", i)
		}
	}
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	mustSay(t, p.invoke("mux_toggle", attrs{}), "ERROR: The switch refused the change", "OFPFMFC_TABLE_FULL")
}

// A port that can't be reset keeps no other from it.
func TestResetOfPortsOfWhichOneFails(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	p := newPlugin(t)
	p.use(a)
	if _, err := dial(t, a).DropAll(t.Context(), a.VMSet, api.NIC); err != nil {
		t.Fatal(err)
	}
	a.FailNext(0, "OFPFMFC_TABLE_FULL")
	mustSay(t, p.invoke("mux_reset", attrs{"ports": portSet(0, 1, 2)}), "ERROR: The switch refused the change", a.URL+api.PortPath(a.VMSet, 0), "OFPFMFC_TABLE_FULL")
	for port, dropped := range [][]string{{api.NIC}, nil, nil} {
		if err := agentHas(t, a, port, api.UpperToR, 0, dropped...)(nil); err != nil {
			t.Error(err)
		}
	}
}

// An action on all ports of which the agent knows itself asks for nothing before.
func TestActionsOnAllPortsAreOneRequest(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	requests := make(chan string, 10)
	p := newPlugin(t)
	p.useFor(before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		requests <- r.Method + " " + r.URL.Path
		return false
	}), a.VMSet)
	for action, path := range map[string]string{"mux_reset": "/reset", "mux_clear_flap_counter": "/clear_flap_counter", "mux_reload": "/reload"} {
		p.invoke(action, attrs{})
		var got []string
		for len(requests) > 0 {
			got = append(got, <-requests)
		}
		if want := "POST " + api.VMSetPath(a.VMSet) + path; len(got) != 1 || got[0] != want {
			t.Errorf("%s has sent %q, want %q alone", action, got, want)
		}
	}
}

// The answer to a toggle is lost: the repeat must not toggle back.
func TestToggleWhoseAnswerIsLost(t *testing.T) {
	a := agenttest.Start(t)
	var once sync.Once
	endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			once.Do(func() {
				a.Flip(3)
				panic(http.ErrAbortHandler)
			})
		}
		return false
	})
	p := newPlugin(t)
	p.useFor(endpoint, a.VMSet)
	if got := p.invoke("mux_toggle", attrs{"ports": portSet(3)}); got != "Toggled port 3 of vms17-8." {
		t.Error(got)
	}
	if s := look(t, a, 3); s.ActiveSide != api.LowerToR || s.FlapCounter != 1 {
		t.Errorf("the port is on %s after %d flaps, want lower_tor after 1", s.ActiveSide, s.FlapCounter)
	}
}

func TestActionWithUnknownEndpoint(t *testing.T) {
	p := newPlugin(t)
	p.quiet(p.configure(attrs{"vm_set": "vms17-8"}, false).Diagnostics)
	server := p.server.(tfprotov6.ActionServer)
	typ := object(t, p.schemas.ActionSchemas["mux_toggle"].Schema.ValueType())
	config := p.pack(typ, p.value(typ, attrs{"endpoint": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}))
	for _, allowed := range []bool{false, true} {
		plan := must(server.PlanAction(t.Context(), &tfprotov6.PlanActionRequest{
			ActionType: "mux_toggle", Config: config,
			ClientCapabilities: &tfprotov6.PlanActionClientCapabilities{DeferralAllowed: allowed},
		}))(t)
		p.quiet(plan.Diagnostics)
		if (plan.Deferred != nil) != allowed {
			t.Errorf("with deferral allowed = %t the action was deferred: %+v", allowed, plan.Deferred)
		}
	}
}

func TestActionInTerraform(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	applyFrom(t, tfversion.SkipBelow(tfversion.Version1_14_0), resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + `
resource "terraform_data" "t" {
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.mux_toggle.p]
    }
  }
}
action "mux_toggle" "p" {
  config {
    ports = [3]
  }
}`,
		Check: agentHas(t, a, 3, "lower_tor", 1),
	}}})
}
