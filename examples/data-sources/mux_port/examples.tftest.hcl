provider "mux" {}

run "status_of_a_port" {
  assert {
    condition     = output.server0.active_side == "upper_tor" && output.server0.flaps == 0 && output.server0.nic != ""
    error_message = "The status of port 0 is not that of a fresh testbed."
  }
}
