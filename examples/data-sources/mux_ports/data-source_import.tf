# An import of each port that there is, with Terraform 1.7 or later.
import {
  for_each = data.mux_ports.all.ports

  to = mux_port.server[each.key]
  id = "${data.mux_ports.all.vm_set}/${each.key}"
}
