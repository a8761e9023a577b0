# The reverse of mux_drop.
action "mux_output" "server3" {
  config {
    ports = [3]
    sides = ["nic", "upper_tor", "lower_tor"]
  }
}
