# terraform query -generate-config-out=ports.tf writes a resource and an import block for each port. Without a limit Terraform
# lists 100.
list "mux_port" "all" {
  provider = mux
  limit    = 1000
}

# With what each port is now.
list "mux_port" "with_state" {
  provider         = mux
  limit            = 1000
  include_resource = true

  config {
    vm_set = "vms17-8" # endpoint and vm_set are the provider's where they are left out
  }
}
