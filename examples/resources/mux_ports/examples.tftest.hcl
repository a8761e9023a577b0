provider "mux" {}

# Its agent is not there.
override_resource {
  target = mux_ports.pinned
}

run "all_ports_are_set" {
  assert {
    condition     = length(mux_ports.all.ports) == 12 && mux_ports.all.ports["3"].active_side == "lower_tor"
    error_message = "The ports are not as they were set."
  }
}
