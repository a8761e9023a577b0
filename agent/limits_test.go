package agent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// The bounds of docs/agent/security.md, in MiB.
const (
	maxLive    = 200
	maxProcess = 300
)

// The table of what the limits cost at worst adds up to what it says.
func TestTheTableOfLimits(t *testing.T) {
	text, err := os.ReadFile("../docs/agent/security.md")
	if err != nil {
		t.Fatal(err)
	}
	sum, rows := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^\| .* \| ([0-9]+) MiB \|$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
		rows++
	}
	if rows < 8 || sum > maxLive || !strings.Contains(string(text), fmt.Sprintf("%d MiB together", sum)) {
		t.Errorf("%d rows add up to %d MiB; want all rows, at most %d MiB, and the sum below them", rows, sum, maxLive)
	}
}

// All limits are filled at once, and the process stays within its bounds.
func TestEveryLimitAtOnce(t *testing.T) {
	const connections = 4096
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if need := uint64(connections + 600); files.Cur < need {
		lack.Of(t, fmt.Sprintf("%d open files are allowed, and %d needed: ulimit -n", files.Cur, need))
	}
	t.Setenv("GOMEMLIMIT", "256MiB") // as in the units
	a := agentproc.StartReady(t, agentproc.Config{VMSet: "vms1", Args: []string{"--driver", "simulated", "--simulate-ports", "120", "--log-level", "error"}})

	// The history of every port, and what is remembered of calls.
	for i := range 130 {
		if code, text := a.Post(fmt.Sprintf("/mux/vms1?reqId=%s%03d", strings.Repeat("%01", 125), i), `{"active_side":"toggle"}`); code != 200 {
			t.Fatal(code, text)
		}
	}
	var seen api.History
	if _, text := a.Get("/mux/vms1/history"); json.Unmarshal([]byte(text), &seen) != nil || len(seen.Events) == 0 {
		t.Fatal(text)
	}
	behind := seen.Events[0].Seq - 2900 // of the 4,096 events that are kept, of which this lists the last 1,000
	held := 0
	hold := func(text string) {
		t.Helper()
		conn, err := net.Dial("tcp", a.Address())
		if err != nil {
			t.Fatalf("connection %d: %v", held, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(2048)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatalf("connection %d: %v", held, err)
		}
		held++
	}
	const get, post = "GET /mux/vms1%s HTTP/1.1\r\nHost: x\r\n", "POST /mux/vms1/0?reqId=%d HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	// Those that are cut off soonest come last.
	for range connections - 1024 - 20 - 52 - 1000 - 400 - 20 { // waits, with what a browser sends
		hold(fmt.Sprintf(get, "/0?active_side=lower_tor&wait=60s") + "Accept-Language: en\r\nUser-Agent: Mozilla/5.0\r\n\r\n")
	}
	for i := range 52 { // large bodies
		hold(fmt.Sprintf(post, held, 60_000, strings.Repeat(" ", 59_000+i)))
	}
	for range 1000 { // small ones
		hold(fmt.Sprintf(post, held, 1000, strings.Repeat(" ", 900)))
	}
	for range 20 { // large answers that nobody takes
		hold(strings.Repeat(fmt.Sprintf(get, "/history")+"\r\n", 10))
	}
	for range 400 { // headers that don't end
		hold(fmt.Sprintf(get, "") + lines(120))
	}
	for range 1024 { // event streams that are behind and are not read
		hold(fmt.Sprintf(get, "/events") + fmt.Sprintf("Last-Event-ID: %d\r\n\r\n", behind))
	}

	// What is live shows right after a collection, which the answers to our own questions bring about.
	live, most := math.MaxInt, 0
	open := 0
	for range 20 {
		_, _ = a.Get("/mux/vms1/0")
		_, text := a.Get("/metrics")
		now := (metric(t, text, "go_memstats_heap_alloc_bytes") + metric(t, text, "go_memstats_stack_inuse_bytes")) >> 20
		open = max(open, metric(t, text, "mux_agent_connections"))
		live, most = min(live, now), max(most, metric(t, text, "process_resident_memory_bytes")>>20)
	}
	t.Logf("%d connections: %d MiB live, the process %d MiB", open, live, most)
	if open < connections*9/10 {
		t.Errorf("%d connections were there of %d: the limits were not filled", open, held)
	}
	if live > maxLive || most > maxProcess {
		t.Errorf("%d MiB are live, want at most %d; the process has %d, want at most %d", live, maxLive, most, maxProcess)
	}
	wait.For(t, "a port is switched all the same", func() bool {
		code, _ := a.Post("/mux/vms1/0", `{"active_side":"toggle"}`)
		time.Sleep(10 * time.Millisecond)
		return code == 200
	})
}

// lines are headers of different names.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "h%d: %s\r\n", i, strings.Repeat("v", 90))
	}
	return b.String()
}

func metric(t *testing.T, text, name string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in:\n%.2000s", name, text)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(v)
}
