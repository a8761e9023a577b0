# Each testbed that the provider's agent serves, to be imported with all of its ports.
list "mux_ports" "all" {
  provider = mux
}
