package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// A between stands between a browser and an agent. It counts what passes, can hold everything back, as an agent does that
// hangs or a network that was cut, and can answer in the agent's place.
type between struct {
	URL string

	server *httptest.Server
	mu     sync.Mutex
	held   chan struct{} // closed when what is held back may pass; nil while nothing is
	holds  func(*http.Request) bool
	answer http.HandlerFunc // nil: the agent answers
	seen   []string         // method and path of each request
}

func newBetween(t *testing.T, agent string) *between {
	t.Helper()
	target, err := url.Parse(agent)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			r.Body = gate{r.Body, func() { b.wait(r.Request) }}
			return nil
		},
	}
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.seen = append(b.seen, r.Method+" "+r.URL.Path)
		answer := b.answer
		b.mu.Unlock()
		b.wait(r)
		if answer != nil && strings.HasPrefix(r.URL.Path, "/mux") {
			answer(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	b.URL = b.server.URL
	t.Cleanup(func() {
		b.pass()
		b.server.CloseClientConnections()
		b.server.Close()
	})
	return b
}

// hold holds back all requests and answers that a filter names, from now on.
func (b *between) hold(what func(*http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held, b.holds = make(chan struct{}), what
}

// pass lets pass what was held back, and all from now on.
func (b *between) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held != nil {
		close(b.held)
		b.held = nil
	}
	b.answer = nil
}

// say answers all that is asked of the muxes from now on, and ends what is open.
func (b *between) say(answer http.HandlerFunc) {
	b.mu.Lock()
	b.answer = answer
	b.mu.Unlock()
	b.server.CloseClientConnections()
}

func (b *between) wait(r *http.Request) {
	b.mu.Lock()
	held := b.held
	if held != nil && !b.holds(r) {
		held = nil
	}
	b.mu.Unlock()
	if held == nil {
		return
	}
	select {
	case <-held:
	case <-r.Context().Done():
	}
}

// count counts the requests that came so far.
func (b *between) count(request string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, seen := range b.seen {
		if seen == request {
			n++
		}
	}
	return n
}

// A gate asks before what was read goes on.
type gate struct {
	io.ReadCloser
	ask func()
}

func (g gate) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	g.ask()
	return n, err
}
