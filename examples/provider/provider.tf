terraform {
  required_providers {
    mux = {
      source = "sonic-mux/mux"
    }
  }
}

# The agent on the test server, and the testbed whose ports it serves. MUX_ENDPOINT and MUX_VM_SET do the same.
provider "mux" {
  endpoint = "http://10.0.0.64:8080"
  vm_set   = "vms17-8"

  # Everything below is optional.
  request_timeout         = "10s" # one try of a request
  max_concurrent_requests = 10    # to one agent
  drift_policy            = "correct"

  retry = {
    max_elapsed = "30s" # all tries of a request
    min_delay   = "200ms"
    max_delay   = "5s"
  }
}
