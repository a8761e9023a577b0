locals {
  # Ports as a test report names them.
  failed = ["http://10.0.0.64:8080/mux/vms17-8/3", "http://10.0.0.64:8080/mux/vms17-8/7"]
}

output "failed" {
  value = [for id in local.failed : provider::mux::parse_port_id(id).port_index]
}
