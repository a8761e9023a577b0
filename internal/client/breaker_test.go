package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// gone is the address of a server that is no more.
func gone() string {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	return srv.URL
}

func TestAgentThatIsDownIsWaitedForOnce(t *testing.T) {
	c := dial(t, gone(), budget(200*time.Millisecond))
	var wg sync.WaitGroup
	var full atomic.Int32
	for i := range 40 {
		wg.Go(func() {
			_, err := c.Status(t.Context(), "vms17-8", i)
			if e := failure(t, err, client.CodeUnreachable); !e.Repeated {
				full.Add(1)
			}
		})
	}
	wg.Wait()
	if full.Load() != 1 {
		t.Errorf("%d calls got the full failure, want 1", full.Load())
	}
	_, err := c.SetSide(t.Context(), "vms17-8", 3, api.LowerToR)
	e := failure(t, err, client.CodeUnreachable)
	if e.Attempts != 0 || !e.Repeated || e.MayHaveLanded || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a later call was not spared the wait: %v: %+v", err, e)
	}
}

func TestAgentThatIsNotReadyIsWaitedForOnce(t *testing.T) {
	s := serve(t, refuse(503, api.CodeNotReady, "ovs-vswitchd is away"))
	c := dial(t, s.URL, budget(100*time.Millisecond))
	for _, repeated := range []bool{false, true} {
		_, err := c.Status(t.Context(), "vms17-8", 3)
		e := failure(t, err, api.CodeNotReady)
		if e.Repeated != repeated || !strings.Contains(err.Error(), "ovs-vswitchd is away") {
			t.Errorf("got %v: %+v", err, e)
		}
	}
}

func TestAgentThatComesBackIsCalledAgain(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		ok(port3)(w, r)
	})
	c := dial(t, s.URL, budget(200*time.Millisecond))
	_, err := c.Status(t.Context(), "vms17-8", 3)
	if e := failure(t, err, client.CodeUnreachable); e.Repeated {
		t.Errorf("got %+v", e)
	}
	up.Store(true)
	time.Sleep(250 * time.Millisecond) // the breaker is open for as long as the budget was
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Error(err)
	}
}

// One path that does not answer says nothing of the others.
func TestAnswersKeepTheBreakerClosed(t *testing.T) {
	slow := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/7") {
			<-r.Context().Done()
			return
		}
		ok(port3)(w, r)
	})
	c := dial(t, s.URL, budget(200*time.Millisecond))
	go func() {
		defer close(slow)
		_, err := c.Status(t.Context(), "vms17-8", 7)
		if e := failure(t, err, client.CodeTimeout); e.Repeated {
			t.Errorf("got %+v", e)
		}
	}()
	for len(s.requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Fatal(err)
	}
	<-slow
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Errorf("the breaker opened: %v", err)
	}
}

// A stream has no budget: that it broke says nothing yet.
func TestStreamThatBreaksSparesNobodyTheWait(t *testing.T) {
	var up atomic.Bool
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		ok(port3)(w, r)
	})
	c := dial(t, s.URL, budget(10*time.Second))
	if _, err := c.WaitForSide(t.Context(), "vms17-8", 3, api.LowerToR, time.Second); err == nil {
		t.Fatal("a broken connection was no failure")
	}
	up.Store(true)
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Errorf("the breaker opened: %v", err)
	}
}
