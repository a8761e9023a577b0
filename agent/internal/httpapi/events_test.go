package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A sse is one server-sent event.
type sse struct{ id, event, data string }

// stream subscribes to the events and returns what comes.
func stream(t *testing.T, url, lastEventID string) <-chan sse {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/mux/vms17-8/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	client := http.Client{Transport: &http.Transport{}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events: %s, %s", res.Status, res.Header.Get("Content-Type"))
	}
	events := make(chan sse, 1000)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(events)
		var ev sse
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "id":
				ev.id = value
			case "event":
				ev.event = value
			case "data":
				ev.data = value
			case "":
				if ev.id != "" {
					events <- ev
				}
				ev = sse{}
			}
		}
	}()
	t.Cleanup(func() {
		_ = res.Body.Close()
		<-ended
		client.CloseIdleConnections()
	})
	return events
}

func next(t *testing.T, events <-chan sse) sse {
	t.Helper()
	select {
	case ev, ok := <-events:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return ev
	case <-time.After(wait.Limit):
		t.Fatalf("no event within %v", wait.Limit)
	}
	return sse{}
}

func TestEventStream(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	events := stream(t, a.URL, "")
	hello := next(t, events)
	if hello.event != "" || hello.data != "" {
		t.Errorf("first: %+v, want an id alone", hello)
	}
	call(t, "POST", a.URL+"/mux/vms17-8/1?reqId=5d1f", `{"active_side":"toggle"}`)
	ev := next(t, events)
	var got api.Event
	if err := json.Unmarshal([]byte(ev.data), &got); err != nil {
		t.Fatalf("%v: %q", err, ev.data)
	}
	if got.Time.IsZero() || got.TookUS <= 0 || fmt.Sprint(got.Seq) != ev.id || ev.event != api.EventChange {
		t.Errorf("event: %+v", ev)
	}
	want := api.Event{
		Bridge: "mbr-vms17-8-1", Cause: "api", Client: "127.0.0.1", PortIndex: 1, ReqID: "5d1f", VMSet: "vms17-8",
		From: &api.MuxState{ActiveSide: "upper_tor", Dropped: []string{}, Healthy: true},
		To:   &api.MuxState{ActiveSide: "lower_tor", Dropped: []string{}, Healthy: true},
	}
	got.Time, got.TookUS, got.Seq = time.Time{}, 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}

	// A reader that comes back gets what it has missed, each event once and in order.
	call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"toggle"}`)
	again := stream(t, a.URL, hello.id)
	next(t, again)
	var ids []string
	for range 4 {
		ids = append(ids, next(t, again).id)
	}
	var first int
	if _, err := fmt.Sscan(hello.id, &first); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if id != fmt.Sprint(first+1+i) {
			t.Errorf("ids after %s: %v", hello.id, ids)
			break
		}
	}

	// A reader of an agent that was restarted since is told so.
	a.Restart()
	restarted := stream(t, a.URL, hello.id)
	if ev := next(t, restarted); ev.event != "" {
		t.Errorf("first: %+v", ev)
	}
	if ev := next(t, restarted); ev.event != api.EventMissed {
		t.Errorf("after a restart: %+v, want %q", ev, api.EventMissed)
	}
}

func TestEventStreamsDoNotKeepTheAgentFromStopping(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	events := stream(t, a.URL, "")
	next(t, events)
	a.Stop() // fails the test when requests are still open at its end
	for range events {
	}
}

func TestHeadOfTheEventStreamEnds(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	client := http.Client{Timeout: wait.Limit}
	defer client.CloseIdleConnections()
	for range 2 { // the second on the connection of the first
		res, err := client.Head(a.URL + "/mux/vms17-8/events")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %s, %v", res.Status, res.Header)
		}
	}
}

func TestHistory(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	call(t, "POST", a.URL+"/mux/vms17-8/1?reqId=5d1f", `{"active_side":"toggle"}`)
	call(t, "POST", a.URL+"/mux/vms17-8/1/drop", `{"out_sides":["nic"]}`)
	call(t, "POST", a.URL+"/mux/vms17-8/reload", "")
	list := func(path string) []string {
		t.Helper()
		var h api.History
		got := call(t, "GET", a.URL+path, "")
		if err := json.Unmarshal([]byte(got.body), &h); err != nil {
			t.Fatalf("%v: %s", err, got.body)
		}
		var lines []string
		for _, ev := range h.Events {
			from := "none"
			if ev.From != nil {
				from = ev.From.ActiveSide + fmt.Sprint(ev.From.Dropped)
			}
			lines = append(lines, fmt.Sprintf("%d %s→%s%v %s %s %s", ev.PortIndex, from, ev.To.ActiveSide, ev.To.Dropped, ev.Cause, ev.Client, ev.ReqID))
		}
		return lines
	}
	want := []string{
		"1 none→upper_tor[] external  ",
		"1 upper_tor[]→lower_tor[] api 127.0.0.1 5d1f",
		"1 lower_tor[]→lower_tor[nic] api 127.0.0.1 ",
		"1 lower_tor[nic]→lower_tor[] recovery  ", // a reload repairs, as a start does
	}
	if diff := cmp.Diff(want, list("/mux/vms17-8/1/history")); diff != "" {
		t.Errorf("history of port 1 (-want +got):\n%s", diff)
	}
	if got := list("/mux/vms17-8/history"); len(got) != 5 {
		t.Errorf("history of all: %q, want the four above and port 0's", got)
	}
	a.RemoveBridge(0)
	if got := call(t, "GET", a.URL+"/mux/vms17-8/0/history", ""); got.status != 200 || !strings.Contains(got.body, `"to":null`) {
		t.Errorf("history of a port that is gone: %+v", got)
	}
	if got := call(t, "GET", a.URL+"/mux/vms17-8/7/history", ""); got.status != 404 {
		t.Errorf("history of a port that never was: %+v", got)
	}
}

func TestWaitForASide(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	url := a.URL + "/mux/vms17-8/0"
	if got := call(t, "GET", url+"?active_side=upper_tor&wait=10s", ""); got.status != 200 || !strings.Contains(got.body, `"active_side":"upper_tor"`) {
		t.Errorf("a side that is reached: %+v", got)
	}
	if got := call(t, "GET", url+"?active_side=lower_tor&wait=10ms", ""); got.status != 412 ||
		got.header.Get(api.ErrorCodeHeader) != api.CodeNotReached || !strings.Contains(got.body, `"active_side":"upper_tor"`) {
		t.Errorf("a side that is not reached: %+v, want 412 with the status", got)
	}

	const waiters = 500
	answers := make(chan answer, waiters)
	for range waiters {
		go func() { answers <- call(t, "GET", url+"?active_side=lower_tor&wait=30s", "") }()
	}
	wait.For(t, "all have arrived", func() bool { return connections(t, a.URL) > waiters })
	call(t, "POST", url, `{"active_side":"lower_tor"}`)
	for range waiters {
		select {
		case got := <-answers:
			if got.status != 200 || !strings.Contains(got.body, `"active_side":"lower_tor"`) {
				t.Errorf("waiter: %+v", got)
			}
		case <-time.After(wait.Limit):
			t.Fatal("a waiter was not answered")
		}
	}

	for query, want := range map[string]string{
		"?wait=1s":                        "wait needs active_side",
		"?active_side=toggle&wait=1s":     "wait needs active_side",
		"?active_side=lower_tor&wait=61s": "from 0s to 60s",
		"?active_side=lower_tor&wait=-1s": "from 0s to 60s",
		"?active_side=lower_tor&wait=10":  "such as wait=10s",
	} {
		if got := call(t, "GET", url+query, ""); got.status != 400 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %+v, want %q", query, got, want)
		}
	}
}
