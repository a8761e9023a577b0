package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// raw sends bytes on a new connection and returns the first answer that is not 100 Continue.
func raw(t *testing.T, url, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait.Limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("no answer to %.80q: %v", request, err)
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{res.StatusCode, res.Header, string(body)}
	}
}

func TestRequestsAsTheyComeOnTheWire(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	const json = "Content-Type: application/json\r\n"
	tests := []struct {
		name, request string
		status        int
		want          string // in the body
	}{
		{"HTTP/1.0", "GET /mux/vms17-8/0 HTTP/1.0\r\n\r\n", 200, mux0},
		{"HTTP/1.0 POST", "POST /mux/vms17-8/0 HTTP/1.0\r\n" + json + "Content-Length: 27\r\n\r\n{\"active_side\":\"upper_tor\"}", 200, mux0},
		{"chunked body", "POST /mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\n" + json + "Transfer-Encoding: chunked\r\n\r\nd\r\n{\"active_side\r\ne\r\n\":\"upper_tor\"}\r\n0\r\n\r\n", 200, mux0},
		{"Expect", "POST /mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\n" + json + "Expect: 100-continue\r\nContent-Length: 27\r\n\r\n{\"active_side\":\"upper_tor\"}", 200, mux0},
		{"absolute form", "GET http://server:8080/mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\n\r\n", 200, mux0},
		{"percent-encoded", "GET /mux/%76ms17-8/%30 HTTP/1.1\r\nHost: x\r\n\r\n", 200, mux0},
		{"encoded slash", "GET /mux/vms17-8%2F0 HTTP/1.1\r\nHost: x\r\n\r\n", 200, mux0},
		{"odd query", "GET /mux/vms17-8/0?reqId=%zz&;& HTTP/1.1\r\nHost: x\r\n\r\n", 200, mux0},
		{"charset", "POST /mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 27\r\n\r\n{\"active_side\":\"upper_tor\"}", 200, mux0},
		{"another JSON type", "POST /mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\nContent-Type: application/x+json\r\nContent-Length: 27\r\n\r\n{\"active_side\":\"upper_tor\"}", 200, mux0},
		{"reset with JSON type and empty body", "POST /mux/vms17-8/0/reset HTTP/1.1\r\nHost: x\r\n" + json + "Content-Length: 0\r\n\r\n", 200, mux0},
		{"reset with garbage", "POST /mux/vms17-8/0/reset HTTP/1.1\r\nHost: x\r\n" + json + "Content-Length: 2\r\n\r\n{{", 200, mux0},
		{"set without a body", "POST /mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\n" + json + "Content-Length: 0\r\n\r\n", 400, "could not understand"},
		{"long path", "GET /mux/vms17-8/" + strings.Repeat("0", 8000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 200, mux0},
		{"long unknown path", "GET /" + strings.Repeat("x", 8000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not found"},
		{"name in UTF-8", "GET /mux/\u00fc HTTP/1.1\r\nHost: x\r\n\r\n", 404, `Unknown vm_set \"\u00fc\"`},
		{"bytes that are none", "GET /mux/%ff HTTP/1.1\r\nHost: x\r\n\r\n", 404, "Unknown vm_set"},
		{"no host", "GET /mux/vms17-8/0 HTTP/1.1\r\n\r\n", 400, ""},
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := raw(t, a.URL, tt.request)
			if got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("got %d %.300s, want %d %.300s", got.status, got.body, tt.status, tt.want)
			}
		})
	}
}

// The cable driver in the switch: a new connection for each call, 5 seconds, and a toggle has worked only when the answer
// has the target side.
func TestTheCableDriversCalls(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	driver := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	send := func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, a.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := driver.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s %s: %s, %v", method, path, res.Status, err)
		}
		return string(text)
	}
	for _, side := range []string{"lower_tor", "lower_tor", "upper_tor"} {
		if got := send("POST", "/mux/vms17-8/1", fmt.Sprintf(`{"active_side": "%s"}`, side)); !strings.Contains(got, `"active_side":"`+side+`"`) {
			t.Errorf("set %s: %s", side, got)
		}
		if got := send("GET", "/mux/vms17-8/1", ""); !strings.Contains(got, `"active_side":"`+side+`"`) {
			t.Errorf("read after %s: %s", side, got)
		}
	}
	if got := send("GET", "/mux/vms17-8/1/flap_counter", ""); got != "{\"mbr-vms17-8-1\":2}\n" {
		t.Errorf("flap counter: %q", got)
	}
	send("POST", "/mux/vms17-8/clear_flap_counter", `{"port_to_clear": "1"}`)
	send("POST", "/mux/vms17-8/1/drop", `{"out_sides": ["nic", "upper_tor"]}`)
	if got := send("POST", "/mux/vms17-8/1/reset", ""); got != mux1+"\n" {
		t.Errorf("reset with an empty body: %s", got)
	}
}

