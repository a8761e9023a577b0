import {
  to = mux_port.server0
  identity = {
    vm_set     = "vms17-8"
    port_index = 0
    # endpoint = "http://10.0.0.64:8080" when it is not the provider's
  }
}
