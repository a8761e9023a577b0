package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const (
	// sharedFor is how long an answer serves later calls of Shared.
	sharedFor = time.Second
	// glance is the longest that Glance waits.
	glance = 2 * time.Second
)

// shares holds the reads of Shared by vm_set.
type shares struct {
	mu         sync.Mutex
	generation uint64 // rises before and after each write of this client
	reads      map[string]*share
}

// A share is one read and those who wait for it.
type share struct {
	generation uint64
	budget     time.Duration
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
// while a read is on its way, or up to a second later, share its answer. A write by this client ends that at once. The read
// has Config.MaxElapsed; a call with less time waits no longer than that, and one with more then asks for itself. A failure
// is shared with those who wait and not kept; all but one of them get it marked as Repeated. The answer is by port index and
// must not be changed.
func (c *Client) Shared(ctx context.Context, vmSet string) (map[int]api.Status, error) {
	left, end := c.time(ctx)
	if budgetOf(ctx) == nil {
		end = time.Time{} // the read ends in time
	}
	for {
		r, ended := c.await(ctx, vmSet, c.cfg.MaxElapsed, end)
		if !ended {
			return nil, c.leftWaiting(ctx, vmSet)
		}
		switch {
		case r.err == nil:
			return r.ports, nil
		case r.budget < min(left, c.cfg.MaxElapsed) && Code(r.err) != CodeCancelled:
			continue // it was a glance of somebody, who gives up early
		case r.budget < left && mayPass(r.err):
			muxes, err := c.All(ctx, vmSet)
			return ByPort(muxes), err // which spends what is left
		}
		e := (*Error)(nil)
		if !errors.As(r.err, &e) {
			return nil, r.err
		}
		told := *e
		if errors.Is(told.Stopped, errNoAnswer) { // by this call, which was the last one to wait
			told.Stopped, told.Budget = nil, wholeOf(ctx)
		}
		told.Repeated = c.repeats(r) || told.Repeated
		return nil, &told
	}
}

// Glance is Shared for those who can do without: it waits for a moment only, and its failure spares nobody the wait.
func (c *Client) Glance(ctx context.Context, vmSet string) (map[int]api.Status, bool) {
	short := min(glance, c.cfg.MaxElapsed/2)
	r, ended := c.await(ctx, vmSet, short, time.Now().Add(short))
	if !ended || r.err != nil {
		return nil, false
	}
	return r.ports, true
}

// mayPass reports whether a call failed in a way that time may help.
func mayPass(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && (isDown(e) || e.Repeated)
}

// await waits for a read, at most until a time where that is not zero, and reports whether the read ended. A read that it has
// to begin has the given budget.
func (c *Client) await(ctx context.Context, vmSet string, budget time.Duration, until time.Time) (r *share, ended bool) {
	if !until.IsZero() {
		limited, cancel := context.WithDeadlineCause(ctx, until, c.spent(ctx))
		defer cancel()
		ctx = limited
	}
	r = c.join(ctx, vmSet, budget)
	select {
	case <-r.done:
		return r, true
	case <-ctx.Done():
	}
	if c.leave(r, context.Cause(ctx)) {
		return r, false
	}
	<-r.done
	return r, true
}

// leftWaiting is the failure of a call that waits no longer for a read.
func (c *Client) leftWaiting(ctx context.Context, vmSet string) error {
	e := &Error{
		Code: CodeCancelled, Method: http.MethodGet, URL: c.endpoint + api.VMSetPath(vmSet), Stopped: context.Cause(ctx),
		Err: errors.New("waiting for a read that others share"),
	}
	if ctx.Err() == nil {
		e.Code, e.Err, e.Budget = CodeTimeout, c.spent(ctx), wholeOf(ctx)
	}
	return e
}

// join returns the read to wait for, a new one when there is none that still counts.
func (c *Client) join(ctx context.Context, vmSet string, budget time.Duration) *share {
	s := &c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reads[vmSet]; r != nil && r.generation == s.generation && r.counts() {
		r.waiting++
		return r
	}
	// The read belongs to all who join it: it outlives the call that began it, but not the last one that waits.
	ctx, cancel := context.WithCancelCause(withoutBudget(context.WithoutCancel(ctx)))
	if budget < c.cfg.MaxElapsed {
		ctx = WithBudget(ctx, budget)
	}
	r := &share{generation: s.generation, budget: budget, cancel: cancel, done: make(chan struct{}), waiting: 1}
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
