# terraform query -generate-config-out=ports.tf writes a resource and an import block for each port.
list "mux_port" "all" {
  provider = mux
}

# Those of another testbed.
list "mux_port" "other_testbed" {
  provider         = mux
  include_resource = true

  config {
    endpoint = "http://10.0.0.65:8080"
    vm_set   = "vms21-1"
  }
}
