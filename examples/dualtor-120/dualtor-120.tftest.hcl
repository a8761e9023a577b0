run "balanced_night" {
  assert {
    condition     = length(mux_ports.under_test.ports) == 56 && length(mux_ports.parked.ports) == 56
    error_message = "112 ports are not split in halves."
  }
  assert {
    condition     = length(output.on_upper) == 28
    error_message = "${length(output.on_upper)} of 56 ports begin on the upper ToR, not half of them."
  }
}

run "night_on_the_lower_tor" {
  variables {
    night = "lower"
  }
  assert {
    condition     = length(output.on_upper) == 0
    error_message = "Some ports stayed on the upper ToR."
  }
}

run "unknown_night" {
  command = plan
  variables {
    night = "sideways"
  }
  expect_failures = [var.night]
}
