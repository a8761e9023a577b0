# Once the testbed's bridges are there; mux-agent finds them by itself, mux_simulator.py has to be told.
action "mux_reload" "testbed" {
  config {}
}

resource "terraform_data" "topology" {
  input = "dualtor-120"

  lifecycle {
    action_trigger {
      events  = [after_create, after_update]
      actions = [action.mux_reload.testbed]
    }
  }
}
