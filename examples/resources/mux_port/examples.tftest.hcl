provider "mux" {}

run "ports_are_as_written" {
  assert {
    condition     = mux_port.server0.vm_set == "vms17-8" && mux_port.server0.active_side == "upper_tor"
    error_message = "Port 0 is not as it was set."
  }
  assert {
    condition     = mux_port.server1.dropped == toset(["lower_tor"])
    error_message = "Port 1 does not drop the lower ToR."
  }
  assert {
    condition     = mux_port.server1.original.active_side == "upper_tor" && mux_port.server2.healthy
    error_message = "Terraform does not know how the ports were found, or how they are."
  }
}
