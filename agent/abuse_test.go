package agent_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// held is what this process holds of what abandoned requests could leave behind.
type held struct{ goroutines, descriptors int }

func holds(t *testing.T) held {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return held{runtime.NumGoroutine(), len(open)}
}

// Whole nights were lost with the replaced service to clients that gave up, and whose requests went on and piled up.
func TestAbuseLeavesNothingBehind(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(24))
	address := strings.TrimPrefix(a.URL, "http://")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Limit}
	toggled := func() {
		t.Helper()
		res, err := client.Post(a.URL+"/mux/vms17-8", "application/json", strings.NewReader(`{"active_side":"toggle"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("toggle: %s %s %v", res.Status, body, err)
		}
	}
	toggled()
	before := holds(t)

	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return nil
		}
		return conn
	}
	const toggleAll = "POST /mux/vms17-8 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n" + `{"active_side":"toggle"}`
	var unfinished, slow []net.Conn
	for i := range 200 {
		conn := dial()
		_, err := io.WriteString(conn, toggleAll[:1+i%(len(toggleAll)-30)]) // ends in the headers
		if err != nil {
			t.Fatal(err)
		}
		unfinished = append(unfinished, conn)

		// A reader that asks for much and takes nothing.
		conn = dial()
		_ = conn.(*net.TCPConn).SetReadBuffer(2048)
		_, err = io.WriteString(conn, strings.Repeat("GET /mux/vms17-8 HTTP/1.1\r\nHost: x\r\n\r\n", 100))
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}

	var load sync.WaitGroup
	jobs := make(chan int)
	for range 100 {
		load.Go(func() {
			for i := range jobs {
				conn := dial()
				if conn == nil {
					continue
				}
				if i%10 == 0 { // garbage
					junk := make([]byte, 1+rand.N(2000))
					for j := range junk {
						junk[j] = byte(rand.N(256))
					}
					_, _ = conn.Write(junk)
				} else {
					_, _ = io.WriteString(conn, toggleAll)
				}
				time.Sleep(3 * time.Millisecond)
				_ = conn.Close()
			}
		})
	}
	for i := range 3000 {
		jobs <- i
		if i%100 == 0 { // meanwhile others are answered
			if got, err := status(client, a.URL+"/mux/vms17-8/7"); err != nil || got != 200 {
				t.Errorf("GET in the middle: %d, %v", got, err)
			}
		}
	}
	close(jobs)
	load.Wait()
	toggled()

	for i, conn := range unfinished {
		_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
		if text, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("the half request %d was not ended: %q, %v", i, text, err)
		}
		_ = conn.Close()
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	wait.For(t, fmt.Sprintf("back to %+v, and a few of the runtime's", before), func() bool {
		now := holds(t)
		return now.goroutines <= before.goroutines+5 && now.descriptors <= before.descriptors+5
	})
	toggled()
}

// What is too long, or has too many lines, is answered, and the next request on another connection as well.
func TestTooMuchHeader(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	for name, c := range map[string]struct {
		head string
		want string
	}{
		"a header within the limit":  {"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: " + strings.Repeat("x", 15_000), "HTTP/1.1 200 OK"},
		"a header beyond the limit":  {"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 17_000), "HTTP/1.1 431 "},
		"a path within the limit":    {"GET /" + strings.Repeat("x", 15_000) + " HTTP/1.1\r\nHost: x\r\nConnection: close", "HTTP/1.1 404 "},
		"a path beyond the limit":    {"GET /" + strings.Repeat("x", 17_000) + " HTTP/1.1\r\nHost: x", "HTTP/1.1 431 "},
		"as many headers as may be":  {"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close" + strings.Repeat("\r\nX: y", 120), "HTTP/1.1 200 OK"},
		"more headers than allowed":  {"GET /healthz HTTP/1.1\r\nHost: x" + strings.Repeat("\r\nX: y", 200), "HTTP/1.1 431 "},
		"headers of two bytes":       {"GET /healthz HTTP/1.1\r\nHost: x" + strings.Repeat("\r\na:", 3000), "HTTP/1.1 431 "},
		"no header at all, HTTP/1.0": {"GET /healthz HTTP/1.0", "HTTP/1.0 200 OK"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(wait.Limit))
		_, _ = io.WriteString(conn, c.head+"\r\n\r\n") // beyond the limit nobody reads to the end
		answer := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, answer); err != nil || !bytes.Equal(answer, []byte(c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, answer, err, c.want)
		}
		_ = conn.Close()
	}
}

// The lines of a body are no headers, on a connection that is used again and again.
func TestLinesOfABodyAreNoHeaders(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	body := strings.Repeat("\n", 1000) + `{"active_side":"toggle"}`
	request := fmt.Sprintf("POST /mux/vms17-8/0 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	answers := bufio.NewReader(conn)
	for range 300 {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
}

// live is what this process holds after a collection, in bytes.
func live() int64 {
	runtime.GC()
	runtime.GC() // the first one finishes a sweep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A reqId is a small string in a long line, and is kept for ten minutes, in the history for good.
func TestReqIDsKeepNoRequests(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(4))
	client := &http.Client{Timeout: wait.Limit}
	defer client.CloseIdleConnections()
	padding := "&x=" + strings.Repeat("x", 12<<10)
	toggle := func(i int) {
		t.Helper()
		res, err := client.Post(fmt.Sprintf("%s/mux/vms17-8/%d?reqId=%d%s", a.URL, i%4, i, padding), "application/json", strings.NewReader(`{"active_side":"toggle"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err)
		}
	}
	const calls = 2000
	toggle(0)
	before := live()
	for i := range calls {
		toggle(i + 1)
	}
	if grown := (live() - before) >> 10; grown > 6<<10 {
		t.Errorf("%d calls with padding of 12 KiB are remembered with %d KiB", calls, grown)
	}
}

