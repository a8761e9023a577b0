package httpapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// sameCall is the call of all of these requests.
func sameCall() [sha256.Size]byte { return sha256.Sum256([]byte("x")) }

// finish runs a call to its end, and reports whether it had been answered before.
func finish(t *testing.T, p *requests, id string, answer []byte) (answered bool) {
	t.Helper()
	q, answered, err := p.begin(context.Background(), id, sameCall())
	if err != nil {
		t.Fatal(err)
	}
	if !answered {
		p.end(id, q, answer)
	}
	return answered
}

func TestReqIDsAreForgottenAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRequests()
		finish(t, p, "a", []byte("{}"))
		time.Sleep(rememberFor)
		if !finish(t, p, "a", []byte("{}")) {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Second)
		if finish(t, p, "a", []byte("{}")) {
			t.Error("remembered for too long")
		}
	})
}

func TestMemoryOfReqIDsIsBounded(t *testing.T) {
	p := newRequests()
	running, _, err := p.begin(t.Context(), "running", sameCall())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		finish(t, p, fmt.Sprint(i), make([]byte, i%60_000))
	}
	size := 0
	for _, q := range p.ended.Values() {
		size += q.cost()
	}
	if size != p.size || size > maxRemembered || size < maxRemembered/2 {
		t.Errorf("%d bytes are kept, counted as %d; want at most %d and not much less", size, p.size, maxRemembered)
	}
	if !finish(t, p, "19999", nil) || finish(t, p, "0", []byte("{}")) {
		t.Error("want the last call remembered and the first forgotten")
	}
	if p.running["running"] != running {
		t.Error("a call under way was forgotten")
	}
}

// A repeat neither runs beside the first call nor is answered before it, and gets its answer.
func TestRepeatsWaitForTheCallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRequests()
		first, _, err := p.begin(t.Context(), "a", sameCall())
		if err != nil {
			t.Fatal(err)
		}
		const repeats = 3
		answers := make(chan string, repeats)
		for range repeats {
			go func() {
				q, answered, err := p.begin(t.Context(), "a", sameCall())
				if err != nil || !answered {
					answers <- fmt.Sprintf("answered %v, %v", answered, err)
					return
				}
				answers <- string(q.body)
			}()
		}
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatalf("%d repeats did not wait: %s", len(answers), <-answers)
		}
		p.end("a", first, []byte("first"))
		for range repeats {
			if got := <-answers; got != "first" {
				t.Errorf("a repeat got %s", got)
			}
		}
	})
}
