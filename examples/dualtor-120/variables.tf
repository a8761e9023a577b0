variable "endpoint" {
  description = "Base URL of the mux-agent on the test server; MUX_ENDPOINT where it is left out."
  type        = string
  default     = null
}

variable "vm_set" {
  description = "The testbed's vm_set, the group name in sonic-mgmt's testbed file; MUX_VM_SET where it is left out."
  type        = string
  default     = null
}

variable "port_count" {
  description = "How many muxes the topology has."
  type        = number
  default     = 112
}

variable "night" {
  description = "Where the ports under test begin: upper, lower or balanced."
  type        = string
  default     = "balanced"

  validation {
    condition     = contains(["upper", "lower", "balanced"], var.night)
    error_message = "night must be upper, lower or balanced."
  }
}
