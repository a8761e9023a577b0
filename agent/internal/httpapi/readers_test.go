package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// rawStream subscribes by hand, with a small buffer for what is not read.
func rawStream(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /mux/vms17-8/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A reader that takes nothing is cut off, instead of having its events kept for it for ever, and the others lose nothing.
func TestSlowReadersAreCutOff(t *testing.T) {
	const ports = 500
	a := agenttest.Start(t, agenttest.Ports(ports))
	before := connections(t, a.URL)
	slow := rawStream(t, a.URL)
	seen := make([]byte, 15)
	if _, err := io.ReadFull(slow, seen); err != nil || string(seen) != "HTTP/1.1 200 OK" {
		t.Fatalf("%q, %v", seen, err)
	}
	if open := connections(t, a.URL); open <= before {
		t.Fatalf("%d connections, want that of the reader beside %d", open, before)
	}
	// Buffers on the way hold some MiB; what is to come is far more.
	const toggles = 100
	for range toggles {
		if got := call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"toggle"}`); got.status != 200 {
			t.Fatalf("toggle: %+v", got)
		}
		time.Sleep(25 * time.Millisecond) // streams write at most every 20 ms
	}
	wait.For(t, "the slow reader's connection is closed", func() bool { return connections(t, a.URL) <= before })
	events := stream(t, a.URL, "")
	next(t, events)
	call(t, "POST", a.URL+"/mux/vms17-8/7", `{"active_side":"toggle"}`)
	if ev := next(t, events); !strings.Contains(ev.data, `"port_index":7`) {
		t.Errorf("another reader: %+v", ev)
	}
}

// connections asks the agent how many are open, that of the question among them: the least of several answers, since
// those of earlier calls may still be closing.
func connections(t *testing.T, url string) int {
	t.Helper()
	least := math.MaxInt
	for range 5 {
		for line := range strings.Lines(call(t, "GET", url+"/metrics", "").body) {
			var open int
			if _, err := fmt.Sscanf(line, "mux_agent_connections %d", &open); err == nil {
				least = min(least, open)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return least
}

// A thousand readers each get every event of a toggle of all ports, once and in order.
func TestAThousandSubscribers(t *testing.T) {
	const readers, ports, toggles = 1000, 12, 5
	a := agenttest.Start(t, agenttest.Ports(ports))
	var ready, done sync.WaitGroup
	failed := make(chan string, readers)
	ready.Add(readers)
	for range readers {
		conn := rawStream(t, a.URL)
		_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
		done.Go(func() {
			said := sync.OnceFunc(ready.Done)
			defer said()
			var last uint64
			for got, lines := 0, bufio.NewReader(conn); got < ports*toggles; {
				line, err := lines.ReadSlice('\n')
				if err != nil {
					failed <- fmt.Sprintf("after %d events: %v", got, err)
					return
				}
				var id uint64
				switch {
				case bytes.HasPrefix(line, []byte("id: ")):
					_, _ = fmt.Sscanf(string(line), "id: %d", &id)
					if last != 0 && id != last+1 {
						failed <- fmt.Sprintf("event %d after %d", id, last)
						return
					}
					last = id
					said()
				case bytes.HasPrefix(line, []byte("data: ")):
					got++
				}
			}
		})
	}
	ready.Wait()
	for range toggles {
		if got := call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"toggle"}`); got.status != 200 {
			t.Errorf("toggle: %+v", got)
		}
	}
	done.Wait()
	close(failed)
	for why := range failed {
		t.Error(why)
		break // one tells enough
	}
}
