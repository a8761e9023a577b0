package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// History reads the last events of a vm_set, oldest first. mux_simulator.py answers it with CodeNotFound.
func (c *Client) History(ctx context.Context, vmSet string) ([]api.Event, error) {
	return c.history(ctx, api.VMSetPath(vmSet)+"/history")
}

// PortHistory reads the last events of one port, oldest first, also after its bridge was deleted.
func (c *Client) PortHistory(ctx context.Context, vmSet string, port int) ([]api.Event, error) {
	return c.history(ctx, api.PortPath(vmSet, port)+"/history")
}

func (c *Client) history(ctx context.Context, path string) ([]api.Event, error) {
	var h api.History
	err := c.do(ctx, request{method: http.MethodGet, path: path}, &h)
	return h.Events, err
}

// A Notice is what Follow tells: one of its fields is set.
type Notice struct {
	Change    *api.Event
	Connected bool  // the stream is open; what happens from now on is told
	Missed    bool  // some events are lost, since the agent was away for long or restarted: read the status anew
	Lost      error // the stream broke; Follow opens it again
}

const (
	// silence is how long a stream may say nothing; the agent says every 15 seconds that it lives.
	silence = 45 * time.Second
	// reopen is the pause before a stream that broke is opened again, and lastReopen that after many attempts in vain. Each is
	// drawn between a half and the whole, so that many clients don't come back at once.
	reopen     = time.Second
	lastReopen = 16 * time.Second
	// maxEvent bounds one event, in bytes, and maxEventID what it is remembered by. An agent's have some hundred, and twenty.
	maxEvent   = 1 << 20
	maxEventID = 128
)

// Follow tells every change of a vm_set's ports as it happens, from one goroutine, until ctx ends; then it returns nil.
// A stream that breaks is opened again where it broke. The error is one that does not pass by itself, such as an unknown
// vm_set.
func (c *Client) Follow(ctx context.Context, vmSet string, tell func(Notice)) error {
	last := ""
	pause := reopen
	for {
		opened := time.Now()
		err := c.follow(ctx, api.VMSetPath(vmSet)+"/events", &last, tell)
		switch {
		case ctx.Err() != nil:
			return nil
		case !mayPass(err):
			return err
		}
		tell(Notice{Lost: err})
		if time.Since(opened) > lastReopen {
			pause = reopen
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause/2 + rand.N(pause/2)):
			pause = min(2*pause, lastReopen)
		}
	}
}

// follow reads one stream of server-sent events (WHATWG HTML, section 9.2) to its end, which is always an error.
func (c *Client) follow(ctx context.Context, path string, last *string, tell func(Notice)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dead := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%w for %s", errNoAnswer, silence)) })
	defer dead.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if *last != "" {
		header.Set("Last-Event-ID", *last)
	}
	resp, err := c.open(ctx, path, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	t := &tries{client: c, request: request{method: http.MethodGet}, url: c.endpoint + path, made: 1}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return t.refusal(ctx, resp)
	}

	tell(Notice{Connected: true})
	name, data := "", ""
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	tooLong := func() error {
		t.last = t.notAnAgent(http.StatusOK, fmt.Sprintf("an event has more than %d kB", maxEvent>>10))
		return t.failed(ctx, nil)
	}
	for lines.Scan() {
		dead.Reset(silence)
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "id":
			if len(value) > maxEventID {
				return tooLong()
			}
			*last = value
		case "event":
			name = value
		case "data":
			if len(data)+len(value) > maxEvent {
				return tooLong()
			}
			data += value
		}
		if lines.Text() != "" {
			continue
		}
		switch name {
		case api.EventMissed:
			tell(Notice{Missed: true})
		case api.EventChange:
			var ev api.Event
			if err := json.Unmarshal([]byte(data), &ev); err != nil {
				t.last = t.notAnAgent(http.StatusOK, "an event is not the JSON of the mux API: "+err.Error())
				return t.failed(ctx, nil)
			}
			tell(Notice{Change: &ev})
		}
		name, data = "", ""
	}
	if err := context.Cause(ctx); err != nil {
		return t.failed(ctx, err)
	}
	broke := lines.Err()
	if errors.Is(broke, bufio.ErrTooLong) {
		return tooLong()
	}
	if broke == nil {
		broke = io.ErrUnexpectedEOF
	}
	return t.failed(ctx, fmt.Errorf("the stream broke off: %w", broke))
}

// waitAtOnce is the longest that one request waits, well within what proxies and the agent allow.
const waitAtOnce = 30 * time.Second

// WaitForSide returns the status of a port once side is the active one. When it is not within d, it fails with
// api.CodeNotReached and returns the status that it saw last. Failures that may pass don't end the wait.
func (c *Client) WaitForSide(ctx context.Context, vmSet string, port int, side string, d time.Duration) (api.Status, error) {
	path := api.PortPath(vmSet, port)
	deadline := time.Now().Add(d)
	var seen api.Status
	for {
		left := time.Until(deadline)
		status, err := c.waitOnce(ctx, path, side, min(max(left, 0), waitAtOnce))
		if err == nil {
			seen = status
			if status.ActiveSide == side {
				return status, nil
			}
		}
		switch {
		case err != nil && (ctx.Err() != nil || !mayPass(err)):
			return seen, err
		case time.Now().Before(deadline):
		case err != nil:
			return seen, err
		default:
			return seen, &Error{
				Code: api.CodeNotReached, Method: http.MethodGet, URL: c.endpoint + path, Status: http.StatusPreconditionFailed, Attempts: 1,
				ErrMsg: fmt.Sprintf("port %d is on %s after %s, not on %s", port, seen.ActiveSide, d, side),
			}
		}
		// mux_simulator.py answers at once, as does an agent that is away.
		select {
		case <-ctx.Done():
		case <-time.After(min(reopen/4, max(time.Until(deadline), 0))):
		}
	}
}

func (c *Client) waitOnce(ctx context.Context, path, side string, wait time.Duration) (api.Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait+c.cfg.RequestTimeout, errNoAnswer)
	defer cancel()
	query := url.Values{"active_side": {side}, "wait": {wait.Round(time.Millisecond).String()}}
	resp, err := c.open(ctx, path+"?"+query.Encode(), http.Header{"Accept": {"application/json"}})
	if err != nil {
		return api.Status{}, err
	}
	defer resp.Body.Close()
	t := &tries{client: c, request: request{method: http.MethodGet}, url: c.endpoint + path, made: 1}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPreconditionFailed || !isJSON(resp) {
		return api.Status{}, t.refusal(ctx, resp)
	}
	var status checkedStatus
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&status); err != nil || !status.Valid() {
		t.last = t.notAnAgent(resp.StatusCode, "the answer is not the status of a mux")
		return api.Status{}, t.failed(ctx, nil)
	}
	return api.Status(status), nil
}

// open sends one GET without a limit of time other than ctx's, and returns the answer, whatever its status is. These
// requests are long; so they take no slot from the short ones.
func (c *Client) open(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	t := &tries{client: c, request: request{method: http.MethodGet}, url: c.endpoint + path, made: 1}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint+path, http.NoBody)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	req.Header = header
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	return resp, nil
}

// refusal reads an answer that is not the one hoped for.
func (t *tries) refusal(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return t.failed(ctx, fmt.Errorf("the answer broke off: %w", err))
	}
	t.last, _ = t.refused(resp, body)
	return t.failed(ctx, nil)
}
