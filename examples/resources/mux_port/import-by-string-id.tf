import {
  to = mux_port.server0
  id = "vms17-8/0" # or the port's URL, "http://10.0.0.64:8080/mux/vms17-8/0"
}
