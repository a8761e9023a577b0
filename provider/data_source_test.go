package provider_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// outputsAre compares outputs, each a string.
func outputsAre(want map[string]string) resource.TestCheckFunc {
	return func(s *terraform.State) error {
		for name, value := range want {
			if got := fmt.Sprint(s.RootModule().Outputs[name].Value); got != value {
				return fmt.Errorf("output %s is %s, want %s", name, got, value)
			}
		}
		return nil
	}
}

func TestDataSourcesAndFunctions(t *testing.T) {
	t.Parallel()
	has(t, "functions", since.functions)
	a := agenttest.Start(t, agenttest.Ports(4))
	a.Flip(1)
	a.Flip(3)
	if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, api.NIC); err != nil {
		t.Fatal(err)
	}
	a.RemoveBridge(2)
	a.AddBridge(2, "muxy-vms17-8-2", "enp1s0.2")
	s := look(t, a, 3)
	const functions = `
terraform {
  required_providers {
    mux = { source = "hashicorp/mux" }
  }
}
`
	config := functions + settings(a)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: config + `
data "mux_port" "p" { port_index = 3 }
data "mux_ports" "all" {}
data "mux_ports" "lower" { active_side = "lower_tor" }
data "mux_ports" "sick" { healthy = false }
data "mux_ports" "healthy_lower" {
  active_side = "lower_tor"
  healthy     = true
}
data "mux_flap_counters" "all" {}

output "all" { value = join(",", keys(data.mux_ports.all.ports)) }
output "lower" { value = join(",", keys(data.mux_ports.lower.ports)) }
output "sick" { value = join(",", keys(data.mux_ports.sick.ports)) }
output "healthy_lower" { value = join(",", keys(data.mux_ports.healthy_lower.ports)) }
output "rejected" { value = join(",", [for r in data.mux_ports.sick.rejected : "${r.bridge} ${r.port_index}"]) }
output "flaps" { value = join(",", [for i in ["0", "1", "3"] : data.mux_flap_counters.all.counters[i]]) }
output "same" { value = jsonencode(data.mux_port.p.flows) == jsonencode(data.mux_ports.all.ports["3"].flows) }
output "other" { value = provider::mux::other_side(data.mux_port.p.active_side) }
output "id" { value = jsonencode(provider::mux::parse_port_id("http://Server:8080/mux/vms17-8/3")) }
output "short_id" { value = jsonencode(provider::mux::parse_port_id("vms17-8/3")) }
`,
		Check: resource.ComposeAggregateTestCheckFunc(
			resource.TestCheckResourceAttr("data.mux_port.p", "vm_set", "vms17-8"),
			resource.TestCheckResourceAttr("data.mux_port.p", "bridge", s.Bridge),
			resource.TestCheckResourceAttr("data.mux_port.p", "active_side", "lower_tor"),
			resource.TestCheckResourceAttr("data.mux_port.p", "active_port", s.ActivePort),
			resource.TestCheckResourceAttr("data.mux_port.p", "standby_side", "upper_tor"),
			resource.TestCheckResourceAttr("data.mux_port.p", "standby_port", s.StandbyPort),
			resource.TestCheckResourceAttr("data.mux_port.p", "flap_counter", "1"),
			resource.TestCheckResourceAttr("data.mux_port.p", "healthy", "false"),
			resource.TestCheckResourceAttr("data.mux_port.p", "reason", s.Reason),
			resource.TestCheckResourceAttr("data.mux_port.p", "dropped.0", "nic"),
			resource.TestCheckResourceAttr("data.mux_port.p", "port_names.nic", s.Ports.NIC),
			resource.TestCheckResourceAttr("data.mux_port.p", "port_names.upper_tor", s.Ports.UpperToR),
			resource.TestCheckResourceAttr("data.mux_port.p", "port_names.lower_tor", s.Ports.LowerToR),
			outputsAre(map[string]string{
				"all": "0,1,3", "lower": "1,3", "sick": "3", "healthy_lower": "1", "rejected": "mbr-vms17-8-2 2",
				"flaps": "0,1,1", "same": "true", "other": "upper_tor",
				"id":       `{"endpoint":"http://server:8080","port_index":3,"vm_set":"vms17-8"}`,
				"short_id": `{"endpoint":null,"port_index":3,"vm_set":"vms17-8"}`,
			}),
		),
	}, {
		Config:      config + `data "mux_port" "p" { port_index = 9 }`,
		ExpectError: words("vms17-8 has no port 9. Ports that exist: 0-1, 3."),
	}, {
		Config:      config + `data "mux_port" "p" { port_index = 2 }`,
		ExpectError: words("The agent rejects bridge mbr-vms17-8-2"),
	}, {
		Config:      config + `data "mux_ports" "all" { vm_set = "vms99-1" }`,
		ExpectError: words("does not serve vms99-1; it serves vms17-8"),
	}, {
		Config:      config + `output "side" { value = provider::mux::other_side("nic") }`,
		ExpectError: words(`"nic" is not a side`),
	}, {
		Config:      config + `output "id" { value = provider::mux::parse_port_id("vms17-8") }`,
		ExpectError: words("names no port"),
	}, {
		Config: settings(a),
	}}})
}

// The ports of one testbed are found by a data source and managed one by one.
func TestPortsFromADataSource(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(3))
	a.Flip(1)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + `
data "mux_ports" "all" {}
resource "mux_ports" "all" {
  ports = { for i, p in data.mux_ports.all.ports : i => { active_side = "lower_tor" } }
}`,
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 0, "lower_tor", 1), agentHas(t, a, 1, "lower_tor", 1), agentHas(t, a, 2, "lower_tor", 1),
		),
	}}})
}

func TestDataSourcesOnMuxSimulatorPy(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(3))
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settingsFor(before(t, a, oldService), a.VMSet) + `data "mux_ports" "all" {}`,
		Check: resource.ComposeAggregateTestCheckFunc(
			resource.TestCheckResourceAttr("data.mux_ports.all", "ports.%", "3"),
			resource.TestCheckResourceAttr("data.mux_ports.all", "rejected.#", "0"),
		),
	}}})
}
