package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// What is not an answer of a database ends the connection with an error that says so. Garbage used to spin a core for ever, a null
// id or a bare number ended the process, and so did an answer without rows.
func TestPeersThatAreNoDatabase(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]string{
		"garbage":             strings.Repeat("\xff\x00garbage", 1000),
		"a null id":           `{"id":null}`,
		"null":                "null\n",
		"a bare number":       "5\n",
		"a list":              `[1,2]`,
		"nothing":             `{}`,
		"another's answer":    `{"id":"x","result":[],"error":null}`,
		"a request":           `{"id":1,"method":"steal","params":[]}`,
		"an echo of nothing":  `{"id":1,"method":"echo"}`,
		"no parameters":       `{"id":null,"method":"update","params":[]}`,
		"an early update":     `{"id":null,"method":"update","params":[null,{}]}`,
		"rows that are none":  `{"id":1,"error":null,"result":{"Open_vSwitch":{"x":{"new":5}}}}`,
		"an answer of null":   `{"id":1,"error":null,"result":null}`,
		"an answer of text":   `{"id":1,"error":null,"result":"yes"}`,
		"no root":             `{"id":1,"error":null,"result":{}}`,
		"a bad bridge":        `{"id":1,"error":null,"result":{"Open_vSwitch":{"x":{"new":{}}},"Bridge":{"y":{"new":{"name":7}}}}}`,
		"a bad uuid":          `{"id":1,"error":null,"result":{"Open_vSwitch":{"x":{"new":{}}},"Bridge":{"y":{"new":{"ports":["uuid",7]}}}}}`,
		"deep":                strings.Repeat(`[`, 20000),
		"numbers without end": `{"id":1` + strings.Repeat("1", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &peer{hears: func(_ string, _ json.RawMessage, write func(string)) bool { write(sends); return false }}
			d, _ := open(t, p.start(t), wait.Limit)
			err := d.Connect(t.Context())
			if err == nil || !strings.Contains(err.Error(), "the database of Open vSwitch at") {
				t.Errorf("error %v, want one that names the database", err)
			}
		})
	}
}

// What comes after a good start is no better trusted.
func TestPeersThatGoBad(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]string{
		"garbage":              "}{",
		"a null id":            `{"id":null}`,
		"a bare number":        "5\n",
		"no parameters":        `{"id":null,"method":"update","params":[]}`,
		"rows that are none":   `{"id":null,"method":"update","params":[null,{"Bridge":{"x":{"new":5}}}]}`,
		"an update of text":    `{"id":null,"method":"update","params":[null,"x"]}`,
		"an answer of no rows": `{"id":2,"error":null,"result":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &peer{rows: oneBridge, hears: func(_ string, _ json.RawMessage, write func(string)) bool { write(sends); return true }}
			d, changes := open(t, p.start(t), wait.Limit)
			if err := d.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			wait.Receive(t, "what has changed", changes)
			if _, _, err := d.Look(t.Context(), everyBridge); err == nil {
				t.Error("a look succeeded")
			}
			if c := wait.Receive(t, "what has changed", changes); !c.All {
				t.Errorf("told %+v, want that the connection is lost", c)
			}
			if _, err := d.View(everyBridge); err == nil {
				t.Error("rows of a lost connection are believed")
			}
		})
	}
}

// An endless string used to take gigabytes.
func TestEndlessString(t *testing.T) {
	p := &peer{hears: func(_ string, _ json.RawMessage, write func(string)) bool {
		write(`{"id":1,"error":null,"result":"`)
		more := strings.Repeat("a", 1<<20)
		for range 20 * maxMessage >> 20 {
			write(more)
		}
		return false
	}}
	d, _ := open(t, p.start(t), wait.Limit)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := d.Connect(t.Context())
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "a message of more than") {
		t.Errorf("error %v, want that the message is too long", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*maxMessage {
		t.Errorf("it allocated %d MB", took>>20)
	}
}

// Rows that never end are too many at some time; a row that goes, or that others replace, makes room.
func TestEndlessRows(t *testing.T) {
	t.Parallel()
	r := newRows()
	r.limit = 1 << 16
	row := func(i int) updates {
		var u updates
		text := fmt.Sprintf(`{"Interface":{"%d":{"new":{"name":"%s"}}}}`, i, strings.Repeat("a", 1<<10))
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for i := range 1000 {
		if _, _, err := r.apply(row(i % 10)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, _, err = r.apply(row(i))
	}
	if err == nil || !strings.Contains(err.Error(), "the rows hold more than") || len(r.interfaces) > 64 {
		t.Errorf("%d rows, error %v; want that there are too many", len(r.interfaces), err)
	}
}

// A peer that reads nothing does not hold anybody for longer than the timeout.
func TestPeerThatHangs(t *testing.T) {
	t.Parallel()
	over := make(chan bool)
	p := &peer{rows: oneBridge, hears: func(string, json.RawMessage, func(string)) bool { <-over; return false }}
	d, _ := open(t, p.start(t), time.Second)
	t.Cleanup(func() { close(over) }) // before the peer waits for its connections
	wait.For(t, "it is connected", func() bool { return d.Connect(t.Context()) == nil })
	if err := d.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer on") {
		t.Errorf("error %v, want that it does not answer", err)
	}
	if _, err := d.View(everyBridge); err == nil {
		t.Error("the rows of a database that does not answer are believed")
	}
}

// Attempts have pauses, whoever asks for them.
func TestPausesBetweenAttempts(t *testing.T) {
	t.Parallel()
	p := &peer{hears: func(_ string, _ json.RawMessage, write func(string)) bool { write("garbage"); return false }}
	d, _ := open(t, p.start(t), wait.Limit)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if d.Connect(ctx) == nil {
			t.Fatal("it connected")
		}
		time.Sleep(time.Millisecond) // a caller in a loop, that doesn't take a core
	}
	// 5, 10, 20, … ms, at least half of each.
	if got := p.dialled(); got > 12 || got < 4 {
		t.Errorf("%d attempts in a second", got)
	}
}

// The answer to a transaction whose commit failed has no error of an operation, but one result more (RFC 7047, 4.1.3). It was
// taken for success, and cost 30 s of waiting for what would never be done.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	p := &peer{rows: oneBridge, hears: func(method string, id json.RawMessage, write func(string)) bool {
		write(`{"id":` + string(id) + `,"error":null,"result":[{"count":1},{"count":1},{"rows":[{"next_cfg":5}]},` +
			`{"error":"I/O error","details":"/etc/openvswitch/conf.db: write failed (No space left on device)"}]}`)
		return true
	}}
	d, _ := open(t, p.start(t), wait.Limit)
	started := time.Now()
	err := d.Secure(t.Context(), []Secured{{Bridge: "br0"}})
	if err == nil || !strings.Contains(err.Error(), "No space left on device") {
		t.Errorf("error %v, want the database's own words", err)
	}
	if took := time.Since(started); took > reconfigureTimeout/2 {
		t.Errorf("it took %v", took)
	}
}

