package openflow

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A peer plays ovs-vswitchd for one bridge, in the ways in which the real one cannot be brought to misbehave. It holds
// flows, and treats bundles as OVS 3.1 does: a message that is refused when it is added is left out, the rest is committed.
type peer struct {
	t    *testing.T
	path string
	l    *net.UnixListener
	wg   sync.WaitGroup

	mu    sync.Mutex
	flows []cable.Flow
	conns []net.Conn

	// hello is sent first; nil is OVS's own, of all versions.
	hello []byte
	// hears may take a message before the peer treats it, and then returns true.
	hears func(c net.Conn, m message) bool
	// refuses returns an error for a flow mod that is added to a bundle, nil for none. The bundles of a connection count
	// from 0, which is the trial.
	refuses func(bundle int, command uint8, f cable.Flow) *Error
	// fails is the error of a commit, which is then rolled back.
	fails *Error
}

// start lets the peer listen.
func (p *peer) start(t *testing.T) *peer {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "of") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p.t, p.path = t, filepath.Join(dir, "br0.mgmt")
	p.listen()
	t.Cleanup(p.stop)
	return p
}

func (p *peer) dir() string { return filepath.Dir(p.path) }

func (p *peer) listen() {
	p.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.path})
	if err != nil {
		p.t.Fatal(err)
	}
	p.l = l
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.wg.Go(func() { p.serve(c) })
		}
	})
}

// stop ends the listener and all connections, as a stopped ovs-vswitchd does.
func (p *peer) stop() {
	p.l.Close()
	p.hangUp()
	p.wg.Wait()
}

func (p *peer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *peer) has() []cable.Flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.flows)
}

func (p *peer) serve(c net.Conn) {
	defer c.Close()
	hello := p.hello
	if hello == nil {
		hello = []byte{6, typeHello, 0, 8, 0, 0, 0, 9} // OVS without a protocols column
	}
	c.Write(hello)
	var stream []byte
	var bundle peerBundle
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		stream = append(stream, buf[:n]...)
		for {
			m, n, err := next(stream)
			if err != nil {
				p.t.Errorf("the connection wrote what is not OpenFlow: %v", err)
				return
			}
			if n == 0 {
				break
			}
			stream = stream[n:]
			if p.hears == nil || !p.hears(c, m) {
				c.Write(p.answer(&bundle, m))
			}
		}
	}
}

// A peerBundle is the flow mods of the bundle that is open.
type peerBundle struct {
	number int
	mods   []func([]cable.Flow) []cable.Flow
}

func (p *peer) answer(bundle *peerBundle, m message) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.kind {
	case typeBarrierReq:
		return appendEmpty(nil, typeBarrierRep, m.xid)
	case typeMultipartReq:
		b := multipartReply(m.xid, be.Uint16(m.body), false)
		for _, f := range p.flows {
			b = appendFlowStats(b, f)
		}
		return patchLength(b, 0)
	case typeBundleAdd:
		command, f := parseBundled(p.t, m)
		if p.refuses != nil {
			if e := p.refuses(bundle.number, command, f); e != nil {
				return errorReply(m.xid, e)
			}
		}
		bundle.mods = append(bundle.mods, func(flows []cable.Flow) []cable.Flow { return modify(flows, command, f) })
	case typeBundleControl:
		kind := be.Uint16(m.body[4:])
		if kind == bundleCommit && p.fails != nil {
			reply := errorReply(m.xid-1, p.fails) // the message that could not be done, then the commit
			return append(reply, errorReply(m.xid, &Error{Type: 17, Code: 13})...)
		}
		if kind == bundleCommit {
			for _, mod := range bundle.mods {
				p.flows = mod(p.flows)
			}
		}
		if kind != bundleOpen {
			bundle.number, bundle.mods = bundle.number+1, nil
		}
		return appendBundleControl(nil, m.xid, be.Uint32(m.body), kind+1)
	}
	return nil
}

func modify(flows []cable.Flow, command uint8, f cable.Flow) []cable.Flow {
	rest := slices.DeleteFunc(flows, func(g cable.Flow) bool {
		return command == flowDelete || g.InPort == f.InPort && g.Priority == f.Priority && g.Table == f.Table
	})
	if command == flowAdd {
		rest = append(rest, f)
	}
	return rest
}

// parseBundled reads a flow mod of the shapes that the package writes.
func parseBundled(t *testing.T, m message) (command uint8, f cable.Flow) {
	inner, n, err := next(m.body[8:])
	if err != nil || n != len(m.body)-8 || inner.kind != typeFlowMod || inner.xid != m.xid {
		t.Errorf("a bundle was given %x", m.body)
		return 0, f
	}
	b := inner.body
	f.Table, f.Priority = b[16], be.Uint16(b[22:])
	rest, err := parseMatch(&f, b[40:])
	if err == nil {
		err = parseInstructions(&f, rest)
	}
	if err != nil {
		t.Error(err)
	}
	return b[17], f
}

func errorReply(xid uint32, e *Error) []byte {
	b := appendHeader(nil, typeError, xid)
	b = be.AppendUint16(b, e.Type)
	b = be.AppendUint16(b, e.Code)
	return patchLength(append(b, e.Text...), 0)
}

func multipartReply(xid uint32, kind uint16, more bool) []byte {
	b := appendHeader(nil, typeMultipartRep, xid)
	b = be.AppendUint16(b, kind)
	flags := uint16(0)
	if more {
		flags = multipartMore
	}
	b = be.AppendUint16(b, flags)
	return append(b, 0, 0, 0, 0)
}

// appendFlowStats appends the statistics of a flow of a mux's shape.
func appendFlowStats(b []byte, f cable.Flow) []byte {
	return appendEntryStats(b, &cable.Entry{Flow: f})
}

func appendEntryStats(b []byte, e *cable.Entry) []byte {
	mod := appendFlowMod(nil, 0, flowAdd, e)
	start := len(b)
	b = append(b, make([]byte, flowStatsLen)...)
	b[start+2] = e.Table
	be.PutUint32(b[start+4:], uint32(e.Age/time.Second))
	be.PutUint32(b[start+8:], uint32(e.Age%time.Second))
	be.PutUint16(b[start+12:], e.Priority)
	be.PutUint16(b[start+14:], e.IdleTimeout)
	be.PutUint16(b[start+16:], e.HardTimeout)
	be.PutUint16(b[start+18:], e.Flags)
	be.PutUint64(b[start+24:], uint64(e.Cookie))
	be.PutUint64(b[start+32:], e.Packets)
	b = append(b, mod[48:]...)
	be.PutUint16(b[start:], uint16(len(b)-start))
	return b
}

// dial connects to the peer, and closes the connection when the test ends.
func (p *peer) dial() *Conn {
	p.t.Helper()
	c, err := Dial(wait.Context(p.t), p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// within returns a context that ends soon.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// set starts an update and waits for its answer.
func set(t *testing.T, c *Conn, u cable.Update) error {
	t.Helper()
	answer := make(chan error, 1)
	if err := c.Start(u, time.Now().Add(wait.Limit), func(err error) { answer <- err }); err != nil {
		t.Fatalf("start: %v", err)
	}
	return wait.Receive(t, "an answer", answer)
}
