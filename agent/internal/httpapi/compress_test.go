package httpapi_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

const (
	aBrowser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0"
	aPython  = "User-Agent: python-requests/2.32.3"
	zipped   = "Accept-Encoding: gzip, deflate"
)

// plain asks without any of the client's own compression.
func plain(t testing.TB, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	body := io.Reader(nil)
	if method != "GET" {
		body = strings.NewReader(`{"active_side":"upper_tor"}`)
		header = append(header, "Content-Type: application/json")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if strings.HasSuffix(url, "/events") {
		return answer, ""
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func unzip(t testing.TB, text string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Browsers get what is large in a tenth of its size. All others, and what is small or waited for, is left as it is.
func TestCompression(t *testing.T) {
	many := agenttest.Start(t, agenttest.Ports(120))
	few := agenttest.Start(t, agenttest.Ports(1))
	many.FlipAll()
	for _, tt := range []struct {
		method, url, agent, accept string
		status                     int
		want                       bool
	}{
		{"GET", many.URL + "/mux/vms17-8", aBrowser, zipped, 200, true},
		{"GET", many.URL + "/mux/vms17-8/history", aBrowser, zipped, 200, true},
		{"GET", many.URL + "/openapi.yaml", aBrowser, zipped, 200, true},
		{"GET", many.URL + "/mux/vms17-8", aPython, zipped, 200, false},
		{"GET", many.URL + "/mux/vms17-8/history", aPython, zipped, 200, false},
		{"GET", many.URL + "/mux/vms17-8", aBrowser, "Accept-Encoding: identity", 200, false},
		{"GET", many.URL + "/mux/vms17-8", aBrowser, "Accept-Encoding: gzip;q=0", 200, false},
		{"GET", few.URL + "/mux/vms17-8", aBrowser, zipped, 200, false},
		{"GET", many.URL + "/mux", aBrowser, zipped, 200, false},
		{"GET", many.URL + "/mux/vms17-8/3", aBrowser, zipped, 200, false},
		{"GET", many.URL + "/mux/vms17-8/3?wait=0s&active_side=lower_tor", aBrowser, zipped, 200, false},
		{"GET", many.URL + "/mux/vms17-8/events", aBrowser, zipped, 200, false},
		{"GET", many.URL + "/mux/nope", aBrowser, zipped, 404, false},
		{"POST", many.URL + "/mux/vms17-8?reqId=a", aBrowser, zipped, 200, false},
		{"POST", many.URL + "/mux/vms17-8?reqId=a", aBrowser, zipped, 200, false},
	} {
		what := fmt.Sprintf("%s %s as %s, %s", tt.method, tt.url, tt.agent, tt.accept)
		answer, text := plain(t, tt.method, tt.url, tt.agent, tt.accept)
		if answer.StatusCode != tt.status {
			t.Errorf("%s: %d, want %d", what, answer.StatusCode, tt.status)
		}
		if got := answer.Header.Get("Content-Encoding"); got != map[bool]string{true: "gzip"}[tt.want] {
			t.Errorf("%s: Content-Encoding %q", what, got)
		}
		if tt.status != 200 && !strings.Contains(text, "err_msg") {
			t.Errorf("%s: %q", what, text)
		}
		if !tt.want {
			continue
		}
		_, want := plain(t, tt.method, tt.url, aPython, zipped)
		if got := unzip(t, text); got != want {
			t.Errorf("%s: another content, %d bytes, want %d", what, len(got), len(want))
		}
		if strings.Contains(tt.url, "/mux") && len(text)*8 > len(want) {
			t.Errorf("%s: %d bytes of %d", what, len(text), len(want))
		}
		if vary := strings.Join(answer.Header.Values("Vary"), ","); !strings.Contains(vary, "Accept-Encoding") || !strings.Contains(vary, "User-Agent") {
			t.Errorf("%s: Vary %q", what, vary)
		}
	}

	for port := range 30 {
		few.AddBridge(200+port, fmt.Sprintf("muxy-vms17-8-%d", 200+port))
	}
	wait.For(t, "the overview is large", func() bool {
		_, text := plain(t, "GET", few.URL+"/mux")
		return len(text) > 1500
	})
	if answer, text := plain(t, "GET", few.URL+"/mux", aBrowser, zipped); answer.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(unzip(t, text), "rejected") {
		t.Errorf("a large overview: %v", answer.Header)
	}
}

// The page's files are compressed once. Each form has a name of its own in caches, by which it is not sent again.
func TestPageFilesAreCompressed(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	for _, name := range []string{"/", "/assets/style.css", "/assets/grid.js"} {
		long, content := plain(t, "GET", a.URL+name)
		short, packed := plain(t, "GET", a.URL+name, zipped)
		if long.Header.Get("Content-Encoding") != "" || short.Header.Get("Content-Encoding") != "gzip" || unzip(t, packed) != content {
			t.Errorf("%s: %q and %q", name, long.Header.Get("Content-Encoding"), short.Header.Get("Content-Encoding"))
		}
		if long.Header.Get("ETag") == short.Header.Get("ETag") || short.Header.Get("Vary") != "Accept-Encoding" || short.Header.Get("Content-Type") != long.Header.Get("Content-Type") {
			t.Errorf("%s: headers %v", name, short.Header)
		}
		if again, body := plain(t, "GET", a.URL+name, zipped, "If-None-Match: "+short.Header.Get("ETag")); again.StatusCode != 304 || body != "" {
			t.Errorf("%s again: %d with %d bytes", name, again.StatusCode, len(body))
		}
		for accept, want := range map[string]string{"gzip;q=0": "", "gzip;q=0.0, br": "", "br, gzip;q=0.5": "gzip", "GZIP": "gzip", "deflate": ""} {
			if answer, _ := plain(t, "GET", a.URL+name, "Accept-Encoding: "+accept); answer.Header.Get("Content-Encoding") != want {
				t.Errorf("%s with %q: %q, want %q", name, accept, answer.Header.Get("Content-Encoding"), want)
			}
		}
	}
	if icon, _ := plain(t, "GET", a.URL+"/assets/icon.svg", zipped); icon.Header.Get("Content-Encoding") != "" {
		t.Error("a file below 1 kB is compressed")
	}
}
