terraform {
  required_providers {
    mux = {
      source = "sonic-mux/mux"
    }
  }
}

variable "mux_token" {
  description = "What mux-agent's --token-file holds."
  type        = string
  sensitive   = true
  default     = null
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

  # For an agent behind TLS, with an endpoint such as "https://10.0.0.64:8443".
  token                = var.mux_token # or MUX_TOKEN
  ca_cert_pem          = file("${path.module}/ca.pem")
  client_cert_pem      = file("${path.module}/client.pem")
  client_key_pem       = file("${path.module}/client.key")
  insecure_skip_verify = false
}
