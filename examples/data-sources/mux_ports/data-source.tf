data "mux_ports" "all" {}

# The ports that are healthy and on the lower ToR.
data "mux_ports" "on_lower" {
  active_side = "lower_tor"
  healthy     = true
}

output "on_lower" {
  value = keys(data.mux_ports.on_lower.ports)
}

# Bridges that the testbed has and the agent can't serve, each with the reason.
output "rejected" {
  value = { for r in data.mux_ports.all.rejected : r.bridge => r.reason }
}

# A resource for each port that there is.
resource "mux_port" "server" {
  for_each = data.mux_ports.all.ports

  port_index  = each.value.port_index
  active_side = "upper_tor"
}
