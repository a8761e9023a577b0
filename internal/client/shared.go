package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// sharedFor is how long an answer serves later calls of Shared.
const sharedFor = time.Second

// shares holds the reads of Shared by vm_set.
type shares struct {
	mu         sync.Mutex
	generation uint64 // rises before and after each write of this client
	reads      map[string]*share
}

// A share is one read and those who wait for it.
type share struct {
	generation uint64
	cancel     context.CancelCauseFunc

	done  chan struct{} // closed when the fields below are set
	ports map[int]api.Status
	err   error
	at    time.Time // of the answer

	waiting int  // under shares.mu
	told    bool // under shares.mu: somebody has the failure in full
}

// wrote makes every read that began so far useless for calls to come.
func (s *shares) wrote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
}

// Shared is All for many calls at about the same time, such as the refresh of each port of a testbed: those that come
// while a read is on its way, or up to a second later, share its answer. A write by this client ends that at once. A
// failure is shared with those who wait and not kept; all but one of them get it marked as Repeated. The answer is by
// port index and must not be changed.
func (c *Client) Shared(ctx context.Context, vmSet string) (map[int]api.Status, error) {
	r := c.join(ctx, vmSet)
	select {
	case <-r.done:
	case <-ctx.Done():
		if c.leave(r, context.Cause(ctx)) {
			return nil, &Error{
				Code: CodeCancelled, Method: http.MethodGet, URL: c.endpoint + api.VMSetPath(vmSet), Stopped: context.Cause(ctx),
				Err: errors.New("waiting for a read that others share"),
			}
		}
		<-r.done
	}
	if e := (*Error)(nil); errors.As(r.err, &e) && c.repeats(r) {
		again := *e
		again.Repeated = true
		return nil, &again
	}
	return r.ports, r.err
}

// join returns the read to wait for, a new one when there is none that still counts.
func (c *Client) join(ctx context.Context, vmSet string) *share {
	s := &c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reads[vmSet]; r != nil && r.generation == s.generation && r.counts() {
		r.waiting++
		return r
	}
	// The read belongs to all who join it: it outlives the call that began it, but not the last one that waits.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &share{generation: s.generation, cancel: cancel, done: make(chan struct{}), waiting: 1}
	s.reads[vmSet] = r
	go func() {
		defer cancel(nil)
		defer close(r.done)
		var muxes api.Muxes
		muxes, r.err = c.All(ctx, vmSet)
		r.ports, r.at = ByPort(muxes), time.Now()
	}()
	return r
}

// counts reports whether a later call may share the read.
func (r *share) counts() bool {
	select {
	case <-r.done:
		return r.err == nil && time.Since(r.at) < sharedFor
	default:
		return r.waiting > 0 // else it was cancelled
	}
}

// leave gives up waiting. The last one to leave cancels the read and gets false: it should wait for the end.
func (c *Client) leave(r *share, cause error) (others bool) {
	c.shares.mu.Lock()
	defer c.shares.mu.Unlock()
	if r.waiting--; r.waiting > 0 {
		return true
	}
	r.cancel(cause)
	return false
}

// repeats reports whether somebody else was told the failure.
func (c *Client) repeats(r *share) bool {
	c.shares.mu.Lock()
	defer c.shares.mu.Unlock()
	told := r.told
	r.told = true
	return told
}
