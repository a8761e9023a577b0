variable "endpoint" {
  description = "Base URL of the mux-agent on the test server."
  type        = string
  default     = "http://10.0.0.64:8080"
}

variable "vm_set" {
  description = "The testbed's vm_set, the group name in sonic-mgmt's testbed file."
  type        = string
  default     = "vms17-8"
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
