package client

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A breaker spares later calls the wait for an agent that is down. It opens for Config.MaxElapsed when one call has spent at
// least as much without a useful answer while no other call had one either. A call that has more time than that one had
// tries for itself.
type breaker struct {
	mu      sync.Mutex
	answers uint64    // useful answers so far
	until   time.Time // it is open before
	spent   time.Duration
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

// failure returns why the breaker is open for a call that may take as long as budget, nil when it is not.
func (b *breaker) failure(budget time.Duration) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.until) && budget <= b.spent {
		return b.cause
	}
	return nil
}

// open opens the breaker for a while, unless there was an answer since count returned n. spent is how long the call tried. It
// returns false when somebody else has such a failure in full, and there was no answer since.
func (b *breaker) open(n uint64, cause *Error, spent, while time.Duration) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = b.cause == nil
	now := time.Now()
	if b.answers != n || now.Before(b.until) && spent <= b.spent {
		return first
	}
	b.until, b.spent = now.Add(while), spent
	if first {
		b.cause = cause
	}
	return first
}

// isDown reports whether a failure says of the agent, or of the proxy before it, that no other call would fare better. An
// answer that names muxes is about those.
func isDown(e *Error) bool {
	if len(e.Failed) > 0 || len(e.Muxes) > 0 {
		return false
	}
	switch e.Status {
	case 0:
		return e.Code == CodeUnreachable || e.Code == CodeTimeout
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// skipped is the failure of a call that was not tried; its status is that of the one that was.
func (t *tries) skipped(cause *Error) *Error {
	return &Error{
		Code: cause.Code, Status: cause.Status, Method: t.request.method, URL: t.url, Repeated: true,
		Err: fmt.Errorf("not tried, since the agent is down for another call: %s", cause.Reason()),
	}
}