// Readers that come back and then take nothing cost a buffer each, not all that they have missed.
func TestReadersThatAreBehindShareTheEvents(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(128))
	client := &http.Client{Timeout: wait.Limit}
	defer client.CloseIdleConnections()
	reqID := strings.Repeat("%01", 126) // six bytes of JSON each
	for i := range 34 {
		res, err := client.Post(fmt.Sprintf("%s/mux/vms17-8?reqId=%s%02d", a.URL, reqID, i), "application/json", strings.NewReader(`{"active_side":"toggle"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	var first uint64
	for _, ev := range history(t, a.URL+"/mux/vms17-8/0/history") {
		first = ev.Seq // the last that port 0 had
	}
	first -= 3800
	before := live()
	const readers = 150
	var conns []net.Conn
	for range readers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(2048)
		_, err = fmt.Fprintf(conn, "GET /mux/vms17-8/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: %d\r\n\r\n", first)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
		if _, err := io.ReadFull(conn, make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns { // each has begun to send events, or has sent what fits
		if _, err := io.ReadFull(conn, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	if grown := (live() - before) >> 20; grown > 24 {
		t.Errorf("%d readers cost %d MiB", readers, grown)
	}
}

func history(t *testing.T, url string) []api.Event {
	t.Helper()
	var h api.History
	if err := json.Unmarshal([]byte(get(t, url)), &h); err != nil {
		t.Fatal(err)
	}
	return h.Events
}

// Large bodies that come slowly have so much room together; more wait, and then hear that there is none. Those of the calls of
// testbeds are small and find room all the same.
func TestManyLargeBodies(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	client := &http.Client{Timeout: wait.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	const size = 60_000
	for range 60 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /mux/vms17-8/0?reqId=%p HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", conn, size, strings.Repeat(" ", size-100))
		if err != nil {
			t.Fatal(err)
		}
	}
	post := func(body string) int {
		t.Helper()
		res, err := client.Post(a.URL+"/mux/vms17-8/0", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	wait.For(t, "a large body finds no room", func() bool {
		return post(`{"active_side":"toggle"}`+strings.Repeat(" ", size)) == http.StatusServiceUnavailable
	})
	if got := post(`{"active_side":"toggle"}`); got != http.StatusOK {
		t.Errorf("a small one: %d", got)
	}
}

// The agent takes 4,096 connections. One more is refused at once, and one less makes room.
func TestAllConnectionsTaken(t *testing.T) {
	const limit = 4096
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if need := uint64(2*limit + 500); files.Cur < need { // both ends are here
		lack.Of(t, fmt.Sprintf("%d open files are allowed, and %d needed: ulimit -n", files.Cur, need))
	}
	a := agenttest.Start(t, agenttest.Ports(1))
	address := strings.TrimPrefix(a.URL, "http://")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Limit}
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	refused := func() bool {
		got, err := status(client, a.URL+"/healthz")
		if err == nil && got != http.StatusOK {
			t.Errorf("GET: %d", got)
		}
		return err != nil
	}
	for range limit - 10 { // others may have some: the tests' own clients
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", len(conns)+1, err)
		}
		conns = append(conns, conn)
	}
	if refused() {
		t.Error("refused below the limit")
	}
	for range 20 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conns = append(conns, conn)
		}
	}
	wait.For(t, "refused above the limit", refused)
	for _, conn := range conns[:20] {
		_ = conn.Close()
	}
	wait.For(t, "let in again", func() bool { return !refused() })
}
