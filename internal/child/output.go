package child

import (
	"bytes"
	"sync"
)

// An Output keeps what is written to it, by a process or a log, and may be read meanwhile.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
