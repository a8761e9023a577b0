# After a test session: nothing dropped anywhere, and no flow on the switch that does not belong there.
action "mux_reset" "all" {
  config {}
}
