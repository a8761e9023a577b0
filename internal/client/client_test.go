package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A seen is one request as the server got it.
type seen struct{ Method, Path, ReqID, Body string }

// A stub is a server that plays one answer after the other and then repeats the last.
type stub struct {
	URL string

	mu    sync.Mutex
	seen  []seen
	conns int
}

func serve(t *testing.T, answers ...http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		n := len(s.seen)
		s.seen = append(s.seen, seen{r.Method, r.URL.Path, r.URL.Query().Get("reqId"), string(body)})
		s.mu.Unlock()
		answers[min(n, len(answers)-1)](w, r)
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

func (s *stub) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *stub) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

var port3 = api.Status{
	ActiveSide: api.UpperToR, Bridge: "mbr-vms17-8-3", PortIndex: 3, VMSet: "vms17-8",
	Ports: api.Ports{NIC: "muxy-vms17-8-3", UpperToR: "vlab-1", LowerToR: "vlab-2"},
}

func ok(v any) http.HandlerFunc { return answer(http.StatusOK, "", v) }

func answer(status int, code string, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code != "" {
			w.Header().Set(api.ErrorCodeHeader, code)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
}

func refuse(status int, code, words string) http.HandlerFunc {
	return answer(status, code, api.Error{ErrMsg: words})
}

func text(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// dial returns a client with waits too short to notice, unless change says otherwise.
func dial(t *testing.T, endpoint string, change ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{Endpoint: endpoint, MinDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func budget(d time.Duration) func(*client.Config) {
	return func(cfg *client.Config) { cfg.MaxElapsed = d }
}

// failure asserts that err is the client's own and carries the facts that every error must have.
func failure(t *testing.T, err error, code string) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want a *client.Error", err, err)
	}
	if e.Code != code {
		t.Errorf("got code %q, want %q: %v", e.Code, code, err)
	}
	if e.Method == "" || !strings.HasPrefix(e.URL, "http") {
		t.Errorf("the error names no request: %+v", e)
	}
	return e
}

func TestRetriesShareOneRequestID(t *testing.T) {
	unready := refuse(http.StatusServiceUnavailable, api.CodeNotReady, "the switch was not read yet")
	s := serve(t, unready, refuse(http.StatusServiceUnavailable, api.CodeNotReady, "nor now"), ok(api.Muxes{port3.Bridge: port3}))
	c := dial(t, s.URL)
	lower := api.LowerToR
	patch := api.Patch{Ports: map[string]api.Desired{"3": {ActiveSide: &lower}}}
	for range 2 {
		got, err := c.Patch(t.Context(), "vms17-8", patch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(api.Muxes{port3.Bridge: port3}, got); diff != "" {
			t.Error(diff)
		}
	}

	reqs := s.requests()
	if len(reqs) != 4 {
		t.Fatalf("got %d requests, want three tries and a second call: %+v", len(reqs), reqs)
	}
	for _, r := range reqs {
		if want := `{"ports":{"3":{"active_side":"lower_tor"}}}`; r.Body != want {
			t.Errorf("got body %s, want %s", r.Body, want)
		}
	}
	if id := reqs[0].ReqID; id == "" || reqs[1].ReqID != id || reqs[2].ReqID != id {
		t.Errorf("the tries of one call have different request ids: %+v", reqs[:3])
	}
	if reqs[3].ReqID == reqs[0].ReqID {
		t.Errorf("two calls share the request id %s", reqs[0].ReqID)
	}
	if n := s.connections(); n != 1 {
		t.Errorf("got %d connections for 4 requests, want 1", n)
	}
}

func TestReadsHaveNoRequestID(t *testing.T) {
	s := serve(t, ok(port3))
	if _, err := dial(t, s.URL).Status(t.Context(), "vms17-8", 3); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]seen{{Method: "GET", Path: "/mux/vms17-8/3"}}, s.requests()); diff != "" {
		t.Error(diff)
	}
}

func TestRetryAfterIsCapped(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		refuse(http.StatusServiceUnavailable, api.CodeNotReady, "not yet")(w, r)
	}, ok(port3))
	if _, err := dial(t, s.URL).Status(t.Context(), "vms17-8", 3); err != nil {
		t.Fatal(err)
	}
}

