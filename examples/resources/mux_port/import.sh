# By vm_set and port index, on the provider's agent:
terraform import mux_port.server0 vms17-8/0

# By the port's URL, on any agent:
terraform import mux_port.other_testbed http://10.0.0.65:8080/mux/vms21-1/0
