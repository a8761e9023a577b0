terraform {
  required_providers {
    mux = {
      source = "sonic-mux/mux"
    }
  }
}
