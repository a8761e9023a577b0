# By vm_set and port index, on the provider's agent:
terraform import mux_port.server0 vms17-8/0

# By the port's URL, on any agent:
terraform import mux_port.server1 "$MUX_ENDPOINT/mux/vms17-8/1"
