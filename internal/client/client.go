// Package client speaks the mux HTTP API of one agent, and does not give up at the first hiccup.
//
// The provider, the command line and the tests share it. It owns everything between a method call and the wire: the
// time that a try and a call may take, which failures are tried again, the request id by which the agent recognises a
// repeat, the number of requests that are on their way at once, reads that are shared, the breaker that spares the wait for
// an agent that is down, and errors that say what was asked and what came back.
// It knows nothing of Terraform. It serves mux_simulator.py as well as the agent, as far as that service goes.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
)

// Defaults of Config.
const (
	DefaultRequestTimeout = 10 * time.Second
	DefaultMaxElapsed     = 30 * time.Second
	DefaultMinDelay       = 200 * time.Millisecond
	DefaultMaxDelay       = 5 * time.Second
	DefaultMaxConcurrent  = 10
)

// Config is how a client behaves. Only Endpoint is required; a zero value takes the default.
type Config struct {
	Endpoint       string        // as ParseEndpoint accepts it
	RequestTimeout time.Duration // of one try, the body included
	MaxElapsed     time.Duration // of one call with all its tries and the waits between them; see WithBudget
	MinDelay       time.Duration // the wait after the first try is drawn from [0, MinDelay]; the range then doubles
	MaxDelay       time.Duration // no wait is longer, whatever Retry-After says
	MaxConcurrent  int           // requests on their way to the endpoint at once
	UserAgent      string
	Token          string      // sent as a bearer token, see ParseToken; "" for none
	TLS            *tls.Config // for an https endpoint, see TLSConfig; nil is what the system trusts
	// OnTry, when set, hears of every try when it ended. It is called from any goroutine, with the context of the call.
	OnTry func(context.Context, Try)
}

// A Try is one HTTP request of a call, for the log.
type Try struct {
	Method, URL string
	Number      int // from 1
	Status      int // 0 when there was no answer
	Err         error
	Took        time.Duration
}

// A Client calls one agent. It is safe for concurrent use and keeps connections open between calls. After a call that spent
// its whole time, MaxElapsed or more, on an agent that is down, other calls that have no more time fail at once for a while,
// with Repeated set.
type Client struct {
	cfg       Config
	endpoint  string
	transport *http.Transport
	slots     chan struct{}
	breaker   breaker
	shares    shares
}

// New returns a client of cfg.Endpoint. It does not connect.
func New(cfg Config) (*Client, error) {
	endpoint, err := ParseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	if cfg.Token, err = ParseToken(cfg.Token); err != nil {
		return nil, err
	}
	cfg.RequestTimeout = defaultTo(cfg.RequestTimeout, DefaultRequestTimeout)
	cfg.MaxElapsed = defaultTo(cfg.MaxElapsed, DefaultMaxElapsed)
	cfg.MinDelay = defaultTo(cfg.MinDelay, DefaultMinDelay)
	cfg.MaxDelay = defaultTo(cfg.MaxDelay, DefaultMaxDelay)
	cfg.MaxConcurrent = defaultTo(cfg.MaxConcurrent, DefaultMaxConcurrent)
	return &Client{
		cfg:      cfg,
		endpoint: endpoint,
		transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxIdleConnsPerHost: cfg.MaxConcurrent,
			IdleConnTimeout:     30 * time.Second,
			TLSClientConfig:     cfg.TLS,
		},
		slots:  make(chan struct{}, cfg.MaxConcurrent),
		shares: shares{reads: map[string]*share{}},
	}, nil
}

func defaultTo[T time.Duration | int](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Endpoint returns the agent's base URL in its normal form, without a trailing slash.
func (c *Client) Endpoint() string { return c.endpoint }

// Close closes the connections that are kept for later calls.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// ParseEndpoint returns the normal form of an agent's base URL: scheme and host in lower case, no trailing slash. The
// error says what to write instead.
func ParseEndpoint(s string) (string, error) {
	bad := func(what string) (string, error) {
		return "", fmt.Errorf("bad endpoint %q: %s; write the agent's base URL, such as \"http://10.0.0.64:8080\"", s, what)
	}
	if s == "" {
		return bad("it is empty")
	}
	scheme, _, ok := strings.Cut(s, "://")
	if !ok {
		return bad("it has no scheme")
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return bad("the scheme must be http or https")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return bad("it is not a URL")
	case u.Hostname() == "":
		return bad("it names no host")
	case u.User != nil:
		return bad("it must not hold a user or a password")
	case u.Path != "" && u.Path != "/":
		return bad(fmt.Sprintf("it must not have a path (%q)", u.Path))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return bad("it must not have a query or a fragment")
	}
	return scheme + "://" + strings.ToLower(u.Host), nil
}

// A request is one call as the methods in calls.go describe it.
type request struct {
	method string
	path   string
	body   any // sent as JSON; nil for none
	again  again
}

// do makes the call and decodes the answer into out. All failures are of type *Error.
func (c *Client) do(ctx context.Context, r request, out any) error {
	t := &tries{client: c, request: r, url: c.endpoint + r.path}
	target := t.url
	if r.method != http.MethodGet {
		t.reqID = uuid.NewString()
		target += "?reqId=" + t.reqID
		c.shares.wrote()
		defer c.shares.wrote()
	}
	t.budget, t.deadline = c.time(ctx)
	if cause := c.breaker.failure(t.budget); cause != nil {
		return t.skipped(cause)
	}
	t.answersBefore = c.breaker.count()
	var body any
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return t.failed(ctx, fmt.Errorf("encode the request: %w", err))
		}
		body = b
	}

	limited, cancel := context.WithDeadlineCause(ctx, t.deadline, c.spent(ctx))
	defer cancel()
	req, err := retryablehttp.NewRequestWithContext(limited, r.method, target, body)
	if err != nil {
		return t.failed(ctx, err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}

	// A client for each call is cheap, and its hooks then know the call: CheckRetry sees no method, Backoff no context.
	retrying := &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: t, CheckRedirect: noRedirect},
		RetryMax:     math.MaxInt, // the budget ends it
		CheckRetry:   t.check,
		Backoff:      t.backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	resp, err := retrying.Do(req)
	if resp != nil {
		_ = resp.Body.Close() // tries.RoundTrip has read it to its end
	}
	if err != nil || t.last != nil {
		return t.failed(ctx, err)
	}
	if err := json.Unmarshal(t.answer, out); err != nil {
		t.last = t.notAnAgent(http.StatusOK, "the answer is not the JSON of the mux API: "+err.Error())
	} else if v, ok := out.(interface{ Valid() bool }); ok && !v.Valid() {
		t.last = t.notAnAgent(http.StatusOK, "the answer is JSON, but not the status of a mux")
	}
	if t.last != nil {
		t.landed = true // 200 says that it was done
		return t.failed(ctx, nil)
	}
	return nil
}

// noRedirect keeps a redirect as the answer: following it would turn a write into a GET.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