// An ovs-vswitchd that does not do what it is told, such as one that hangs, keeps nobody who ends.
func TestSecureEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan bool, 1000)
	p := &peer{rows: oneBridge, hears: func(_ string, id json.RawMessage, write func(string)) bool {
		answer := `[{"rows":[{"cur_cfg":4}]}]`
		if len(asked) == 0 {
			answer = `[{"count":1},{"count":1},{"rows":[{"next_cfg":5}]}]`
		}
		asked <- true
		write(`{"id":` + string(id) + `,"error":null,"result":` + answer + `}`)
		return true
	}}
	d, _ := open(t, p.start(t), wait.Limit)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Secure(ctx, []Secured{{Bridge: "br0"}}) }()
	wait.For(t, "it waits for ovs-vswitchd", func() bool { return len(asked) > 2 })
	cancel()
	if err := wait.Receive(t, "the end of Secure", ended); err == nil {
		t.Error("it is said to be done")
	}
}

// The errors of single operations, and answers that lack results, are errors.
func TestRefusedOperations(t *testing.T) {
	t.Parallel()
	for result, words := range map[string]string{
		`[{"error":"unknown column","details":"No column x in table Bridge."},null]`: "unknown column: No column x",
		`[{}]`:             "a select without rows",
		`[]`:               "0 results of 1 operations",
		`[null]`:           "1 results of 1 operations",
		`[{"rows":[]},{}]`: "2 results of 1 operations",
		`{}`:               "cannot unmarshal",
		`null`:             "0 results of 1 operations",
	} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			p := &peer{rows: oneBridge, hears: func(_ string, id json.RawMessage, write func(string)) bool {
				write(`{"id":` + string(id) + `,"error":null,"result":` + result + `}`)
				return true
			}}
			d, _ := open(t, p.start(t), wait.Limit)
			if _, _, err := d.Look(t.Context(), everyBridge); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("error %v, want %q", err, words)
			}
		})
	}
}

func TestRefusedRequest(t *testing.T) {
	t.Parallel()
	for refused, words := range map[string]string{
		`{"error":"unknown database","details":"monitor request specifies unknown database Open_vSwitch","syntax":""}`: "unknown database: monitor request",
		`"unknown method"`: "unknown method",
		`7`:                "7",
	} {
		p := &peer{hears: func(_ string, id json.RawMessage, write func(string)) bool {
			write(`{"id":` + string(id) + `,"error":` + refused + `,"result":null}`)
			return true
		}}
		d, _ := open(t, p.start(t), wait.Limit)
		if err := d.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error %v, want %q", err, words)
		}
	}
}

// FuzzRows: whatever a peer sends as rows is read or refused.
func FuzzRows(f *testing.F) {
	f.Add([]byte(oneBridge), []byte(`{"Port":{"00000000-0000-0000-0000-000000000003":{"old":{}}}}`))
	f.Fuzz(checkRows)
}

func checkRows(t *testing.T, first, then []byte) {
	r := newRows()
	var all, changed updates
	if json.Unmarshal(first, &all) != nil || r.fill(all) != nil {
		return
	}
	view := func() {
		var ids []UUID
		for id := range r.bridges {
			ids = append(ids, id)
		}
		_, _ = r.view(ids)
	}
	view()
	if json.Unmarshal(then, &changed) == nil {
		if _, _, err := r.apply(changed); err == nil {
			view()
		}
	}
	if r.size < 0 {
		t.Errorf("the rows hold %d bytes", r.size)
	}
}
