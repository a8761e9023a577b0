package cable

import "fmt"

// A SwitchError is a change or a read that a switch did not do.
type SwitchError struct {
	Bridge string
	Op     string // what was tried, such as "set flows"
	Err    error  // the switch's own words
	// Unknown is true when nobody can tell whether the change was applied: it must be read back.
	Unknown bool
	// Retryable is true when the same call may succeed later without anybody mending anything.
	Retryable bool
}

// Error names the mux, the operation and what the switch said.
func (e *SwitchError) Error() string { return fmt.Sprintf("%s on %s: %v", e.Op, e.Bridge, e.Err) }

// Unwrap returns the switch's own error.
func (e *SwitchError) Unwrap() error { return e.Err }
