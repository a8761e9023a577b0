package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A client that got no answer repeats its call with the same reqId. The first call may have been done, be under way, or
// have failed on some muxes; the repeat must not do anything twice. So the answer of a call that succeeded is given again
// from here, and of one that failed on some muxes the engine knows on which it landed, also after a restart.

const (
	// rememberFor is how long a reqId is known after its call has ended.
	rememberFor = engine.RememberRequests
	// maxRemembered bounds the memory of ended calls, in bytes. Calls under way are always remembered.
	maxRemembered = 4 << 20
	// maxReqID is the longest reqId, in bytes.
	maxReqID = 128
	// entryCost is about what an entry takes besides its answer.
	entryCost = 512
)

// repeats remembers calls by reqId.
type repeats struct {
	mu      sync.Mutex
	running map[string]*remembered
	ended   *simplelru.LRU[string, *remembered]
	size    int // bytes of ended
}

func newRepeats() *repeats {
	ended, err := simplelru.NewLRU[string, *remembered](maxRemembered/entryCost, nil)
	if err != nil {
		panic(err) // it refuses a size below 1 only
	}
	return &repeats{running: map[string]*remembered{}, ended: ended}
}

// What is remembered of a call and its repeats.
type remembered struct {
	call  [sha256.Size]byte // its method, path and body
	done  chan struct{}     // closed when the one that runs has ended
	since time.Time         // when it ended
	body  []byte            // the answer; nil unless it was 200
}

func (q *remembered) cost() int { return entryCost + cap(q.body) }

var errOtherCall = errors.New("reqId was used for another call")

// begin returns the request of a reqId, to be run by the caller, or, with answered, the answer that it had already. It
// waits for a call of the same reqId that is under way.
func (p *repeats) begin(ctx context.Context, id string, call [sha256.Size]byte) (q *remembered, answered bool, err error) {
	for {
		p.mu.Lock()
		q, running := p.running[id]
		if !running {
			q = p.take(id)
		}
		if q != nil && q.call != call {
			if !running {
				p.keep(id, q)
			}
			p.mu.Unlock()
			return nil, false, errOtherCall
		}
		if running {
			done := q.done // a repeat that runs the call again makes a new one
			p.mu.Unlock()
			select {
			case <-done:
				continue
			case <-ctx.Done():
				return nil, false, fmt.Errorf("given up while the first call of its reqId was under way: %w", context.Cause(ctx))
			}
		}
		if q != nil && q.body != nil {
			p.keep(id, q)
			p.mu.Unlock()
			return q, true, nil
		}
		if q == nil {
			q = &remembered{call: call}
		}
		q.done = make(chan struct{})
		p.running[id] = q
		p.mu.Unlock()
		return q, false, nil
	}
}

// end remembers how a call ended; body is its answer when it was 200.
func (p *repeats) end(id string, q *remembered, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, id)
	q.body, q.since = body, time.Now()
	p.keep(id, q)
	close(q.done)
}

// take removes an ended request, and returns nil when it is too old. It is called with mu held.
func (p *repeats) take(id string) *remembered {
	q, ok := p.ended.Peek(id)
	if !ok {
		return nil
	}
	p.ended.Remove(id)
	p.size -= q.cost()
	if time.Since(q.since) > rememberFor {
		return nil
	}
	return q
}

// keep adds an ended request and forgets the oldest ones that no longer fit. It is called with mu held.
func (p *repeats) keep(id string, q *remembered) {
	for p.ended.Len() > 0 && (p.size+q.cost() > maxRemembered || p.ended.Len() >= maxRemembered/entryCost) {
		_, oldest, _ := p.ended.RemoveOldest()
		p.size -= oldest.cost()
	}
	p.ended.Add(id, q)
	p.size += q.cost()
}

// idempotent runs a handler at most once for each reqId, if there is one.
func (s *Server) idempotent(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := reqID(r)
		if id == "" {
			return h(w, r)
		}
		if len(id) > maxReqID {
			return errQuery(r, fmt.Sprintf("reqId must have at most %d bytes", maxReqID))
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failingReader{err}))
		q, answered, err := s.repeats.begin(r.Context(), id, fingerprint(r, body))
		switch {
		case errors.Is(err, errOtherCall):
			return errConflict(r, id)
		case err != nil:
			return err
		case answered:
			write(w, http.StatusOK, q.body)
			return nil
		}
		answer := &recorder{ResponseWriter: w}
		defer func() { s.repeats.end(id, q, answer.success()) }()
		return h(answer, r)
	}
}

// failingReader stands for the rest of a body that could not be read; whether that matters is the handler's to say.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// fingerprint tells calls apart.
func fingerprint(r *http.Request, body []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %s\n%s\n%s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body))
}

func errConflict(r *http.Request, id string) error {
	return &httpError{
		code: api.CodeConflict, name: "Conflict",
		text: fmt.Sprintf("%s msg=reqId %q was used for another method, path or body; use a new one for each call, and the same one only to repeat it", about(r), id),
	}
}

// A recorder keeps what it passes on.
type recorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader keeps the status.
func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write keeps the body, which all answers write at once.
func (w *recorder) Write(p []byte) (int, error) {
	if w.body == nil {
		w.body = bytes.Clone(p) // no more than is needed: it may be kept for long
	} else {
		w.body = append(w.body, p...)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// success returns the body of an answer that was 200, else nil.
func (w *recorder) success() []byte {
	if w.status != http.StatusOK {
		return nil
	}
	return w.body
}
