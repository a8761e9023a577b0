package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// ports is a mux_ports.p; each line is a port or an attribute.
func ports(ports string, lines ...string) string {
	return fmt.Sprintf("resource \"mux_ports\" \"p\" {\n  ports = {\n    %s\n  }\n  %s\n}\n", ports, strings.Join(lines, "\n  "))
}

const (
	upperSide = `{ active_side = "upper_tor" }`
	lowerSide = `{ active_side = "lower_tor" }`
)

func portsPlanIs(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction("mux_ports.p", action)}}
}

func TestPortsLifecycle(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	a.Flip(2) // so that restoring it differs from leaving it
	if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 2, api.UpperToR); err != nil {
		t.Fatal(err)
	}
	const restore = `on_destroy = "restore"`
	var writes atomic.Int32
	endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		return false
	})
	config := settingsFor(endpoint, a.VMSet)
	apply(t, resource.TestCase{
		CheckDestroy: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 0, "upper_tor", 6), agentHas(t, a, 3, "upper_tor", 2),
		),
		Steps: []resource.TestStep{{
			Config: config + ports("0 = "+lowerSide+"\n1 = "+upperSide+"\n2 = { active_side = \"upper_tor\", dropped = [\"nic\"] }", restore),
			Check: resource.ComposeAggregateTestCheckFunc(
				agentHas(t, a, 0, "lower_tor", 1), agentHas(t, a, 1, "upper_tor", 0), agentHas(t, a, 2, "upper_tor", 2, "nic"),
				resource.TestCheckResourceAttr("mux_ports.p", "ports.2.active_side", "upper_tor"),
				resource.TestCheckResourceAttr("mux_ports.p", "ports.2.dropped.#", "1"),
				resource.TestCheckNoResourceAttr("mux_ports.p", "ports.0.dropped.#"),
				resource.TestCheckResourceAttr("mux_ports.p", "vm_set", "vms17-8"),
				func(*terraform.State) error {
					if n := writes.Load(); n != 1 {
						return fmt.Errorf("three ports took %d writes, want 1", n)
					}
					return nil
				},
			),
		}, { // one changed, one added, and one taken out, which is put back
			Config:           config + ports("0 = "+upperSide+"\n1 = "+upperSide+"\n3 = "+lowerSide, restore),
			ConfigPlanChecks: portsPlanIs(plancheck.ResourceActionUpdate),
			Check: resource.ComposeAggregateTestCheckFunc(
				agentHas(t, a, 0, "upper_tor", 2), agentHas(t, a, 1, "upper_tor", 0),
				agentHas(t, a, 2, "lower_tor", 3, "upper_tor"), agentHas(t, a, 3, "lower_tor", 1),
				resource.TestCheckNoResourceAttr("mux_ports.p", "ports.2.active_side"),
			),
		}, { // drift is put right, and drops that are not managed are left alone
			PreConfig: func() {
				a.Flip(0)
				if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 1, api.NIC); err != nil {
					t.Fatal(err)
				}
			},
			Config:           config + ports("0 = "+upperSide+"\n1 = "+upperSide+"\n3 = "+lowerSide, restore),
			ConfigPlanChecks: portsPlanIs(plancheck.ResourceActionUpdate),
			Check:            resource.ComposeAggregateTestCheckFunc(agentHas(t, a, 0, "upper_tor", 4), agentHas(t, a, 1, "upper_tor", 0, "nic")),
		}, { // drift is ignored, and an edit of something else flips nothing
			PreConfig:        func() { a.Flip(0) },
			Config:           config + ports("0 = "+upperSide+"\n1 = "+upperSide+"\n3 = "+lowerSide, restore, `drift_policy = "ignore"`),
			ConfigPlanChecks: portsPlanIs(plancheck.ResourceActionUpdate), // of the side as well, which the refresh saw, and which is not written
			Check:            agentHas(t, a, 0, "lower_tor", 5),
		}, {
			PreConfig:        func() { a.Flip(1) },
			Config:           config + ports("0 = "+upperSide+"\n1 = "+upperSide+"\n3 = "+lowerSide, restore, `drift_policy = "ignore"`),
			ConfigPlanChecks: planIsEmpty(),
		}, {
			Config: config + ports("0 = "+upperSide+"\n1 = "+upperSide+"\n3 = "+lowerSide, restore, `drift_policy = "ignore"`, `timeouts = { read = "1m" }`),
			Check:  agentHas(t, a, 1, "lower_tor", 1, "nic"),
		}},
	})
}

