provider "mux" {}

run "all_ports_are_set" {
  assert {
    condition     = length(mux_ports.all.ports) == 8 && mux_ports.all.ports["3"].active_side == "lower_tor"
    error_message = "The ports are not as they were set."
  }
  assert {
    condition     = mux_ports.pinned.ports["11"].active_side == "lower_tor"
    error_message = "Port 11 is not where it is pinned."
  }
}
