action "mux_clear_flap_counter" "all" {
  config {}
}
