provider "mux" {}

# The import needs the data before the plan, which `terraform test` gives it.
run "every_port_is_imported" {
  assert {
    condition     = length(mux_port.server) == 12 && mux_port.server["11"].active_side == "upper_tor"
    error_message = "Not every port has a resource."
  }
  assert {
    condition     = length(output.on_lower) == 0 && length(output.rejected) == 0
    error_message = "A fresh testbed has all ports on the upper ToR and rejects nothing."
  }
}
