package httpapi_test

import (
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

const toggleBody = `{"active_side":"toggle"}`

func flapsOf(t *testing.T, a *agenttest.Agent) string {
	t.Helper()
	return strings.TrimSpace(call(t, "GET", a.URL+"/mux/vms17-8/flap_counter", "").body)
}

func TestARepeatDoesNothingTwice(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	for _, path := range []string{"/mux/vms17-8/0?reqId=a", "/mux/vms17-8?reqId=b"} {
		first := call(t, "POST", a.URL+path, toggleBody)
		a.Flip(1) // what happened since does not lead to another answer
		for range 3 {
			if again := call(t, "POST", a.URL+path, toggleBody); again.status != 200 || again.body != first.body {
				t.Errorf("%s: %d %s\nfirst %s", path, again.status, again.body, first.body)
			}
		}
	}
	if got, want := flapsOf(t, a), `{"mbr-vms17-8-0":2,"mbr-vms17-8-1":3}`; got != want {
		t.Errorf("flaps: %s, want %s", got, want)
	}
	if got := call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=c", toggleBody); !strings.Contains(got.body, `"flap_counter":3`) {
		t.Errorf("a new reqId is a new toggle: %s", got.body)
	}
}

// pytest repeats every answer that is not 200 three times.
func TestARepeatOfAFailedToggleSetsTheSide(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	for _, path := range []string{"/mux/vms17-8/1?reqId=a", "/mux/vms17-8?reqId=b"} {
		a.FailNext(1, "OFPFMFC_TABLE_FULL")
		if got := call(t, "POST", a.URL+path, toggleBody); got.status != 500 {
			t.Fatalf("%s: %d %s, want 500", path, got.status, got.body)
		}
		if got := call(t, "POST", a.URL+path, toggleBody); got.status != 200 {
			t.Errorf("%s, repeated: %d %s", path, got.status, got.body)
		}
	}
	// Port 1 was toggled twice in all, ports 0 and 2 once: their part of the second call was done at the first try.
	if got, want := flapsOf(t, a), `{"mbr-vms17-8-0":1,"mbr-vms17-8-1":2,"mbr-vms17-8-2":1}`; got != want {
		t.Errorf("flaps: %s, want %s", got, want)
	}
}

func TestARepeatWaitsForTheFirst(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	resume := a.Stall()
	answers := make(chan answer, 4)
	for range 4 {
		go func() { answers <- call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=a", toggleBody) }()
	}
	a.WaitAsked()
	wait.For(t, "all four have arrived", func() bool { return connections(t, a.URL) > 4 })
	if len(answers) > 0 {
		t.Errorf("a repeat was answered before the first call: %+v", <-answers)
	}
	resume()
	for range 4 {
		got := wait.Receive(t, "the answer of a repeat", answers)
		if got.status != 200 || !strings.Contains(got.body, `"active_side":"lower_tor"`) || !strings.Contains(got.body, `"flap_counter":1`) {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
}

func TestARepeatOfATimedOutToggleSetsTheSide(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	resume := a.Stall()
	if got := call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=a", toggleBody); got.status != 500 || got.header.Get(api.ErrorCodeHeader) != api.CodeTimeout {
		t.Errorf("a hung switch: %+v, want a timeout", got)
	}
	resume()
	if got := call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=a", toggleBody); got.status != 200 ||
		!strings.Contains(got.body, `"active_side":"lower_tor"`) || !strings.Contains(got.body, `"flap_counter":1`) {
		t.Errorf("the repeat: %+v, want the side that was asked for, one flap", got)
	}
}

// A reqId does not change what is judged first.
func TestAReqIDWithALargeBody(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	large := strings.Repeat("x", 70_000)
	for path, want := range map[string]int{
		"/mux/nope?reqId=a": 404, "/mux/vms17-8/7?reqId=b": 404, "/mux/vms17-8/0/reset?reqId=c": 200, "/mux/vms17-8/0?reqId=d": 413,
	} {
		if got := call(t, "POST", a.URL+path, large); got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
	}
}

func TestAReqIDOfAnotherCallIsRefused(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=a", toggleBody)
	for _, other := range []struct{ method, path, body string }{
		{"POST", "/mux/vms17-8/1?reqId=a", toggleBody},
		{"POST", "/mux/vms17-8/0?reqId=a", `{"active_side":"random"}`},
		{"PATCH", "/mux/vms17-8?reqId=a", `{"ports":{}}`},
	} {
		got := call(t, other.method, a.URL+other.path, other.body)
		if got.status != 409 || got.header.Get(api.ErrorCodeHeader) != api.CodeConflict || !strings.Contains(got.body, "use a new one for each call") {
			t.Errorf("%+v: %+v", other, got)
		}
	}
	if got := call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=a", toggleBody); got.status != 200 {
		t.Errorf("the call itself, repeated: %+v", got)
	}
	if got := call(t, "POST", a.URL+"/mux/vms17-8/0?reqId="+strings.Repeat("x", 200), toggleBody); got.status != 400 {
		t.Errorf("an endless reqId: %+v", got)
	}
	if got, want := flapsOf(t, a), `{"mbr-vms17-8-0":1,"mbr-vms17-8-1":0}`; got != want {
		t.Errorf("flaps: %s, want %s", got, want)
	}
}