// The pytest fixtures: reqId on each POST, and every answer that is not 200 is repeated three times with the same one.
func TestThePytestFixturesCalls(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	post := func(path, body string) (status, tries int) {
		t.Helper()
		id := fmt.Sprintf("%s-%d", strings.ReplaceAll(path, "/", "_"), time.Now().UnixNano())
		for tries = 1; tries <= 4; tries++ {
			got := call(t, "POST", a.URL+path+"?reqId="+id, body)
			if status = got.status; status == 200 {
				break
			}
		}
		return status, tries
	}
	a.FailNext(0, "OFPBFC_TIMEOUT")
	a.FailNext(0, "OFPBFC_TIMEOUT")
	if status, tries := post("/mux/vms17-8", toggleBody); status != 200 || tries != 3 {
		t.Errorf("toggle of all, refused twice on one port: %d after %d tries", status, tries)
	}
	// Sides were never turned back by a repeat.
	got := call(t, "GET", a.URL+"/mux/vms17-8", "")
	if want := `{"mbr-vms17-8-0":` + onLower(mux0) + `,"mbr-vms17-8-1":` + onLower(mux1) + "}\n"; got.body != want {
		t.Errorf("status: %s\nwant %s", got.body, want)
	}
	if status, tries := post("/mux/vms17-8/0", `{"active_side":"sideways"}`); status != 400 || tries != 5 {
		t.Errorf("a bad value: %d after %d tries", status, tries-1)
	}
	for _, path := range []string{"/mux/vms17-8/reset", "/mux/vms17-8/0/reset", "/mux/vms17-8/reload"} {
		if status, tries := post(path, ""); status != 200 || tries != 1 {
			t.Errorf("%s: %d after %d tries", path, status, tries)
		}
	}
}

func FuzzRequests(f *testing.F) {
	for _, seed := range []struct{ method, path, query, body string }{
		{"GET", "/mux/vms17-8/0", "", ""},
		{"GET", "/mux/vms17-8/0", "active_side=lower_tor&wait=0s", ""},
		{"POST", "/mux/vms17-8/0", "reqId=1", `{"active_side":"toggle"}`},
		{"POST", "/mux/vms17-8/drop", "", `{"out_sides":["nic"]}`},
		{"POST", "/mux/vms17-8/clear_flap_counter", "", `{"port_to_clear":"0|1"}`},
		{"PATCH", "/mux/vms17-8", "", `{"ports":{"0":{"active_side":"lower_tor","dropped":[]}}}`},
		{"POST", "/mux/vms17-8/0", "", "{\"active_side\":\"\\ud800\"}"},
		{"POST", "/mux//vms17-8/0", "", `[[[[`},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.body)
	}
	handler := newHandler(f)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "/events") || strings.Contains(query, "wait") {
			return
		}
		req, err := http.NewRequest(method, "http://x/", strings.NewReader(body))
		if err != nil {
			return
		}
		req.URL.Path, req.URL.RawQuery, req.RemoteAddr = path, query, "127.0.0.1:1"
		req.Header.Set("Content-Type", "application/json")
		w := &discard{header: http.Header{}}
		handler.ServeHTTP(w, req)
		switch {
		case w.status == 0:
			t.Fatalf("%s %q ? %q %q: no answer", method, path, query, body)
		case w.status == http.StatusInternalServerError:
			t.Fatalf("%s %q ? %q %q: %s", method, path, query, body, w.body.Bytes())
		case bytes.ContainsFunc(w.body.Bytes(), func(r rune) bool { return r > 0x7f }) && w.header.Get("Content-Type") == "application/json":
			t.Fatalf("%s %q: not ASCII: %q", method, path, w.body.Bytes())
		}
	})
}

// newHandler returns the API over an engine with two ports, without a server.
func newHandler(t testing.TB) http.Handler {
	t.Helper()
	names, err := cable.NewNames("vms17-8")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e := engine.New(engine.Config{Names: names, Switch: simswitch.New(names, 2), Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("engine: %v", err)
		}
	})
	wait.For(t, "the engine is ready", func() bool { return e.Ready() == nil })
	return httpapi.New(httpapi.Config{Engines: []*engine.Engine{e}, Log: log})
}

// discard is a ResponseWriter in memory.
type discard struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(status int) {
	if d.status == 0 {
		d.status = status
	}
}

func (d *discard) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	return d.body.Write(p)
}
