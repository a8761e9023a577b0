run "other_side" {
  assert {
    condition     = output.after_failover["0"] == "lower_tor"
    error_message = "The other side of the upper ToR is the lower ToR."
  }
}
