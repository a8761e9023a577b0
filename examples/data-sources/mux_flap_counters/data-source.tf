data "mux_flap_counters" "all" {}

output "ports_that_flapped" {
  value = [for port, n in data.mux_flap_counters.all.counters : port if n > 0]
}