func TestPortsImport(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(2))
	a.Flip(1)
	if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 1, api.NIC); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ id, ports string }{
		"id":                 {"vms17-8", "0 = " + upperSide + "\n1 = " + lowerSide},
		"URL, drops managed": {a.URL + "/mux/vms17-8", "0 = { active_side = \"upper_tor\", dropped = [] }\n1 = { active_side = \"lower_tor\", dropped = [\"nic\"] }"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := settings(a) + ports(tc.ports)
			apply(t, resource.TestCase{Steps: []resource.TestStep{{
				Config: config, ResourceName: "mux_ports.p", ImportState: true, ImportStateId: tc.id, ImportStatePersist: true,
			}, {
				Config: config, ConfigPlanChecks: planIsEmpty(),
				Check: agentHas(t, a, 1, "lower_tor", 1, "nic"),
			}}})
		})
	}
}

// portsOf makes the ports of a mux_ports, each "side" or "side,dropped…".
func (p *plugin) ports(sides map[string]string) tftypes.Value {
	typ := p.port.AttributeTypes["ports"]
	settings := object(p.t, typ.(tftypes.Map).ElementType)
	values := map[string]tftypes.Value{}
	for port, side := range sides {
		set := attrs{"active_side": side}
		if side, dropped, ok := strings.Cut(side, ","); ok {
			set = attrs{"active_side": side, "dropped": strings.FieldsFunc(dropped, func(r rune) bool { return r == ',' })}
		}
		values[port] = p.value(settings, set)
	}
	return tftypes.NewValue(typ, values)
}

func TestPortsImportByIdentityAndErrors(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	p := newPluginFor(t, "mux_ports")
	p.use(a)
	s := p.imported(tfprotov6.ImportResourceStateRequest{
		Identity: &tfprotov6.ResourceIdentityData{IdentityData: p.pack(p.identity, p.value(p.identity, attrs{"vm_set": "vms17-8"}))},
	})
	want := p.value(p.port, attrs{"vm_set": "vms17-8", "ports": p.ports(map[string]string{"0": "upper_tor,", "1": "upper_tor,"})})
	if !p.bare(s.value).Equal(want) {
		t.Errorf("got %s, want %s", s.value, want)
	}
	s, words := p.apply(s, p.value(p.port, attrs{
		"vm_set": "vms17-8", "on_destroy": "restore", "ports": p.ports(map[string]string{"0": "lower_tor", "1": "lower_tor"}),
	}))
	mustSay(t, words, "WARNING: Nothing to restore: Ports 0-1 of vms17-8 came by an import")
	p.use(a)
	_, words = p.destroy(s)
	mustSay(t, words, "WARNING: Nothing to restore")

	for id, says := range map[string]string{
		"vms17-8/3":                        "names no vm_set",
		"http://10.0.0.64:8080/vms17-8":    "names no vm_set",
		"ftp://10.0.0.64:8080/mux/vms17-8": "the scheme must be http or https",
	} {
		resp := must(p.server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: "mux_ports", ID: id}))(t)
		mustSay(t, said(resp.Diagnostics), "ERROR: Bad import id", says)
	}
}

func TestPortsPartialFailure(t *testing.T) {
	a := agenttest.Start(t)
	p := newPluginFor(t, "mux_ports")
	p.use(a)
	config := func(sides map[string]string) tftypes.Value {
		return p.value(p.port, attrs{"vm_set": a.VMSet, "ports": p.ports(sides)})
	}
	s, words := p.apply(resourceState{}, config(map[string]string{"0": "upper_tor", "1": "upper_tor", "2": "upper_tor"}))
	if words != "" {
		t.Fatal(words)
	}
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	all := map[string]string{"0": "lower_tor", "1": "lower_tor", "2": "lower_tor"}
	s, words = p.apply(s, config(all))
	mustSay(t, words, "ERROR: The switch refused the change", "Setting port 1 of vms17-8 failed", "mbr-vms17-8-1: ", "OFPFMFC_TABLE_FULL")
	if want := config(map[string]string{"0": "lower_tor", "1": "upper_tor", "2": "lower_tor"}); !p.bare(s.value).Equal(want) {
		t.Errorf("the state is %s, want it to say which ports were set: %s", s.value, want)
	}
	// The next apply writes the one that is left.
	s, words = p.apply(s, config(all))
	if words != "" || !p.bare(s.value).Equal(config(all)) {
		t.Errorf("got %s and %s", words, s.value)
	}
	for i := range 3 {
		if err := agentHas(t, a, i, "lower_tor", 1)(nil); err != nil {
			t.Error(err)
		}
	}
}

