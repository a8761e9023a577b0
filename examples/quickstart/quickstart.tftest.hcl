run "even_up_odd_down" {
  assert {
    condition     = length([for p in mux_port.server : p if p.active_side == "upper_tor"]) == 6
    error_message = "6 of 12 ports are not on the upper ToR."
  }
}

run "fewer_ports" {
  variables {
    ports = 3
  }
  assert {
    condition     = [for p in mux_port.server : p.active_side] == ["upper_tor", "lower_tor", "upper_tor"]
    error_message = "Even ports are not on the upper ToR, odd ones on the lower."
  }
}
