# terraform apply -invoke=action.mux_toggle.failover
action "mux_toggle" "failover" {
  config {
    ports = [0, 1, 2]
  }
}
