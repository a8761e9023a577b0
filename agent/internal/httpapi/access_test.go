package httpapi_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/child"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A page of another site must not use the agent through a visitor's browser. Clients that are no browsers send none of
// these headers.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.AllowHosts = []string{"mux.example.com", ".lab.example.com"}
	}))
	address := strings.TrimPrefix(a.URL, "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, host string
		headers      []string
		want         int
	}{
		// curl, pytest, the cable driver
		{"GET", address, nil, 200},
		{"POST", address, nil, 200},
		{"GET", "10.0.0.1", nil, 200},
		{"GET", "[fd00::1]:8080", nil, 200},
		{"GET", "[fd00::1]", nil, 200},
		{"GET", "localhost:" + port, nil, 200},
		{"GET", "str-serv-01:8080", nil, 200},
		{"GET", "mux.example.com", nil, 200},
		{"GET", "MUX.example.com.:8080", nil, 200},
		{"GET", "a.lab.example.com:8080", nil, 200},
		{"POST", "a.lab.example.com:8080", []string{"Origin: http://a.lab.example.com:8080"}, 200},

		{"GET", "server17.testbed.example", nil, 200},
		{"POST", "server17.testbed.example:8080", nil, 200},

		// a browser, by names that lead to the agent without being its own
		{"GET", "evil:" + port, []string{"Accept-Language: en"}, 403},
		{"GET", "evil.example:" + port, []string{"Accept-Language: en"}, 403},
		{"POST", "evil.example:" + port, []string{"Accept-Language: en"}, 403},
		{"GET", "127.0.0.1.evil.example", []string{"User-Agent: Mozilla/5.0 (X11)"}, 403},
		{"GET", "evilmux.example.com", []string{"Sec-Fetch-Site: same-origin"}, 403},
		{"GET", "xlab.example.com", []string{"Referer: http://xlab.example.com/"}, 403},
		{"GET", "mux.example.com", []string{"Accept-Language: en"}, 200},
		{"POST", "evil.example", []string{"Origin: http://evil.example", "Sec-Fetch-Site: same-origin"}, 403},

		// our own page
		{"POST", address, []string{"Origin: http://" + address, "Sec-Fetch-Site: same-origin"}, 200},
		{"GET", address, []string{"Sec-Fetch-Site: same-origin"}, 200},
		{"GET", address, []string{"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"}, 200},
		{"POST", "10.0.0.1", []string{"Origin: http://10.0.0.1"}, 200},
		{"POST", "10.0.0.1:443", []string{"Origin: https://10.0.0.1:443"}, 200}, // browsers leave the scheme's own port out of both
		// what no browser sends
		{"POST", address, []string{"Origin: "}, 200},
		// a link to it
		{"GET", address, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},

		// pages of others
		{"POST", address, []string{"Origin: http://evil.example"}, 403},
		{"POST", address, []string{"Origin: null"}, 403},
		{"POST", "10.0.0.1:8080", []string{"Origin: http://10.0.0.1"}, 403},
		{"POST", "10.0.0.1:8080", []string{"Origin: http://10.0.0.1:8081"}, 403},
		{"POST", "10.0.0.1:443", []string{"Origin: https://10.0.0.1"}, 403},
		{"POST", address, []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"POST", address, []string{"Sec-Fetch-Site: same-site"}, 403},
		{"POST", address, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"GET", address, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403},
		{"GET", address, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"GET", address, []string{"Origin: http://evil.example"}, 403},
		{"OPTIONS", address, []string{"Origin: http://evil.example", "Access-Control-Request-Method: PATCH"}, 403},
	} {
		req, err := http.NewRequest(c.method, a.URL+"/mux/vms17-8/0", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.method == http.MethodPost {
			req.Body = io.NopCloser(strings.NewReader(`{"active_side":"toggle"}`))
			req.Header.Set("Content-Type", "application/json")
		}
		req.Host = c.host
		for _, h := range c.headers {
			key, value, _ := strings.Cut(h, ": ")
			req.Header[key] = []string{value}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s with Host %q and %q: %s %s, want %d", c.method, c.host, c.headers, res.Status, body, c.want)
		}
		if c.want == 403 && (res.Header.Get(api.ErrorCodeHeader) != api.CodeForbidden || !bytes.Contains(body, []byte("<Forbidden '403: Forbidden'>"))) {
			t.Errorf("Host %q and %q: %v %s", c.host, c.headers, res.Header, body)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != "" {
			t.Errorf("Host %q and %q: may be read by %q", c.host, c.headers, allowed)
		}
	}
}

var serverTiming = regexp.MustCompile(`^http;dur=[0-9]+(\.[0-9]{1,3})?, queue;dur=[0-9.]+, switch;dur=([0-9.]+)$`)

func TestHeadersOfEveryAnswer(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/healthz", ""},
		{"GET", "/mux/vms17-8/0", ""},
		{"HEAD", "/mux/vms17-8", ""},
		{"GET", "/nope", ""},
		{"GET", "/mux//vms17-8", ""},
		{"OPTIONS", "/mux/vms17-8", ""},
		{"POST", "/mux/vms17-8", `{"active_side":"sideways"}`},
		{"GET", "/metrics", ""},
		{"GET", "/mux/vms17-8/0?active_side=lower_tor&wait=1ms", ""},
	} {
		got := call(t, c.method, a.URL+c.path, c.body)
		if !serverTiming.MatchString(got.header.Get("Server-Timing")) || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %v", c.method, c.path, got.header)
		}
		page := strings.HasPrefix(got.header.Get("Content-Type"), "text/html")
		policy := got.header.Get("Content-Security-Policy")
		if page != strings.Contains(policy, "default-src 'none'; script-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s %s, %s: policy %q", c.method, c.path, got.header.Get("Content-Type"), policy)
		}
	}

	// A change tells the time of the switch, with and without a reqId.
	resume := a.Stall()
	time.AfterFunc(20*time.Millisecond, resume)
	for _, path := range []string{"/mux/vms17-8/0", "/mux/vms17-8?reqId=8d1e"} {
		got := call(t, "POST", a.URL+path, `{"active_side":"toggle"}`).header.Get("Server-Timing")
		if m := serverTiming.FindStringSubmatch(got); len(m) < 3 || m[2] == "0" {
			t.Errorf("%s: %q, want the time of the switch", path, got)
		}
	}
}

