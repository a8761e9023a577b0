package client

import (
	"fmt"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A breaker spares later calls the wait for an agent that is down. It opens when one call has spent its whole budget
// without a useful answer while no other call had one either, and stays open for as long as that budget was.
type breaker struct {
	mu      sync.Mutex
	answers uint64    // useful answers so far
	until   time.Time // it is open before
	cause   *Error
}

// answered closes the breaker.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers++
	b.until, b.cause = time.Time{}, nil
}

// count returns the number of useful answers so far, for open.
func (b *breaker) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers
}

// failure returns why the breaker is open, nil when it is not.
func (b *breaker) failure() *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.until) {
		return b.cause
	}
	return nil
}

// open opens the breaker for a while, unless there was an answer since count returned n. It returns false when the
// breaker is open already.
func (b *breaker) open(n uint64, cause *Error, spent time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(b.until) {
		return false
	}
	if b.answers == n {
		b.until, b.cause = now.Add(spent), cause
	}
	return true
}

// isDown reports whether a failure says of the agent that no other call would fare better.
func isDown(e *Error) bool {
	switch e.Code {
	case CodeUnreachable, api.CodeNotReady:
		return true
	case CodeTimeout:
		return e.Status == 0 // else it is the switch that was slow
	}
	return false
}

// skipped is the failure of a call that was not tried.
func (t *tries) skipped(cause *Error) *Error {
	return &Error{
		Code: cause.Code, Method: t.request.method, URL: t.url, Repeated: true,
		Err: fmt.Errorf("not tried, after a call to this agent failed for %s: %s", t.client.cfg.MaxElapsed, cause.Reason()),
	}
}
