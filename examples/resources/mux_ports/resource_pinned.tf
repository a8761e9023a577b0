# A few ports. All others are left alone, and so are the drops of these.
resource "mux_ports" "pinned" {
  ports = {
    "8"  = { active_side = "upper_tor" }
    "11" = { active_side = "lower_tor" }
  }
}
