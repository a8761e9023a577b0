# Fail every port over to the ToR that is standby now.
data "mux_ports" "all" {}

output "after_failover" {
  value = { for i, port in data.mux_ports.all.ports : i => provider::mux::other_side(port.active_side) }
}