func TestRetryAfterBeyondTheBudgetFailsAtOnce(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		refuse(http.StatusServiceUnavailable, api.CodeNotReady, "not yet")(w, r)
	})
	c := dial(t, s.URL, budget(time.Hour), func(cfg *client.Config) { cfg.MaxDelay = 2 * time.Hour })
	_, err := c.Status(t.Context(), "vms17-8", 3)
	e := failure(t, err, api.CodeNotReady)
	if e.Attempts != 1 || e.ErrMsg != "not yet" || e.MayHaveLanded {
		t.Errorf("got %+v", e)
	}
}

func TestExhaustionKeepsTheLastAnswer(t *testing.T) {
	s := serve(t, refuse(http.StatusInternalServerError, "", "<InternalServerError> ovs-ofctl: no such bridge"))
	c := dial(t, s.URL, budget(500*time.Millisecond))
	_, err := c.SetSide(t.Context(), "vms17-8", 3, api.LowerToR)
	e := failure(t, err, api.CodeInternal)
	// The end of the budget may cut the last try off before it arrives.
	if n := len(s.requests()); n < 2 || e.Attempts != n && e.Attempts != n+1 {
		t.Errorf("got %d attempts for %d requests, want all of them counted and more than one", e.Attempts, n)
	}
	if e.Status != 500 || !strings.Contains(e.ErrMsg, "no such bridge") || !e.MayHaveLanded {
		t.Errorf("got %+v", e)
	}
	for _, want := range []string{"POST " + s.URL + "/mux/vms17-8/3: 500", "no such bridge", e.ReqID, "attempts"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

func TestCancelKeepsTheLastFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, refuse(http.StatusServiceUnavailable, api.CodeNotReady, "ovs-vswitchd is away"))
	c := dial(t, s.URL, func(cfg *client.Config) {
		cfg.MinDelay, cfg.MaxDelay, cfg.MaxElapsed = time.Hour, time.Hour, 1000*time.Hour
		cfg.OnTry = func(context.Context, client.Try) { time.AfterFunc(20*time.Millisecond, cancel) }
	})
	_, err := c.Status(ctx, "vms17-8", 3)
	e := failure(t, err, api.CodeNotReady)
	if !errors.Is(err, context.Canceled) || !errors.Is(e.Stopped, context.Canceled) {
		t.Errorf("the error hides that the caller gave up: %v", err)
	}
	for _, want := range []string{"context canceled", "ovs-vswitchd is away"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

func TestCancelInALaterTryKeepsTheLastFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, refuse(http.StatusServiceUnavailable, api.CodeNotReady, "ovs-vswitchd is away"), func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := dial(t, s.URL).SetSide(ctx, "vms17-8", 3, api.LowerToR)
	e := failure(t, err, api.CodeNotReady)
	if e.Attempts != 2 || !e.MayHaveLanded || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v: %+v", err, e)
	}
}

func TestCancelInTheFirstTry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := dial(t, s.URL).SetSide(ctx, "vms17-8", 3, api.LowerToR)
	e := failure(t, err, client.CodeCancelled)
	if !e.MayHaveLanded || e.Attempts != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v", e)
	}
}

func TestOneTryTimesOut(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ok(port3))
	c := dial(t, s.URL, func(cfg *client.Config) { cfg.RequestTimeout = 50 * time.Millisecond })
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Fatalf("a try that hangs must be followed by another: %v", err)
	}
}

func TestAllTriesTimeOut(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, answer := range map[string]http.HandlerFunc{
		"before the answer": hang,
		"within the answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"active_side":`)
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answer)
			c := dial(t, s.URL, budget(time.Second), func(cfg *client.Config) { cfg.RequestTimeout = 50 * time.Millisecond })
			_, err := c.SetSide(t.Context(), "vms17-8", 3, api.LowerToR)
			e := failure(t, err, client.CodeTimeout)
			if e.Attempts < 2 || !e.MayHaveLanded || e.Stopped != nil || !strings.Contains(err.Error(), "no answer within") {
				t.Errorf("got %v: %+v", err, e)
			}
		})
	}
}

