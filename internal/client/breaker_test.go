package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	synctest.Test(t, testAgentThatIsDownIsWaitedForOnce)
}

func testAgentThatIsDownIsWaitedForOnce(t *testing.T) {
	c := dial(t, gone(), budget(time.Second), calm)
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
	url := closing(t, refuse(503, api.CodeNotReady, "ovs-vswitchd is away"))
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url, budget(time.Second), calm)
		for _, repeated := range []bool{false, true} {
			_, err := c.Status(t.Context(), "vms17-8", 3)
			e := failure(t, err, api.CodeNotReady)
			if e.Repeated != repeated || !strings.Contains(err.Error(), "ovs-vswitchd is away") {
				t.Errorf("got %v: %+v", err, e)
			}
		}
	})
}

func TestAgentThatComesBackIsCalledAgain(t *testing.T) {
	var up atomic.Bool
	url := closing(t, func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		ok(port3)(w, r)
	})
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url, budget(200*time.Millisecond), calm)
		_, err := c.Status(t.Context(), "vms17-8", 3)
		if e := failure(t, err, client.CodeUnreachable); e.Repeated {
			t.Errorf("got %+v", e)
		}
		up.Store(true)
		time.Sleep(250 * time.Millisecond) // the breaker is open for as long as the budget was
		if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
			t.Error(err)
		}
	})
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

// What else a proxy or an overloaded agent says to every call. A call is spared the wait, whatever it is for.
func TestAnswersThatOpenTheBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		code   string
		opens  bool
	}{
		"429":                  {text(429, "text/plain", "slow down"), client.CodeNotAnAgent, true},
		"500 that is not ours": {text(500, "text/html", "<html>"), client.CodeNotAnAgent, true},
		"500 of the agent":     {refuse(500, api.CodeInternal, "boom"), api.CodeInternal, true},
		"502":                  {text(502, "text/html", "<html>"), client.CodeNotAnAgent, true},
		"503":                  {text(503, "text/html", "<html>"), client.CodeNotAnAgent, true},
		"504":                  {text(504, "text/html", "<html>"), client.CodeNotAnAgent, true},
		"500 that names a mux": {answer(500, api.CodePartial, api.Error{ErrMsg: "slow", Failed: map[string]api.Failure{
			"mbr-vms17-8-3": {Code: api.CodeTimeout, ErrMsg: "slow", Retryable: true},
		}}), api.CodePartial, false},
	} {
		t.Run(name, func(t *testing.T) {
			url := closing(t, tc.answer)
			synctest.Test(t, func(t *testing.T) {
				c := dial(t, url, budget(time.Second), calm)
				_, err := c.Status(t.Context(), "vms17-8", 3)
				if e := failure(t, err, tc.code); e.Repeated || e.Attempts < 2 {
					t.Errorf("got %+v", e)
				}
				_, err = c.SetSide(t.Context(), "vms17-8", 4, api.LowerToR)
				if e := failure(t, err, tc.code); e.Repeated != tc.opens || (e.Attempts == 0) != tc.opens {
					t.Errorf("the next call: %+v", e)
				}
			})
		})
	}
}

// However late a call fails: as long as there was no answer, the story is told.
func TestStoryIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, gone(), budget(time.Second), calm)
		for i := range 3 {
			_, err := c.Status(t.Context(), "vms17-8", 3)
			if e := failure(t, err, client.CodeUnreachable); e.Repeated != (i > 0) || e.Attempts == 0 {
				t.Errorf("call %d: %+v", i, e)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// closing serves an answer for each request on a connection of its own, so that nothing waits for another one in the bubble of
// a test, whose time would then stand still. It is called outside of the bubble.
func closing(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		answer(w, r)
	}).URL
}
