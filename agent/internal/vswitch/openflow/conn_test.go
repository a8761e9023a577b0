package openflow

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func TestDialToABridgeOfOtherVersions(t *testing.T) {
	helloOnly := func(highest uint8, bitmap uint32) []byte {
		b := appendHello(nil, 9)
		b[0] = highest
		be.PutUint32(b[12:], bitmap)
		return b
	}
	incompatible := errorReply(0, &Error{Type: errHelloFailed, Text: "no common versions"})
	for name, hello := range map[string][]byte{
		"1.0":                      {1, typeHello, 0, 8, 0, 0, 0, 9},
		"1.3":                      helloOnly(4, 1<<4),
		"1.5":                      helloOnly(6, 1<<6),
		"1.0 and 1.5":              helloOnly(6, 1<<6|1<<1),
		"refused in so many words": append(helloOnly(6, 1<<5), incompatible...),
	} {
		t.Run(name, func(t *testing.T) {
			p := (&peer{hello: hello}).start(t)
			_, err := Dial(wait.Context(t), p.path)
			var excluded *VersionError
			if !errors.As(err, &excluded) || !strings.Contains(err.Error(), "ovs-vsctl clear bridge br0 protocols") {
				t.Errorf("error %v, want one with the command that mends it", err)
			}
		})
	}
	for name, hello := range map[string][]byte{
		"1.4 alone":   helloOnly(5, 1<<5),
		"1.0 to 1.5":  helloOnly(6, 0x7e),
		"no bitmap":   {5, typeHello, 0, 8, 0, 0, 0, 9},
		"bad element": {6, typeHello, 0, 12, 0, 0, 0, 9, 0, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if err := (&peer{hello: hello}).start(t).dial().Barrier(wait.Context(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDialWithoutABridge(t *testing.T) {
	_, err := Dial(t.Context(), filepath.Join(t.TempDir(), "br0.mgmt"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

// With ovsdb-server down, ovs-vswitchd accepts connections and never says hello.
func TestSilentPeer(t *testing.T) {
	var silent atomic.Bool
	silent.Store(true)
	p := (&peer{hears: func(net.Conn, message) bool { return silent.Load() }}).start(t)
	if _, err := Dial(within(t, 20*time.Millisecond), p.path); !errors.Is(err, errNoAnswer) {
		t.Errorf("dial: error %v, want %v", err, errNoAnswer)
	}
	silent.Store(false)
	c := p.dial()
	silent.Store(true)
	if _, err := c.Flows(within(t, 20*time.Millisecond)); !errors.Is(err, errNoAnswer) {
		t.Errorf("flows: error %v, want %v", err, errNoAnswer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Barrier(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("barrier: error %v, want %v", err, context.Canceled)
	}
}

// A full listen queue is EAGAIN for a unix socket, at once.
func TestDialWaitsForAPlaceInTheQueue(t *testing.T) {
	p := (&peer{}).start(t)
	p.stop()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: p.path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	first, err := net.Dial("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()

	if _, err := connect(within(t, 20*time.Millisecond), p.path); !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("error %v, want EAGAIN when the time is over", err)
	}
	connected := make(chan error, 1)
	go func() {
		sock, err := connect(wait.Context(t), p.path)
		if err == nil {
			sock.Close()
		}
		connected <- err
	}()
	select {
	case err := <-connected:
		t.Fatalf("connected to a full queue, or gave up: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	accepted, _, err := syscall.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(accepted)
	if err := wait.Receive(t, "a connection", connected); err != nil {
		t.Error(err)
	}
}

func TestEchoIsAnswered(t *testing.T) {
	echoes := make(chan string, 1)
	p := (&peer{hears: func(c net.Conn, m message) bool {
		switch m.kind {
		case typeBarrierReq:
			b := appendHeader(nil, typeEchoRequest, 99)
			c.Write(patchLength(append(b, "there?"...), 0))
		case typeEchoReply:
			if m.xid == 99 {
				echoes <- string(m.body)
			}
		}
		return false
	}}).start(t)
	p.dial()
	if got := wait.Receive(t, "an echo", echoes); got != "there?" {
		t.Errorf("echo is %q", got)
	}
}

func TestSplitAnswer(t *testing.T) {
	want := []cable.Flow{cable.NewFlow(1, 2, 3), cable.NewFlow(2, 1), cable.NewFlow(3)}
	p := (&peer{hears: func(c net.Conn, m message) bool {
		if m.kind != typeMultipartReq {
			return false
		}
		var stream []byte
		for i, f := range want {
			b := appendFlowStats(multipartReply(m.xid, multipartFlow, i < len(want)-1), f)
			stream = append(stream, patchLength(b, 0)...)
		}
		for len(stream) > 0 { // and in small pieces, as a stream may
			n := min(len(stream), 7)
			c.Write(stream[:n])
			stream = stream[n:]
		}
		return true
	}}).start(t)
	got, err := p.dial().Flows(wait.Context(t))
	if diff := cmp.Diff(want, plain(got)); diff != "" || err != nil {
		t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
	}
}

// An answer longer than the read buffer, and then one that does not fit together.
func TestLongAndBrokenAnswers(t *testing.T) {
	flows := make([]cable.Flow, 700)
	for i := range flows {
		flows[i] = cable.NewFlow(uint32(i+1), 2)
	}
	p := (&peer{flows: flows}).start(t)
	c := p.dial()
	got, err := c.Flows(wait.Context(t))
	if diff := cmp.Diff(flows, plain(got)); diff != "" || err != nil {
		t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
	}
	if _, err := c.Ports(wait.Context(t), false); err == nil { // the peer sends flow statistics for anything
		t.Error("flow statistics passed for port descriptions")
	}
	if err := c.Barrier(wait.Context(t)); err != nil {
		t.Errorf("the connection is gone: %v", err)
	}
}

// An answer that has no end takes no more memory than it may.
func TestEndlessAnswer(t *testing.T) {
	p := (&peer{hears: func(c net.Conn, m message) bool {
		if m.kind != typeMultipartReq {
			return false
		}
		part := multipartReply(m.xid, multipartFlow, true)
		for range 500 {
			part = appendFlowStats(part, cable.NewFlow(1, 2))
		}
		part = patchLength(part, 0)
		for {
			if _, err := c.Write(part); err != nil {
				return true
			}
		}
	}}).start(t)
	c := p.dial()
	if flows, err := c.Flows(wait.Context(t)); !errors.Is(err, errEndless) {
		t.Errorf("%d flows, error %v; want %v", len(flows), err, errEndless)
	}
	if c.Alive() {
		t.Error("the connection lives on")
	}
}

func TestGarbageEndsTheConnection(t *testing.T) {
	for name, garbage := range map[string][]byte{
		"short length":  {5, typeBarrierRep, 0, 4, 0, 0, 0, 0},
		"other version": {4, typeBarrierRep, 0, 8, 0, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := (&peer{}).start(t)
			c := p.dial()
			p.mu.Lock()
			p.conns[0].Write(garbage)
			p.mu.Unlock()
			for c.Barrier(wait.Context(t)) == nil { // answered before the garbage was seen
			}
			if c.Alive() {
				t.Error("the connection lives on")
			}
		})
	}
}

// TestUnreadSocket checks that nothing waits for a peer that does not read, and that nothing is half sent.
func TestUnreadSocket(t *testing.T) {
	stuck, gate := make(chan bool, 1), make(chan struct{})
	p := (&peer{hears: func(_ net.Conn, m message) bool {
		if m.kind == typeMultipartReq {
			stuck <- true
			<-gate
		}
		return false
	}}).start(t)
	c := p.dial()
	asked := make(chan error, 1)
	go func() {
		_, err := c.Flows(wait.Context(t))
		asked <- err
	}()
	wait.Receive(t, "a peer that is stuck", stuck)

	u := cable.Update{Want: program(cable.NewFlow(1, 2), cable.NewFlow(2, 1))}
	answers := make(chan error, 100_000)
	sent := 0
	var err error
	for err == nil && sent < cap(answers) {
		if err = c.Start(u, time.Now().Add(wait.Limit), func(err error) { answers <- err }); err == nil {
			sent++
		}
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("after %d updates: error %v, want EAGAIN", sent, err)
	}
	close(gate)
	for range sent {
		if err := wait.Receive(t, "an answer", answers); err != nil {
			t.Fatal(err)
		}
	}
	if err := wait.Receive(t, "flows", asked); err != nil {
		t.Error(err)
	}
}

func TestCloseAnswersWhoeverWaits(t *testing.T) {
	p := (&peer{hears: func(_ net.Conn, m message) bool {
		return m.kind == typeMultipartReq || m.kind == typeBundleControl && m.body[5] == bundleCommit
	}}).start(t)
	c := p.dial()
	answers := make(chan error, 1)
	if err := c.Start(cable.Update{Want: program(cable.NewFlow(1), cable.NewFlow(2))}, time.Now().Add(wait.Limit), func(err error) { answers <- err }); err != nil {
		t.Fatal(err)
	}
	c.Close()
	select {
	case err := <-answers:
		var failed *cable.SwitchError
		if !errors.As(err, &failed) || !failed.Unknown {
			t.Errorf("error %v, want one that is Unknown", err)
		}
	default:
		t.Error("Close came back before the update was answered")
	}
	if err := c.Barrier(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("barrier: error %v, want %v", err, errClosed)
	}
}
