package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A pipeListener accepts connections within this process, which fake time knows about.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.ended); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// servePipe serves an agent's handler over pipes in fake time, and returns how to connect and how to stop.
func servePipe(t *testing.T, handlerOf func(*httpapi.Server) http.Handler) (connect func() net.Conn, stop func()) {
	t.Helper()
	names, err := cable.NewNames("vms17-8")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e := engine.New(engine.Config{Names: names, Switch: simswitch.New(names, 1), Log: log})
	handler := handlerOf(httpapi.New(httpapi.Config{Engines: []*engine.Engine{e}, Log: log}))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	synctest.Wait()
	listener := pipeListener{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	connect = func() net.Conn {
		client, conn := net.Pipe()
		listener.conns <- conn
		return client
	}
	return connect, func() {
		t.Helper()
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

// A stream without events says every 15 seconds that it lives, so that nobody between takes it for dead, and it ends when
// its reader takes nothing for 5 seconds.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connect, stop := servePipe(t, func(s *httpapi.Server) http.Handler { return s })
		defer stop()
		client := connect()
		if _, err := io.WriteString(client, "GET /mux/vms17-8/events HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		lines := bufio.NewReader(client)
		for beats := 0; beats < 3; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(line, ": ") {
				continue
			}
			beats++
			if got, want := time.Since(start), time.Duration(beats)*15*time.Second; got != want {
				t.Errorf("heartbeat %d after %v, want %v", beats, got, want)
			}
		}
		last := time.Now()
		time.Sleep(time.Minute) // without reading
		if _, err := io.Copy(io.Discard, lines); err != nil {
			t.Error(err)
		}
		if got := time.Since(last); got != time.Minute {
			t.Errorf("the stream was still there, until %v", got)
		}
	})
}

// A stream ends at the heartbeat after its token was withdrawn.
func TestAStreamEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var withdrawn atomic.Bool
		connect, stop := servePipe(t, func(s *httpapi.Server) http.Handler {
			return s.Identify(func(*http.Request) (httpapi.Caller, error) {
				if withdrawn.Load() {
					return httpapi.Caller{}, errors.New("no valid token")
				}
				return httpapi.Caller{Roles: api.DefaultRoles}, nil
			})
		})
		defer stop()
		client := connect()
		if _, err := io.WriteString(client, "GET /mux/vms17-8/events HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(20*time.Second, func() { withdrawn.Store(true) })
		time.AfterFunc(time.Minute, func() { client.Close() })
		text, err := io.ReadAll(client)
		if got := strings.Count(string(text), ": alive"); err != nil || got != 1 || time.Since(start) != 30*time.Second {
			t.Errorf("%d heartbeats in %v, %v; want the end at the second one", got, time.Since(start), err)
		}
	})
}