func TestBodyThatBreaksIsRetried(t *testing.T) {
	broken := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"active_side":`)
		panic(http.ErrAbortHandler)
	}
	s := serve(t, broken, ok(port3))
	if _, err := dial(t, s.URL).Status(t.Context(), "vms17-8", 3); err != nil {
		t.Fatal(err)
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("got %d requests, want 2", n)
	}
}

func TestNobodyListens(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err := dial(t, gone.URL, budget(500*time.Millisecond)).SetSide(t.Context(), "vms17-8", 3, api.LowerToR)
	e := failure(t, err, client.CodeUnreachable)
	if e.Attempts < 2 || e.MayHaveLanded || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v: %+v", err, e)
	}
}

func TestNotAMuxAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		says   string
		tries  int
	}{
		"login page":      {text(200, "text/html; charset=utf-8", "<html>log in</html>"), "HTML page", 1},
		"plain text":      {text(200, "text/plain", "hello"), "hello", 1},
		"other JSON":      {ok(map[string]string{"status": "green"}), "not the status of a mux", 1},
		"JSON list":       {ok([]int{1}), "not the JSON of the mux API", 1},
		"broken JSON":     {text(200, "application/json", `{"active_side"`), "not the JSON of the mux API", 1},
		"404 of nginx":    {text(404, "text/html", "<html>404</html>"), "404 Not Found: an HTML page", 1},
		"error of others": {answer(400, "", map[string]string{"error": "no"}), `{"error":"no"}`, 1},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://sso.example.com/", http.StatusFound)
		}, "a redirect to https://sso.example.com/", 1},
		"502 of a proxy": {text(502, "text/html", "<html>bad gateway</html>"), "502 Bad Gateway: an HTML page", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.answer)
			_, err := dial(t, s.URL, budget(500*time.Millisecond)).Status(t.Context(), "vms17-8", 3)
			e := failure(t, err, client.CodeNotAnAgent)
			if e.Attempts < tc.tries || tc.tries == 1 && e.Attempts != 1 {
				t.Errorf("got %d attempts", e.Attempts)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error does not say %q: %v", tc.says, err)
			}
		})
	}
}

func TestCodes(t *testing.T) {
	const notFound = "<NotFound '404: Not Found'> 404 Not Found: "
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		code   string
	}{
		{"the header wins", refuse(404, api.CodeRejectedMux, notFound+"Unknown bridge, vm_set=x, port_index=7"), api.CodeRejectedMux},
		{"Python: vm_set", refuse(404, "", notFound+`Unknown vm_set "nope"`), api.CodeUnknownVMSet},
		{"Python: port", refuse(404, "", notFound+"Unknown bridge, vm_set=x, port_index=7"), api.CodeUnknownPort},
		{"Python: path", refuse(404, "", notFound+"The requested URL was not found on the server."), api.CodeNotFound},
		{"Python: method", refuse(405, "", "<MethodNotAllowed '405: Method Not Allowed'>"), api.CodeMethodNotAllowed},
		{"Python: media", refuse(415, "", "<UnsupportedMediaType>"), api.CodeMediaType},
		{"Python: bad request", refuse(400, "", "<BadRequest '400: Bad Request'>"), api.CodeBadRequest},
		{"401", refuse(401, "", "who are you"), client.CodeUnauthorised},
		{"401 of the agent", refuse(401, api.CodeUnauthorized, "a token is needed"), client.CodeUnauthorised},
		{"403 without JSON", text(403, "text/plain", "forbidden"), client.CodeUnauthorised},
		{"413", refuse(413, "", "too large"), api.CodeTooLarge},
		{"501", refuse(501, "", "no"), api.CodeInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, tc.answer)
			_, err := dial(t, s.URL).SetSide(t.Context(), "x", 7, api.UpperToR)
			e := failure(t, err, tc.code)
			if e.Attempts != 1 || e.ReqID == "" || e.MayHaveLanded && e.Status < 500 {
				t.Errorf("got %+v", e)
			}
			if got := client.Code(err); got != tc.code {
				t.Errorf("Code is %q, want %q", got, tc.code)
			}
		})
	}
}

func TestSwitchFailures(t *testing.T) {
	partial := func(retryable bool) http.HandlerFunc {
		return answer(500, api.CodePartial, api.Error{
			ErrMsg: "1 of 2 muxes failed",
			Failed: map[string]api.Failure{"mbr-vms17-8-3": {Code: api.CodeSwitch, ErrMsg: "OFPBFC_MSG_FAILED", Retryable: retryable}},
			Muxes:  api.Muxes{port3.Bridge: port3},
		})
	}
	t.Run("a refusal is reported at once", func(t *testing.T) {
		s := serve(t, refuse(500, api.CodeSwitch, "set flows on mbr-vms17-8-3: OFPFMFC_TABLE_FULL"))
		_, err := dial(t, s.URL).Patch(t.Context(), "vms17-8", api.Patch{})
		if e := failure(t, err, api.CodeSwitch); e.Attempts != 1 {
			t.Errorf("got %d attempts", e.Attempts)
		}
	})
	t.Run("so is a failure that does not pass", func(t *testing.T) {
		s := serve(t, partial(false))
		_, err := dial(t, s.URL).Patch(t.Context(), "vms17-8", api.Patch{})
		e := failure(t, err, api.CodePartial)
		if e.Attempts != 1 || !strings.Contains(err.Error(), "mbr-vms17-8-3: OFPBFC_MSG_FAILED") {
			t.Errorf("got %v after %d attempts", err, e.Attempts)
		}
		if diff := cmp.Diff(api.Muxes{port3.Bridge: port3}, e.Muxes); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a passing one is tried again", func(t *testing.T) {
		s := serve(t, partial(true), ok(api.Muxes{port3.Bridge: port3}))
		if _, err := dial(t, s.URL).Patch(t.Context(), "vms17-8", api.Patch{}); err != nil {
			t.Error(err)
		}
	})
}

func TestToggleIsNotRepeatedOnceItMayBeDone(t *testing.T) {
	s := serve(t,
		refuse(503, api.CodeNotReady, "not yet"), // nothing was done: again
		refuse(500, "", "who knows"),
		ok(port3))
	_, err := dial(t, s.URL).SetSide(t.Context(), "vms17-8", 3, api.Toggle)
	if e := failure(t, err, api.CodeInternal); e.Attempts != 2 || !e.MayHaveLanded {
		t.Errorf("got %d attempts, MayHaveLanded %t, want 2 and true", e.Attempts, e.MayHaveLanded)
	}
}

func TestReadyAsksOnce(t *testing.T) {
	s := serve(t, answer(503, "", api.Readiness{Reason: "ovs-vswitchd is away"}), ok(api.Readiness{Ready: true}))
	c := dial(t, s.URL)
	e := failure(t, c.Ready(t.Context()), api.CodeNotReady)
	if e.Attempts != 1 || e.ErrMsg != "ovs-vswitchd is away" {
		t.Errorf("got %+v", e)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConcurrentRequestsAreLimited(t *testing.T) {
	const limit = 3
	var mu sync.Mutex
	var now, most int
	full := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		if now == limit {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full // the first ones stay until the limit is reached
		ok(port3)(w, r)
		mu.Lock()
		now--
		mu.Unlock()
	})
	c := dial(t, s.URL, func(cfg *client.Config) { cfg.MaxConcurrent = limit })
	var wg sync.WaitGroup
	for range 4 * limit {
		wg.Go(func() {
			if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most != limit {
		t.Errorf("saw %d requests at once, want %d", most, limit)
	}
}

func TestOnTryHearsEveryTry(t *testing.T) {
	s := serve(t, refuse(503, api.CodeNotReady, "not yet"), ok(port3))
	var tries []client.Try
	c := dial(t, s.URL, func(cfg *client.Config) {
		cfg.OnTry = func(_ context.Context, try client.Try) { tries = append(tries, try) }
	})
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Fatal(err)
	}
	if len(tries) != 2 || tries[0].Status != 503 || tries[1].Status != 200 || tries[1].Number != 2 {
		t.Errorf("got %+v", tries)
	}
}

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"http://10.0.0.64:8080":   "http://10.0.0.64:8080",
		"HTTP://Server-17:8080/":  "http://server-17:8080",
		"https://[fe80::1]:8443":  "https://[fe80::1]:8443",
		"https://mux.example.com": "https://mux.example.com",
	} {
		if got, err := client.ParseEndpoint(in); err != nil || got != want {
			t.Errorf("ParseEndpoint(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for in, says := range map[string]string{
		"":                        "it is empty",
		"10.0.0.64:8080":          "no scheme",
		"localhost:8080":          "no scheme",
		"ftp://10.0.0.64":         "http or https",
		"http://":                 "no host",
		"http://:8080":            "no host",
		"http://h:80:80":          "not a URL",
		"http://me:secret@h":      "user",
		"http://h:8080/mux":       "path",
		"http://h:8080?vm_set=x":  "query",
		"http://h:8080/#fragment": "fragment",
	} {
		_, err := client.ParseEndpoint(in)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `write the agent's base URL`) {
			t.Errorf("ParseEndpoint(%q): got error %v, want one that says %q and what to write", in, err, says)
		}
	}
}
