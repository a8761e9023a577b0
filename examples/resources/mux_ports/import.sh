# All ports that the provider's agent serves for a vm_set:
terraform import mux_ports.all vms17-8

# By URL, on any agent:
terraform import mux_ports.other_testbed http://10.0.0.65:8080/mux/vms21-1
