# Cut server 3 off from both ToRs, and from what they send to it.
action "mux_drop" "server3" {
  config {
    ports = [3]
    sides = ["nic", "upper_tor", "lower_tor"]
  }
}
