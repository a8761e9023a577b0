package agent

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// Connections over the limit are refused at once, and those that close make room.
func TestConnectionLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan string, 10)
	g := newGate(nil, limits{all: 3, client: 3}, slog.New(slog.DiscardHandler))
	g.refused = func(reason string) { refused <- reason }
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }), g.log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(g.guard(inner, false)) }()
	defer func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	// ask sends a request and returns the status line, "" where the connection was reset.
	ask := func(conn net.Conn) string {
		t.Helper()
		if conn == nil {
			return ""
		}
		_ = conn.SetDeadline(time.Now().Add(wait.Limit))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil && strings.Contains(err.Error(), "timeout") {
			t.Error(err)
		}
		return strings.TrimSpace(line)
	}
	// dial returns nil for a connection that was reset before it could be used.
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var conns []net.Conn
	for range 3 {
		conn := dial()
		conns = append(conns, conn)
		if got := ask(conn); got != "HTTP/1.1 200 OK" {
			t.Fatalf("within the limit: %q", got)
		}
	}
	if got, reason := ask(dial()), <-refused; got != "" || reason != "limit" {
		t.Errorf("over the limit: %q, counted as %q", got, reason)
	}
	if got := ask(conns[0]); got != "HTTP/1.1 200 OK" {
		t.Errorf("one that was in: %q", got)
	}
	_ = conns[1].Close()
	wait.For(t, "one is let in, since another was closed", func() bool { return ask(dial()) == "HTTP/1.1 200 OK" })
}

// The deadline for reading a request must not end what waits after it was read.
func TestStreamsAndWaitsOutliveTheReadTimeout(t *testing.T) {
	names, err := cable.NewNames("vms1")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e := engine.New(engine.Config{Names: names, Switch: simswitch.New(names, 1), Log: log})
	handler := httpapi.New(httpapi.Config{Engines: []*engine.Engine{e}, Log: log})
	stop := make(chan error, 1)
	go func() { stop <- e.Run(t.Context()) }()
	wait.Receive(t, "the engine is ready", e.Ready())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(handler, log)
	server.ReadTimeout = 50 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	url := "http://" + listener.Addr().String() + "/mux/vms1"

	stream, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	wait, err := http.Get(url + "/0?active_side=lower_tor&wait=300ms")
	if err != nil {
		t.Fatalf("a wait longer than the timeout: %v", err)
	}
	_ = wait.Body.Close()
	if wait.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("a wait longer than the timeout: %s", wait.Status)
	}
	toggle, err := http.Post(url+"/0", "application/json", strings.NewReader(`{"active_side":"toggle"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = toggle.Body.Close()
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event: change") {
			return
		}
	}
	t.Error("the stream ended before the event")
}