func TestPortsThatAreNotThere(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(6))
	a.RemoveBridge(2)
	a.AddBridge(2, "muxy-vms17-8-2", "enp1s0.2") // no mux: a port is missing
	p := newPluginFor(t, "mux_ports")
	p.use(a)
	config := func(ports ...string) tftypes.Value {
		sides := map[string]string{}
		for _, port := range ports {
			sides[port] = "lower_tor"
		}
		return p.value(p.port, attrs{"vm_set": a.VMSet, "ports": p.ports(sides)})
	}
	_, words := p.apply(resourceState{}, config("7", "8", "11"))
	mustSay(t, words, "WARNING: No such port: vms17-8 has no ports 7-8, 11 at present. Ports that exist: 0-1, 3-5.",
		"ERROR: No such port: vms17-8 has no ports 7-8, 11. Ports that exist: 0-1, 3-5.")
	s, words := p.apply(resourceState{}, config("2"))
	mustSay(t, words, "ERROR: The bridge is not a usable mux: The agent rejects bridge mbr-vms17-8-2 of port 2 of vms17-8")
	if !s.value.IsNull() {
		t.Errorf("a create that set nothing left %s", s.value)
	}

	s, words = p.apply(resourceState{}, config("0", "4", "5"))
	if words != "" {
		t.Fatal(words)
	}
	a.RemoveBridge(4)
	s, words = p.read(s)
	mustSay(t, words, "WARNING: No such port", "The state no longer holds port 4 of vms17-8")
	if want := config("0", "5"); !p.bare(s.value).Equal(want) {
		t.Errorf("the state is %s, want %s", s.value, want)
	}
	a.RemoveBridge(5)
	a.AddBridge(5, "muxy-vms17-8-5")
	p = newPluginFor(t, "mux_ports") // another run, which does not share the read before
	p.use(a)
	_, words = p.read(s)
	mustSay(t, words, "ERROR: The bridge is not a usable mux: The agent rejects bridge mbr-vms17-8-5")
}

func TestPortsAreRestoredWhereTheyCanBe(t *testing.T) {
	a := agenttest.Start(t)
	p := newPluginFor(t, "mux_ports")
	p.use(a)
	s, words := p.apply(resourceState{}, p.value(p.port, attrs{
		"vm_set": a.VMSet, "on_destroy": "restore", "ports": p.ports(map[string]string{"0": "lower_tor", "1": "lower_tor"}),
	}))
	if words != "" {
		t.Fatal(words)
	}
	a.RemoveBridge(0)
	p.use(a)
	if _, words = p.destroy(s); words != "" {
		t.Error(words)
	}
	if got := look(t, a, 1).ActiveSide; got != "upper_tor" {
		t.Errorf("port 1 is on %s: that port 0 is gone kept it from being restored", got)
	}
}

func TestPortKeys(t *testing.T) {
	p := newPluginFor(t, "mux_ports")
	for _, key := range []string{"", "x", "-1", "00", "1.0", "+1"} {
		config := p.value(p.port, attrs{"ports": p.ports(map[string]string{key: "upper_tor"})})
		resp := must(p.server.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{
			TypeName: "mux_ports", Config: p.pack(p.port, config),
		}))(t)
		mustSay(t, said(resp.Diagnostics), `must be a port index, such as "0" or "12"`)
	}
}

func TestPortsOnMuxSimulatorPy(t *testing.T) {
	a := agenttest.Start(t)
	p := newPluginFor(t, "mux_ports")
	p.useFor(before(t, a, oldService), a.VMSet)
	_, words := p.apply(resourceState{}, p.value(p.port, attrs{
		"vm_set": a.VMSet, "ports": p.ports(map[string]string{"0": "lower_tor", "1": "upper_tor,nic"}),
	}))
	if words != "" {
		t.Fatal(words)
	}
	for _, err := range []error{agentHas(t, a, 0, "lower_tor", 1)(nil), agentHas(t, a, 1, "upper_tor", 0, "nic")(nil)} {
		if err != nil {
			t.Error(err)
		}
	}
}
