import {
  to = mux_ports.all
  id = "vms17-8" # or the vm_set's URL, "http://10.0.0.64:8080/mux/vms17-8"
}