// A lines is a log that keeps its lines.
type lines struct{ child.Output }

// records returns the lines, each of which must be an object.
func (l *lines) records(t *testing.T) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(l.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%v: %q", err, line)
		}
		list = append(list, record)
	}
	return list
}

// No header, path, body or reqId can forge a line of the log or an event.
func TestNothingFromClientsForgesLogOrEvents(t *testing.T) {
	var log lines
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.Log = slog.New(agent.NewLogHandler(&log, agent.LogJSON, slog.LevelDebug))
	}))
	events := stream(t, a.URL, "")
	next(t, events)
	url := a.URL + "/mux/vms17-8"
	forged := "%0Adata:%20forged%0A%0Aid:%2099%0A%1B%5B2J%C2%9B31m%E2%80%AE"
	call(t, "POST", url+"/0?reqId=a"+forged, `{"active_side":"toggle"}`)
	call(t, "POST", url+"/log", `{"message":"first\nlevel=INFO msg=forged\u001b[2J\u009b31m"}`)
	call(t, "POST", url+"/log", `{"message":{"a":"\n\u202e"}}`)
	call(t, "GET", a.URL+"/x"+forged, "")
	call(t, "GET", a.URL+"/mux/"+forged, "")
	call(t, "POST", url+"/0", `{"active_side":"\u001b[31m\nmsg=forged"}`)
	call(t, "POST", url+"/0?reqId="+strings.Repeat("x", 200), `{"active_side":"toggle"}`)
	call(t, "GET", a.URL+"/healthz", "", "Origin: http://\x9b31m", "User-Agent: \u202eforged", "X-Forwarded-For: 10.0.0.1")

	ev := next(t, events)
	var got api.Event
	if err := json.Unmarshal([]byte(ev.data), &got); err != nil || !strings.HasPrefix(got.ReqID, "a\ndata: forged\n\nid: 99\n") || ev.event != api.EventChange {
		t.Errorf("event: %+v, %v", ev, err)
	}
	call(t, "POST", url+"/0", `{"active_side":"toggle"}`)
	if ev := next(t, events); !strings.Contains(ev.data, `"req_id":""`) {
		t.Errorf("next event: %+v, want that of the second toggle", ev)
	}

	changes := func() int {
		return len(slices.DeleteFunc(log.records(t), func(r map[string]any) bool { return r["msg"] != "mux changed" }))
	}
	wait.For(t, "the changes are logged", func() bool { return changes() == 3 })
	messages := map[any]int{}
	for _, record := range log.records(t) {
		messages[record["msg"]]++
		if client, ok := record["client"]; ok && client != "" && client != "127.0.0.1" {
			t.Errorf("client %v", record)
		}
		for key, v := range record {
			if text, ok := v.(string); ok && strings.ContainsAny(text, "\u009b\u202e") {
				t.Errorf("%s: %q", key, text)
			}
		}
	}
	if messages["client's message"] != 2 || messages["mux changed"] != 3 || messages["request failed"] != 5 {
		t.Errorf("lines by message: %v, want 2 of clients, 3 changes (one at the start) and 5 failures", messages)
	}
	if len(messages) > 6 {
		t.Errorf("lines by message: %v", messages)
	}
}

