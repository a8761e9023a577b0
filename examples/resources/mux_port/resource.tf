# Port 0 of the provider's testbed: the upper ToR is active. Drops are left to the tests.
resource "mux_port" "server0" {
  port_index  = 0
  active_side = "upper_tor"
}

# Port 1: packets from the server don't reach the lower ToR, and the port is put back as it was when this is destroyed.
resource "mux_port" "server1" {
  port_index  = 1
  active_side = "lower_tor"
  dropped     = ["lower_tor"]
  on_destroy  = "restore"
}

# linkmgrd on the ToRs switches this port by itself: set the side once, and don't undo what it does.
resource "mux_port" "server2" {
  port_index   = 2
  active_side  = "upper_tor"
  drift_policy = "ignore"

  timeouts = {
    create = "1m"
  }
}

# A port of a testbed with an agent of its own names both. A null endpoint is the provider's.
variable "endpoint" {
  type    = string
  default = null
}

resource "mux_port" "server3" {
  endpoint    = var.endpoint
  vm_set      = "vms17-8"
  port_index  = 3
  active_side = "upper_tor"
}
