package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The history costs no more than it may, whatever clients and bridges are called and however many come and go.
func TestHistoryIsBounded(t *testing.T) {
	const most = 64 << 10
	j := newJournal(time.Now(), most)
	for i := range 20_000 {
		bridge := i % 10
		if i > 10_000 {
			bridge = i
		}
		j.add(Event{Bridge: fmt.Sprint(bridge), Index: bridge, Origin: Origin{ReqID: strings.Repeat("x", i%128), Client: "192.0.2.1"}})
		if j.size > most {
			t.Fatalf("%d bytes after %d events", j.size, i+1)
		}
	}
	counted := 0
	for _, r := range j.byMux {
		for i := range r.events {
			counted += r.events[i].cost()
		}
	}
	if counted != j.size || len(j.byMux) > most/eventCost || j.size < most/2 {
		t.Errorf("%d bytes of %d bridges, counted as %d", counted, len(j.byMux), j.size)
	}
}