// Hundreds of polls a minute must not drown what matters in the log.
func TestPollsLeaveNoLines(t *testing.T) {
	var log lines
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.Log = slog.New(agent.NewLogHandler(&log, agent.LogJSON, slog.LevelInfo))
	}))
	url := a.URL + "/mux/vms17-8"
	changes := func() int {
		return len(slices.DeleteFunc(log.records(t), func(r map[string]any) bool { return r["msg"] != "mux changed" }))
	}
	wait.For(t, "the mux's coming is logged", func() bool { return changes() == 1 })
	before := len(log.records(t))
	call(t, "GET", url, "")
	call(t, "GET", url+"/0", "")
	call(t, "GET", url+"/9", "")
	call(t, "GET", a.URL+"/mux/other/0", "")
	if got := log.records(t)[before:]; len(got) > 0 {
		t.Errorf("polls have left %v", got)
	}
	call(t, "POST", url+"/9?reqId=5d1f", `{"active_side":"toggle"}`)
	call(t, "POST", url+"/0?reqId=5d20", `{"active_side":"toggle"}`)
	call(t, "GET", url, "", "Origin: http://evil.example")
	wait.For(t, "the change is logged", func() bool { return changes() == 2 })
	got := log.records(t)[before:]
	if len(got) != 3 {
		t.Fatalf("%d lines, want 3: %v", len(got), got)
	}
	// A change is logged beside the requests, and may come after those that followed it.
	slices.SortStableFunc(got, func(a, b map[string]any) int { return cmp.Compare(a["req_id"].(string)+"~", b["req_id"].(string)+"~") })
	for i, want := range []map[string]any{
		{"level": "INFO", "msg": "request failed", "client": "127.0.0.1", "req_id": "5d1f", "method": "POST", "status": 404.0},
		{"level": "INFO", "msg": "mux changed", "from": "upper_tor", "to": "lower_tor", "cause": "api", "client": "127.0.0.1", "req_id": "5d20"},
		{"level": "INFO", "msg": "request failed", "status": 403.0},
	} {
		for key, value := range want {
			if got[i][key] != value {
				t.Errorf("line %d, %s: %v, want %v", i, key, got[i][key], value)
			}
		}
	}
	if took, _ := got[1]["took"].(float64); took <= 0 {
		t.Errorf("the change took %v", got[1]["took"])
	}
}
