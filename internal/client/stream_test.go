package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Endpoint: url, MaxElapsed: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A stream that breaks is opened again behind the last event that was seen.
func TestFollowGoesOnWhereItBroke(t *testing.T) {
	var opened atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch opened.Add(1) {
		case 1:
			fmt.Fprint(w, "retry: 1000\nid: 4\n\n: alive\n\nid: 5\nevent: change\ndata: {\"seq\":5,\"port_index\":3}\n\nid: 6\nevent: cha")
		default:
			if got := r.Header.Get("Last-Event-ID"); got != "5" && got != "6" {
				t.Errorf("the stream was opened again with Last-Event-ID %q", got)
			}
			fmt.Fprint(w, "id: 9\nevent: missed\ndata: {}\n\n")
		}
	}))
	defer service.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var told []string
	err := newClient(t, service.URL).Follow(ctx, "vms1", func(n client.Notice) {
		switch {
		case n.Connected:
			told = append(told, "connected")
		case n.Lost != nil:
			told = append(told, "lost")
		case n.Change != nil:
			told = append(told, fmt.Sprintf("change %d of port %d", n.Change.Seq, n.Change.PortIndex))
		case n.Missed:
			told = append(told, "missed")
			cancel()
		}
	})
	if err != nil {
		t.Errorf("Follow ended with %v", err)
	}
	want := []string{"connected", "change 5 of port 3", "lost", "connected", "missed"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Behind a proxy an agent that restarts is a 502, or whatever the proxy says.
func TestWhatPassesEndsNeitherFollowNorWait(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := serve(t, text(status, "text/html", "<html>"), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "id: 9\nevent: missed\ndata: {}\n\n")
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := dial(t, s.URL).Follow(ctx, "vms17-8", func(n client.Notice) {
				if n.Missed {
					cancel()
				}
			}); err != nil {
				t.Errorf("Follow ended with %v", err)
			}
			s = serve(t, text(status, "text/html", "<html>"), ok(port3))
			if _, err := dial(t, s.URL).WaitForSide(t.Context(), "vms17-8", 3, api.UpperToR, time.Minute); err != nil {
				t.Errorf("WaitForSide ended with %v", err)
			}
		})
	}
}

// What does not pass by itself ends it.
func TestFollowEndsWithWhatStays(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	err := newClient(t, a.URL).Follow(t.Context(), "vms9", func(n client.Notice) { t.Errorf("told %+v", n) })
	if client.Code(err) != api.CodeUnknownVMSet {
		t.Errorf("unknown vm_set: %v", err)
	}
	for what, answer := range map[string]string{"a page": "<html>", "no JSON": "event: change\ndata: nonsense\n\n"} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if what == "no JSON" {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			fmt.Fprint(w, answer)
		}))
		err := newClient(t, service.URL).Follow(t.Context(), "vms1", func(client.Notice) {})
		if client.Code(err) != client.CodeNotAnAgent {
			t.Errorf("%s: %v", what, err)
		}
		service.Close()
	}
}

// A service that sends an event without end is no agent, and costs no more memory than an event may have.
func TestFollowEndsWithWhatHasNoEnd(t *testing.T) {
	line := strings.Repeat("a", 1000)
	for name, endless := range map[string]string{"a line": line, "data": "data: " + line + "\n", "an id": "id: " + line + "\n\n"} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for sent < 100<<20 {
					n, err := fmt.Fprint(w, endless)
					if err != nil {
						return
					}
					sent += n
				}
			}))
			err := newClient(t, service.URL).Follow(t.Context(), "vms1", func(client.Notice) {})
			if client.Code(err) != client.CodeNotAnAgent {
				t.Errorf("Follow ended with %v", err)
			}
			service.Close()
			if sent > 50<<20 {
				t.Errorf("%d MB were read", sent>>20)
			}
		})
	}
}

func TestWaitForSide(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	c := newClient(t, a.URL)
	status, err := c.WaitForSide(t.Context(), "vms17-8", 0, api.UpperToR, 0)
	if err != nil || status.ActiveSide != api.UpperToR {
		t.Errorf("the side that it has: %v, %v", status.ActiveSide, err)
	}
	status, err = c.WaitForSide(t.Context(), "vms17-8", 0, api.LowerToR, 20*time.Millisecond)
	if client.Code(err) != api.CodeNotReached || status.ActiveSide != api.UpperToR {
		t.Errorf("in vain: %v, %v", status.ActiveSide, err)
	}
	if _, err = c.WaitForSide(t.Context(), "vms17-8", 9, api.LowerToR, time.Minute); client.Code(err) != api.CodeUnknownPort {
		t.Errorf("unknown port: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.WaitForSide(ctx, "vms17-8", 0, api.LowerToR, time.Minute); client.Code(err) != client.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
	go a.Flip(1)
	if status, err = c.WaitForSide(t.Context(), "vms17-8", 1, api.LowerToR, time.Minute); err != nil || status.ActiveSide != api.LowerToR {
		t.Errorf("the side that comes: %v, %v", status.ActiveSide, err)
	}
}

// mux_simulator.py takes no notice of wait, and answers at once.
func TestWaitForSideAtTheOldService(t *testing.T) {
	var asked atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		side := api.UpperToR
		if asked.Add(1) > 2 {
			side = api.LowerToR
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"bridge":"mbr-vms1-0","active_side":%q}`, side)
	}))
	defer service.Close()
	status, err := newClient(t, service.URL).WaitForSide(t.Context(), "vms1", 0, api.LowerToR, time.Minute)
	if err != nil || status.ActiveSide != api.LowerToR {
		t.Errorf("got %v, %v", status.ActiveSide, err)
	}
}

func TestHistory(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	c := newClient(t, a.URL)
	a.Flip(1)
	events, err := c.History(t.Context(), "vms17-8")
	if err != nil || len(events) == 0 || events[len(events)-1].To.ActiveSide != api.LowerToR {
		t.Errorf("history: %v, %v", events, err)
	}
	events, err = c.PortHistory(t.Context(), "vms17-8", 1)
	if err != nil || len(events) == 0 || !strings.HasSuffix(events[0].Bridge, "-1") {
		t.Errorf("history of a port: %v, %v", events, err)
	}
	if _, err = c.PortHistory(t.Context(), "vms17-8", 7); client.Code(err) != api.CodeUnknownPort {
		t.Errorf("history of an unknown port: %v", err)
	}
}
