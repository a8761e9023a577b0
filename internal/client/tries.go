package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"
)

// maxBody bounds what is kept of an answer, in bytes: far more than the status of 1,000 muxes with a failure for each.
const maxBody = 4 << 20

// again says which failures of a call may be followed by another try. The zero value is for calls that may be repeated:
// any failure that may pass.
type again uint8

const (
	// verb is for toggle and random: only a failure after which the agent surely did nothing. mux_simulator.py does not
	// know a repeat by its reqId.
	verb again = iota + 1
	// once is for calls whose failure is an answer.
	once
)

// tries is one logical call: its tries share a request id, a deadline and what was learnt so far. It is the transport of
// its own HTTP client and the hooks of its own retrying client; both use it from one goroutine.
type tries struct {
	client   *Client
	request  request
	url      string // without the reqId
	reqID    string
	budget   time.Duration // for all tries, when the call began
	deadline time.Time     // when the budget is spent; zero for a stream, which has none

	answersBefore uint64 // breaker.count when the call began

	made   int           // tries that were sent or at least dialled
	dialed bool          // the last try reached the point of asking for a connection
	sent   bool          // the last try reached the point of writing to a connection
	landed bool          // some try may have changed the switch
	last   *Error        // the last failure; nil after a success
	answer []byte        // the body of the last answer
	wait   time.Duration // before the next try
	spent  bool          // the budget would not last for another try
}

// RoundTrip makes one try: it waits for a slot, sends, and reads the whole body, so that a body that breaks is a failed
// try and the slot covers all of it.
func (t *tries) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.client
	t.dialed, t.sent = false, false
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-req.Context().Done():
		return nil, fmt.Errorf("not sent, waiting behind %d other requests: %w", c.cfg.MaxConcurrent, context.Cause(req.Context()))
	}

	ctx, cancel := context.WithTimeoutCause(req.Context(), c.cfg.RequestTimeout,
		fmt.Errorf("%w within %s", errNoAnswer, c.cfg.RequestTimeout))
	defer cancel()
	t.made++
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.dialed = true },
		GotConn: func(httptrace.GotConnInfo) { t.sent = true },
	})

	start := time.Now()
	resp, err := t.exchange(req.WithContext(ctx))
	if c.cfg.OnTry != nil {
		try := Try{Method: req.Method, URL: req.URL.String(), Number: t.made, Err: err, Took: time.Since(start)}
		if resp != nil {
			try.Status = resp.StatusCode
		}
		c.cfg.OnTry(req.Context(), try)
	}
	return resp, err
}

var errNoAnswer = errors.New("no answer")

func (t *tries) exchange(req *http.Request) (*http.Response, error) {
	resp, err := t.client.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	t.answer, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(t.answer))
	return resp, nil
}

// check is the CheckRetry hook.
func (t *tries) check(ctx context.Context, resp *http.Response, err error) (bool, error) {
	failure, retry := t.judge(resp, err)
	if failure == nil || resp != nil && !isDown(failure) {
		t.client.breaker.answered()
	}
	if failure == nil {
		t.last = nil
		return false, nil
	}
	if resp == nil && t.sent || resp != nil && (resp.StatusCode == http.StatusOK || resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable) {
		t.landed = true
	}
	if ctx.Err() != nil {
		if t.last == nil { // what the last complete try said is worth more than that this one was cut off
			t.last = failure
		}
		return false, ctx.Err()
	}
	t.last = failure
	switch t.request.again {
	case verb:
		retry = retry && !t.landed
	case once:
		retry = false
	}
	if !retry || t.client.breaker.failure(t.budget) != nil {
		return false, nil
	}
	t.wait = t.delay(resp)
	if time.Now().Add(t.wait).After(t.deadline) {
		t.spent = true
		return false, nil // the next try would come too late: say now what is wrong
	}
	return true, nil
}

// judge turns what one try brought into a failure, nil for none, and says whether it may pass by itself.
func (t *tries) judge(resp *http.Response, err error) (failure *Error, retry bool) {
	if err != nil {
		return t.unanswered(err)
	}
	if resp.StatusCode == http.StatusOK {
		if isJSON(resp) {
			return nil, false
		}
		return t.notAnAgent(resp.StatusCode, describeBody(resp, t.answer)), false
	}
	return t.refused(resp, t.answer)
}

// unanswered judges a try that brought no answer.
func (t *tries) unanswered(err error) (failure *Error, retry bool) {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // its text repeats the method and the URL
	}
	e := &Error{Code: CodeUnreachable, Err: err}
	untrusted, alert := (*tls.CertificateVerificationError)(nil), (*net.OpError)(nil)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &untrusted):
		t.sent = false // the connection was never good for a request
		return e, false
	case errors.As(err, &alert) && alert.Op == "remote error": // a TLS alert (crypto/tls): our certificate was refused
		t.sent = false
		e.Code = CodeUnauthorised
		return e, false
	case errors.Is(err, context.Canceled):
		e.Code = CodeCancelled
	case t.made > 0 && !t.dialed && !t.deadline.IsZero(): // a stream that broke was dialed once
		e.Code = CodeUnsendable
		return e, false
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		e.Code = CodeTimeout
	}
	return e, true
}

// backoff is the Backoff hook. check has decided.
func (t *tries) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return t.wait }

// delay draws the wait before the next try: full jitter, so that 120 ports that failed together don't come back
// together, and at least what Retry-After asks for, up to MaxDelay.
func (t *tries) delay(resp *http.Response) time.Duration {
	cfg := t.client.cfg
	ceiling := min(cfg.MaxDelay, cfg.MinDelay<<min(t.made-1, 20))
	wait := rand.N(max(ceiling, 0) + 1)
	return max(wait, min(retryAfter(resp), cfg.MaxDelay))
}

// retryAfter reads the header Retry-After, seconds or a date (RFC 9110 section 10.2.3); 0 when there is none.
func retryAfter(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at)
	}
	return 0
}

// failed completes the last failure with what the whole call knows. err is what the retrying client said.
func (t *tries) failed(ctx context.Context, err error) error {
	e := t.last
	if e == nil {
		e, _ = t.unanswered(err)
	}
	e.Method, e.URL, e.ReqID = t.request.method, t.url, t.reqID
	e.Attempts = t.made
	e.MayHaveLanded = t.landed
	e.makePrintable()
	if ctx.Err() != nil {
		e.Stopped = context.Cause(ctx)
	}
	if t.deadline.IsZero() || e.Stopped != nil { // a stream has no budget to spend
		return e
	}
	spent := t.spent || !time.Now().Before(t.deadline)
	if spent {
		e.Budget = wholeOf(ctx)
	}
	switch most := t.client.cfg.MaxElapsed; {
	case !isDown(e):
	case spent && t.budget >= most:
		e.Repeated = !t.client.breaker.open(t.answersBefore, e, t.budget, most)
	default:
		e.Repeated = t.client.breaker.failure(t.budget) != nil
	}
	return e
}
