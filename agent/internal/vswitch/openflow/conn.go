package openflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// patience bounds an exchange whose context has no deadline. While ovsdb-server is away, ovs-vswitchd accepts connections
// and never answers.
const patience = 3 * time.Second

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, patience)
}

// A Conn is the connection to one bridge. Its methods may be called at the same time; what they ask is sent in the order
// of the calls, and OVS works in that order.
//
// One goroutine reads, until the connection ends or Close. It calls back whoever waits, so callbacks must not block, nor
// call Close.
type Conn struct {
	bridge string
	sock   *net.UnixConn
	raw    syscall.RawConn
	wg     sync.WaitGroup
	ended  chan struct{} // closed when nothing is read any more

	changed atomic.Pointer[func()] // who asked to be told of changes; nil when nobody did

	mu      sync.Mutex // held for a write too, which never blocks
	err     error      // why the connection ended, nil while it lives
	xid     uint32     // of the next message
	pending []*exchange
	out     []byte          // what is being written; its memory is used again
	ports   map[uint32]Port // by number, as OVS tells them; nil when it was not asked to

	// tryOnce writes out with one system call, and notes what that returned.
	tryOnce func(fd uintptr) bool
	written int
	wrote   error
}

// Dial connects to the bridge that listens at path, <rundir>/<bridge>.mgmt. It agrees on the version and has OVS try
// the messages that will change flows.
//
// A bridge whose protocols exclude OpenFlow 1.4 gives a *VersionError; a missing bridge, one for which errors.Is
// fs.ErrNotExist holds.
func Dial(ctx context.Context, path string) (*Conn, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	sock, err := connect(ctx, path)
	if err != nil {
		return nil, err
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	c := &Conn{
		bridge: strings.TrimSuffix(filepath.Base(path), ".mgmt"),
		sock:   sock,
		raw:    raw,
		ended:  make(chan struct{}),
		xid:    1,
	}
	c.tryOnce = func(fd uintptr) bool {
		c.written, c.wrote = syscall.Write(int(fd), c.out)
		return true // whatever came of it: never wait for room in the socket
	}
	c.wg.Go(c.read)
	if err := c.greet(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect retries while the listen queue of the socket is full, which the kernel tells at once for unix sockets.
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	var full error
	for {
		sock, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return sock.(*net.UnixConn), nil
		case errors.Is(err, syscall.EAGAIN):
			full = err
		case full != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
			return nil, full
		default:
			return nil, err
		}
		select {
		case <-time.After(5 * time.Millisecond): // the kernel tells nobody that there is room again
		case <-ctx.Done():
			return nil, full
		}
	}
}

// greet says hello and has OVS try all shapes of messages, in one write. The barrier behind them collects the errors.
func (c *Conn) greet(ctx context.Context) error {
	err := c.do(ctx, typeBarrierRep, nil, func(b []byte, xid uint32) ([]byte, uint32, error) {
		b = appendHello(b, xid)
		b, xid = appendTrial(b, xid+1)
		xid++
		return appendEmpty(b, typeBarrierReq, xid), xid, nil
	})
	if refused, ok := errors.AsType[*Error](err); ok && refused.Type != errHelloFailed {
		return fmt.Errorf("OVS refuses the messages that would change flows: %w", err)
	}
	return err
}

// Close ends the connection, waits for its goroutines, and so for the callbacks of what was still to be answered.
func (c *Conn) Close() {
	c.end(errClosed)
	c.wg.Wait()
}

// Alive reports whether the connection has not ended yet.
func (c *Conn) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// Barrier waits until OVS has worked off everything that was sent before.
func (c *Conn) Barrier(ctx context.Context) error {
	return c.do(ctx, typeBarrierRep, nil, func(b []byte, xid uint32) ([]byte, uint32, error) {
		return appendEmpty(b, typeBarrierReq, xid), xid, nil
	})
}

// Flows returns all flows of the bridge, in OVS's order.
func (c *Conn) Flows(ctx context.Context) ([]cable.Entry, error) {
	return ask(ctx, c, multipartFlow, appendFlowsRequest, parseFlows)
}

// write writes c.out in one system call or not at all. The caller holds c.mu.
func (c *Conn) write() error {
	if err := c.raw.Write(c.tryOnce); err != nil {
		return err
	}
	switch {
	case c.wrote == nil && c.written == len(c.out):
		return nil
	case c.wrote == nil:
		// The rest cannot be taken back nor sent: OVS waits for it, and forgets the bundle when the connection ends.
		c.err = fmt.Errorf("OVS took only %d of %d bytes", c.written, len(c.out))
	case errors.Is(c.wrote, syscall.EAGAIN):
		return fmt.Errorf("OVS does not read what it is sent: %w", c.wrote)
	default:
		c.err = fmt.Errorf("write to OVS: %w", c.wrote)
	}
	c.sock.Close()
	return c.err
}

// read handles what OVS sends until the connection ends.
func (c *Conn) read() {
	buf := make([]byte, 512)
	have := 0
	for {
		n, err := c.sock.Read(buf[have:])
		have += n
		used, broken := c.handle(buf[:have])
		have = copy(buf, buf[used:have])
		if broken != nil {
			err = broken
		}
		if err != nil {
			c.end(err)
			c.abandon()
			return
		}
		if have == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// end closes the connection for a reason, of which the first one stays.
func (c *Conn) end(err error) {
	if errors.Is(err, io.EOF) {
		err = errHangUp
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.sock.Close()
	}
}

// abandon tells all who still wait that the connection has ended.
func (c *Conn) abandon() {
	c.mu.Lock()
	pending, err := c.pending, c.err
	c.pending = nil
	c.mu.Unlock()
	close(c.ended)
	for _, x := range pending {
		x.done(err)
	}
}

// handle works off the whole messages in b and returns their length in bytes. An error ends the connection.
func (c *Conn) handle(b []byte) (used int, err error) {
	for {
		m, n, err := next(b[used:])
		if err != nil || n == 0 {
			return used, err
		}
		used += n
		switch {
		case m.kind == typeHello:
			if !speaksOurs(m) {
				return used, &VersionError{Bridge: c.bridge}
			}
		case m.kind == typeError && len(m.body) >= 2 && be.Uint16(m.body) == errHelloFailed:
			return used, &VersionError{Bridge: c.bridge, Err: parseError(m.body)}
		case m.version != version:
			return used, fmt.Errorf("%w %#x", errOtherVersion, m.version)
		case m.kind == typeEchoRequest:
			c.echo(m)
		case m.kind == typePortStatus:
			c.mu.Lock()
			err := c.note(m.body)
			c.mu.Unlock()
			if err != nil {
				return used, err
			}
			c.tell()
		case m.kind == typeFlowRemoved:
			c.tell()
		case isUpdate(m):
			if foreign(m.body[multipartLen:]) {
				c.tell()
			}
		default:
			if err := c.answer(m); err != nil {
				return used, err
			}
		}
	}
}

// echo answers OVS's question whether anybody is there. If the answer cannot be written, OVS asks no more and hangs up.
func (c *Conn) echo(request message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.out = appendEchoReply(c.out[:0], request)
		_ = c.write()
	}
}
