run "parse_port_id" {
  assert {
    condition     = tolist(output.failed) == tolist([3, 7])
    error_message = "The indexes are not those of the URLs."
  }
}
