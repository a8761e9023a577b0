# A dualtor-120 testbed: 112 muxes on one test server, of which 56 carry the tests.
#
# The ports under test start on the ToR that the plan of the night says and may be moved by linkmgrd and by the tests. The
# others are parked on the upper ToR and pinned there, cut off from the lower ToR, so that their servers don't answer for
# the ports under test. `terraform destroy` puts all of them back as they were found.
terraform {
  required_version = ">= 1.8"
  required_providers {
    mux = {
      source = "sonic-mux/mux"
    }
  }
}

provider "mux" {
  endpoint = var.endpoint
  vm_set   = var.vm_set
}

# What is really there. A check does not stop the plan: a testbed with a broken mux is still good for most tests.
data "mux_ports" "found" {}

check "testbed" {
  assert {
    condition     = length(data.mux_ports.found.ports) == var.port_count
    error_message = "The testbed has ${length(data.mux_ports.found.ports)} muxes of ${var.port_count}."
  }
  assert {
    condition     = length(data.mux_ports.found.rejected) == 0
    error_message = "Not served: ${join("; ", [for r in data.mux_ports.found.rejected : "${r.bridge}: ${r.reason}"])}."
  }
}

locals {
  indexes    = range(var.port_count)
  under_test = [for i in local.indexes : i if i % 2 == 0]
  parked     = [for i in local.indexes : i if i % 2 == 1]

  # Half of the ports under test begin on each ToR when the night is balanced.
  sides = {
    upper    = [for i in local.under_test : "upper_tor"]
    lower    = [for i in local.under_test : "lower_tor"]
    balanced = [for n, i in local.under_test : n % 2 == 0 ? "upper_tor" : "lower_tor"]
  }
}

resource "mux_ports" "under_test" {
  ports = { for n, i in local.under_test : i => { active_side = local.sides[var.night][n] } }

  drift_policy = "ignore" # linkmgrd decides from here on
  on_destroy   = "restore"
}

resource "mux_ports" "parked" {
  ports = { for i in local.parked : i => { active_side = "upper_tor", dropped = ["lower_tor"] } }

  drift_policy = "correct"
  on_destroy   = "restore"
}
