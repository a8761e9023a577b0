# A few ports of another testbed. All others are left alone, and so are the drops of these.
resource "mux_ports" "pinned" {
  endpoint = "http://10.0.0.65:8080"
  vm_set   = "vms21-1"

  ports = {
    "0"  = { active_side = "upper_tor" }
    "28" = { active_side = "lower_tor" }
  }
}
