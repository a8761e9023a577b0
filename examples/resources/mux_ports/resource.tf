# Eight ports of a testbed with one request: even ones on the upper ToR, odd ones on the lower, nothing dropped. When this
# is destroyed, each port is put back as it was found.
resource "mux_ports" "all" {
  ports = {
    for i in range(8) : i => {
      active_side = i % 2 == 0 ? "upper_tor" : "lower_tor"
      dropped     = []
    }
  }
  on_destroy = "restore"
}
