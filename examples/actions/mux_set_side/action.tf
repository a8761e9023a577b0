# terraform apply -invoke=action.mux_set_side.all_upper
action "mux_set_side" "all_upper" {
  config {
    active_side = "upper_tor"
  }
}
