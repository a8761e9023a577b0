provider "mux" {}

run "counters_of_a_fresh_testbed" {
  assert {
    condition     = length(data.mux_flap_counters.all.counters) == 12 && length(output.ports_that_flapped) == 0
    error_message = "A fresh testbed has 12 counters at 0."
  }
}
