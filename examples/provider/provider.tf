terraform {
  required_providers {
    mux = {
      source = "sonic-mux/mux"
    }
  }
}

variable "mux_token" {
  description = "What mux-agent's --token-file holds, such as file(\"token\")."
  type        = string
  sensitive   = true
  default     = null
}

variable "mux_tls" {
  description = "For an agent behind TLS: certificates and a key as PEM, such as file(\"ca.pem\")."
  type        = object({ ca = optional(string), cert = optional(string), key = optional(string) })
  sensitive   = true
  default     = {}
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
  ca_cert_pem          = var.mux_tls.ca
  client_cert_pem      = var.mux_tls.cert
  client_key_pem       = var.mux_tls.key
  insecure_skip_verify = false
}
