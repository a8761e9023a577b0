import {
  to = mux_ports.all
  identity = {
    vm_set = "vms17-8"
    # endpoint = "http://10.0.0.64:8080" when it is not the provider's
  }
}
