package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var (
	muxes3 = api.Muxes{port3.Bridge: port3}
	ports3 = map[int]api.Status{3: port3}
)

func TestSharedReadsAreOneRequest(t *testing.T) {
	all := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-all
		ok(muxes3)(w, r)
	})
	c := dial(t, s.URL)
	var wg sync.WaitGroup
	var calling atomic.Int32
	for range 120 {
		wg.Go(func() {
			if calling.Add(1) == 120 {
				close(all)
			}
			got, err := c.Shared(t.Context(), "vms17-8")
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(ports3, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	wg.Wait()
	if reqs := s.requests(); len(reqs) != 1 {
		t.Errorf("got %d requests, want 1", len(reqs))
	}
	if _, err := c.Shared(t.Context(), "vms21-1"); err != nil {
		t.Fatal(err)
	}
	if reqs := s.requests(); len(reqs) != 2 || reqs[1].Path != "/mux/vms21-1" {
		t.Errorf("another vm_set was not read: %+v", reqs)
	}
}

func TestSharedIsReadAnewAfterAWhile(t *testing.T) {
	var requests atomic.Int32
	url := closing(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		ok(muxes3)(w, r)
	})
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url)
		for i := range int32(3) {
			for range 2 {
				if _, err := c.Shared(t.Context(), "vms17-8"); err != nil {
					t.Fatal(err)
				}
			}
			if n := requests.Load(); n != i+1 {
				t.Errorf("got %d requests after %d seconds, want one a second", n, i)
			}
			time.Sleep(time.Second)
		}
	})
}

// A read that began before a write must not serve who comes after it.
func TestWriteEndsSharing(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	old := func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-goOn
		ok(muxes3)(w, r)
	}
	now := port3
	now.ActiveSide = api.LowerToR
	s := serve(t, old, ok(now), ok(api.Muxes{now.Bridge: now}))
	c := dial(t, s.URL)

	early := make(chan map[int]api.Status)
	go func() {
		got, err := c.Shared(t.Context(), "vms17-8")
		if err != nil {
			t.Error(err)
		}
		early <- got
	}()
	<-began
	if _, err := c.SetSide(t.Context(), "vms17-8", 3, api.LowerToR); err != nil {
		t.Fatal(err)
	}
	late, err := c.Shared(t.Context(), "vms17-8")
	if err != nil {
		t.Fatal(err)
	}
	if got := late[3].ActiveSide; got != api.LowerToR {
		t.Errorf("a read after the write says %s", got)
	}
	close(goOn)
	if got := (<-early)[3].ActiveSide; got != api.UpperToR {
		t.Errorf("the read from before says %s", got)
	}
	if again, err := c.Shared(t.Context(), "vms17-8"); err != nil || again[3].ActiveSide != api.LowerToR {
		t.Errorf("the old answer was kept: %v, %v", again, err)
	}
}

func TestSharedFailureIsToldOnceAndNotKept(t *testing.T) {
	all := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-all
		refuse(404, api.CodeUnknownVMSet, "nope")(w, r)
	}, ok(muxes3))
	c := dial(t, s.URL)
	var wg sync.WaitGroup
	var full, repeated atomic.Int32
	for range 10 {
		joined := make(chan struct{})
		ctx := &tellingContext{Context: t.Context(), asked: joined}
		wg.Go(func() {
			_, err := c.Shared(ctx, "vms17-8")
			if failure(t, err, api.CodeUnknownVMSet).Repeated {
				repeated.Add(1)
			} else {
				full.Add(1)
			}
		})
		<-joined
	}
	close(all)
	wg.Wait()
	if full.Load() != 1 || repeated.Load() != 9 {
		t.Errorf("%d got the failure in full, %d marked as repeated, want 1 and 9", full.Load(), repeated.Load())
	}
	if _, err := c.Shared(t.Context(), "vms17-8"); err != nil {
		t.Errorf("the failure was kept: %v", err)
	}
}

func TestSharedOutlivesWhoBeganIt(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-goOn:
		case <-r.Context().Done():
			t.Error("the read was cancelled while somebody waited for it")
		}
		ok(muxes3)(w, r)
	})
	c := dial(t, s.URL)
	first, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	left := make(chan struct{})
	wg.Go(func() {
		defer close(left)
		if _, err := c.Shared(first, "vms17-8"); err == nil {
			t.Error("a cancelled call got an answer")
		}
	})
	<-began
	joined := make(chan struct{})
	second := &tellingContext{Context: t.Context(), asked: joined}
	wg.Go(func() {
		if _, err := c.Shared(second, "vms17-8"); err != nil {
			t.Error(err)
		}
	})
	<-joined
	cancel()
	<-left
	close(goOn)
	wg.Wait()
	if n := len(s.requests()); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
}

// A tellingContext tells when somebody begins to wait for it.
type tellingContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *tellingContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

func TestLastToLeaveCancelsTheSharedRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := dial(t, s.URL).Shared(ctx, "vms17-8")
	if e := failure(t, err, client.CodeCancelled); !errors.Is(e.Stopped, context.Canceled) {
		t.Errorf("the error hides why: %v", err)
	}
}
