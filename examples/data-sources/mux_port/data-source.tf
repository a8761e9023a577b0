data "mux_port" "server0" {
  port_index = 0
}

output "server0" {
  value = {
    active_side = data.mux_port.server0.active_side
    flaps       = data.mux_port.server0.flap_counter
    nic         = data.mux_port.server0.port_names.nic
  }
}

# A plan that finds a sick port says so.
check "server0" {
  assert {
    condition     = data.mux_port.server0.healthy
    error_message = "Port 0 is not healthy: ${data.mux_port.server0.reason}"
  }
}
