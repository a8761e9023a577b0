# The ports of one testbed: even ones on the upper ToR, odd ones on the lower. `make demo` applies it to a simulated switch.
terraform {
  required_providers {
    mux = {
      source = "sonic-mux/mux"
    }
  }
}

# Where the agent listens and which testbed it serves: MUX_ENDPOINT and MUX_VM_SET, or endpoint and vm_set here.
provider "mux" {}

variable "ports" {
  description = "How many mux ports the testbed has."
  type        = number
  default     = 12
}

resource "mux_port" "server" {
  count = var.ports

  port_index  = count.index
  active_side = count.index % 2 == 0 ? "upper_tor" : "lower_tor"
}
