# All ports that the provider's agent serves for a vm_set:
terraform import mux_ports.all vms17-8

# By URL, on any agent:
terraform import mux_ports.all "$MUX_ENDPOINT/mux/vms17-8"
