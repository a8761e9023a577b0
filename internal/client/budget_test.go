package client_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// upLater is an agent that is not ready until up is set.
func upLater(t *testing.T) (url string, up *atomic.Bool) {
	t.Helper()
	up = &atomic.Bool{}
	return closing(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			refuse(503, api.CodeNotReady, "ovs-vswitchd is away")(w, r)
		case strings.HasSuffix(r.URL.Path, "/3"):
			ok(port3)(w, r)
		default:
			ok(muxes3)(w, r)
		}
	}), up
}

// calm has the waits of a real client, for tests whose time is not real.
func calm(cfg *client.Config) { cfg.MinDelay, cfg.MaxDelay = 0, 0 }

// The time of an operation may be longer than MaxElapsed, also for a shared read and with an open breaker.
func TestBudgetThatIsLongerThanMaxElapsed(t *testing.T) {
	for name, call := range map[string]func(*client.Client, *testing.T) error{
		"a call": func(c *client.Client, t *testing.T) error {
			_, err := c.Status(client.WithBudget(t.Context(), time.Minute), "vms17-8", 3)
			return err
		},
		"a shared read": func(c *client.Client, t *testing.T) error {
			_, err := c.Shared(client.WithBudget(t.Context(), time.Minute), "vms17-8")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, up := upLater(t)
			synctest.Test(t, func(t *testing.T) {
				c := dial(t, url, budget(time.Second), calm)
				if _, err := c.Status(t.Context(), "vms17-8", 3); err == nil { // opens the breaker
					t.Fatal("an agent that is not ready gave an answer")
				}
				time.AfterFunc(30*time.Second, func() { up.Store(true) })
				if err := call(c, t); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// All calls of an operation share its time.
func TestBudgetIsForAllCallsTogether(t *testing.T) {
	url, _ := upLater(t)
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url, budget(time.Hour), calm)
		began := time.Now()
		ctx := client.WithBudget(t.Context(), 10*time.Second)
		for range 2 {
			_, err := c.Status(ctx, "vms17-8", 3)
			if e := (*client.Error)(nil); !errors.As(err, &e) || e.Budget != 10*time.Second || e.Stopped != nil {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("two calls took %s, want 10s together", took)
		}
	})
}

// A call that had little time says nothing of the agent, and waits for a shared read only as long.
func TestBudgetThatIsShorterThanMaxElapsed(t *testing.T) {
	url, up := upLater(t)
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url, budget(time.Minute), calm)
		began := time.Now()
		_, err := c.Status(client.WithBudget(t.Context(), time.Second), "vms17-8", 3)
		if e := failure(t, err, api.CodeNotReady); e.Repeated || e.Budget != time.Second {
			t.Errorf("got %+v", e)
		}
		patient := make(chan error)
		go func() {
			_, err := c.Shared(t.Context(), "vms17-8")
			patient <- err
		}()
		synctest.Wait()
		_, err = c.Shared(client.WithBudget(t.Context(), 2*time.Second), "vms17-8")
		if e := failure(t, err, client.CodeTimeout); e.Budget != 2*time.Second || e.Repeated {
			t.Errorf("got %+v", e)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s, want 3s", took)
		}
		up.Store(true)
		if err := <-patient; err != nil {
			t.Errorf("who has more time got %v", err)
		}
	})
}

// What is told is the time of the whole operation, not what the first of its calls have left of it.
func TestBudgetOfASharedReadIsTheWhole(t *testing.T) {
	url, _ := upLater(t)
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url, budget(time.Minute), calm)
		ctx := client.WithBudget(t.Context(), 3*time.Second)
		time.Sleep(time.Second) // on other calls
		_, err := c.Shared(ctx, "vms17-8")
		if e := failure(t, err, api.CodeNotReady); e.Budget != 3*time.Second {
			t.Errorf("the time of the operation is told as %s, want 3s", e.Budget)
		}
	})
}

// A glance gives up early, and leaves the waiting and the story to others.
func TestGlance(t *testing.T) {
	url, up := upLater(t)
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, url, budget(time.Minute), calm)
		began := time.Now()
		patient := make(chan error)
		go func() { // joins what the glance began
			time.Sleep(time.Second)
			_, err := c.Shared(t.Context(), "vms17-8")
			patient <- err
		}()
		if _, ok := c.Glance(t.Context(), "vms17-8"); ok {
			t.Error("an agent that is not ready was seen")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a glance took %s", took)
		}
		time.Sleep(10 * time.Second)
		up.Store(true)
		if err := <-patient; err != nil {
			t.Error(err)
		}
		if ports, ok := c.Glance(t.Context(), "vms17-8"); !ok || len(ports) != 1 {
			t.Errorf("got %v", ports)
		}
	})
}

func TestTokens(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer s3cret" {
			t.Errorf("got %q", got)
		}
		ok(port3)(w, r)
	})
	c := dial(t, s.URL, func(cfg *client.Config) { cfg.Token = " s3cret\n" })
	if _, err := c.Status(t.Context(), "vms17-8", 3); err != nil {
		t.Error(err)
	}
	for _, token := range []string{"two words", "two\nlines", "caf\u00e9", "nul\x00"} {
		if _, err := client.New(client.Config{Endpoint: s.URL, Token: token}); err == nil {
			t.Errorf("%q was taken", token)
		}
	}
}

// What fails before a connection is asked for is not the network's fault, and is not tried again.
func TestRequestThatCantBeMade(t *testing.T) {
	c := dial(t, gone(), func(cfg *client.Config) { cfg.UserAgent = "one\ntwo" })
	_, err := c.Status(t.Context(), "vms17-8", 3)
	if e := failure(t, err, client.CodeUnsendable); e.Attempts != 1 || e.MayHaveLanded {
		t.Errorf("got %+v", e)
	}
}

// 200 says that a write was done, whatever the body looks like.
func TestBrokenAnswerToAWriteMayHaveLanded(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"broken JSON": text(200, "application/json", `{"bridge":`),
		"other JSON":  text(200, "application/json", `{}`),
		"HTML":        text(200, "text/html", "<html>"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, serve(t, answer).URL).SetSide(t.Context(), "vms17-8", 3, api.LowerToR)
			if e := failure(t, err, client.CodeNotAnAgent); !e.MayHaveLanded {
				t.Errorf("got %+v", e)
			}
		})
	}
}
