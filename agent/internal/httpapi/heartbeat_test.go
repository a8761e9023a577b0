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
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
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

// A stream without events says every 15 seconds that it lives, so that nobody between takes it for dead, and it ends when
// its reader takes nothing for 5 seconds.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, err := cable.NewNames("vms17-8")
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		e := engine.New(engine.Config{Names: names, Switch: simswitch.New(names, 1), Log: log})
		handler := httpapi.New(httpapi.Config{Engines: []*engine.Engine{e}, Log: log})
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		go func() { stopped <- e.Run(ctx) }()
		synctest.Wait()
		listener := pipeListener{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: handler}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()

		client, conn := net.Pipe()
		listener.conns <- conn
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

		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
