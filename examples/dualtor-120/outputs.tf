output "on_upper" {
  description = "The ports under test that begin on the upper ToR."
  value       = [for i, p in mux_ports.under_test.ports : tonumber(i) if p.active_side == "upper_tor"]
}

output "rejected" {
  description = "Bridges that are named like a mux and are not usable as one, with the reason."
  value       = { for r in data.mux_ports.found.rejected : r.bridge => r.reason }
}
