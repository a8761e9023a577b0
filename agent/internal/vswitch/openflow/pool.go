package openflow

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// Config says how a Pool works. The zero value lacks only Dir.
type Config struct {
	// Dir is where the bridges' management sockets are, such as /var/run/openvswitch.
	Dir string
	// Timeout bounds a change, dialing included; 0 is 3 s.
	Timeout time.Duration
}

// A Pool keeps a connection to each bridge that it was asked for. It dials when a bridge is first used, and again when a
// connection has ended since. Its methods may be called at the same time.
type Pool struct {
	cfg    Config
	closed context.Context
	close  context.CancelFunc
	wg     sync.WaitGroup // of batches and dials

	trial sync.Mutex           // held while it is tried whether OVS tells of flows
	tried atomic.Pointer[bool] // what came of it

	mu    sync.Mutex
	conns map[string]*Conn
	dials map[string]*dial
}

// A dial is under way until done is closed.
type dial struct {
	done chan struct{}
	conn *Conn
	err  error
}

// NewPool returns a pool without connections.
func NewPool(cfg Config) *Pool {
	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}
	closed, closePool := context.WithCancel(context.Background())
	return &Pool{
		cfg:    cfg,
		closed: closed,
		close:  closePool,
		conns:  map[string]*Conn{},
		dials:  map[string]*dial{},
	}
}

// Close ends all connections and waits for everything the pool has started. Updates still to be answered are Unknown.
func (p *Pool) Close() {
	p.mu.Lock()
	p.close()
	p.mu.Unlock()
	p.wg.Wait()
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// enter counts something that Close waits for, and is false when the pool is closed.
func (p *Pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Err() != nil {
		return false
	}
	p.wg.Add(1)
	return true
}

// Flows returns all flows of the bridge. The error is a *cable.SwitchError; it wraps a *VersionError when the bridge
// excludes OpenFlow 1.4, and fs.ErrNotExist when there is no such bridge or no ovs-vswitchd.
func (p *Pool) Flows(ctx context.Context, bridge string) ([]cable.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	flows, err := p.flows(ctx, bridge)
	if err != nil {
		return nil, &cable.SwitchError{Bridge: bridge, Op: "read flows", Err: err, Retryable: retryable(err)}
	}
	return flows, nil
}

func (p *Pool) flows(ctx context.Context, bridge string) ([]cable.Entry, error) {
	const tries = 2 // a connection may have ended unnoticed since it was last used
	for try := 1; ; try++ {
		c, err := p.conn(ctx, bridge)
		if err != nil {
			return nil, err
		}
		flows, err := c.Flows(ctx)
		if err == nil {
			return flows, nil
		}
		if try == tries || c.Alive() {
			return nil, err
		}
	}
}

// retryable reports whether the same may succeed later. It may not when OVS or this package refuses it, or when the
// bridge excludes us.
func retryable(err error) bool {
	_, refused := errors.AsType[*Error](err)
	_, excluded := errors.AsType[*VersionError](err)
	return !refused && !excluded && !errors.Is(err, errUnfit)
}

// conn returns a living connection to the bridge, and dials when there is none. All who wait for one bridge share a
// dial, which outlives whoever asked first.
func (p *Pool) conn(ctx context.Context, bridge string) (*Conn, error) {
	p.mu.Lock()
	c := p.conns[bridge]
	if c != nil && c.Alive() {
		p.mu.Unlock()
		return c, nil
	}
	if p.closed.Err() != nil {
		p.mu.Unlock()
		return nil, errClosed
	}
	d := p.dials[bridge]
	if d == nil {
		d = &dial{done: make(chan struct{})}
		p.dials[bridge] = d
		p.wg.Go(func() { p.dial(bridge, d, c) })
	}
	p.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, waitError(ctx)
	}
}

func (p *Pool) dial(bridge string, d *dial, old *Conn) {
	defer close(d.done)
	if old != nil {
		old.Close()
	}
	ctx, cancel := context.WithTimeout(p.closed, p.cfg.Timeout)
	defer cancel()
	d.conn, d.err = Dial(ctx, filepath.Join(p.cfg.Dir, bridge+".mgmt"))
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dials, bridge)
	delete(p.conns, bridge)
	if d.err == nil {
		p.conns[bridge] = d.conn
	}
}

// Apply writes all updates to their bridges and returns, without waiting for any answer, nor for a bridge that must be
// dialed first. done is called exactly once for each update, from any goroutine and perhaps before Apply returns: with
// nil when OVS has confirmed it, and else with a *cable.SwitchError. done must not block. What is not answered within
// the pool's timeout is Unknown.
func (p *Pool) Apply(updates []cable.Update, done func(i int, err error)) {
	if len(updates) == 0 {
		return
	}
	if !p.enter() {
		for i, u := range updates {
			done(i, &cable.SwitchError{Bridge: u.Bridge, Op: opSet, Err: errClosed})
		}
		return
	}
	b := &batch{pool: p, updates: slices.Clone(updates), done: done, steps: make([]atomic.Int32, len(updates))}
	b.left.Store(int32(len(updates)))
	b.ctx, b.cancel = context.WithTimeout(p.closed, p.cfg.Timeout)
	b.unwatch = context.AfterFunc(b.ctx, b.expire)

	conns := make([]*Conn, len(updates))
	p.mu.Lock()
	for i := range updates {
		conns[i] = p.conns[updates[i].Bridge]
	}
	p.mu.Unlock()
	for i, c := range conns {
		if c == nil || b.start(c, i) != nil {
			p.wg.Go(func() { b.dialAndStart(i) })
		}
	}
}

// A batch is the updates of one Apply, with one timer for all of them.
type batch struct {
	pool    *Pool
	updates []cable.Update
	done    func(i int, err error)
	ctx     context.Context // ends at the deadline, and with the pool
	cancel  context.CancelFunc
	unwatch func() bool
	steps   []atomic.Int32
	left    atomic.Int32
}

// How far an update is.
const (
	stepWaiting = iota // for a connection
	stepSent
	stepSettled
)

// start sends update i. When it fails nothing was sent.
func (b *batch) start(c *Conn, i int) error {
	// From here on expire answers for the update; it does not when it has run already.
	b.steps[i].CompareAndSwap(stepWaiting, stepSent)
	if b.ctx.Err() != nil {
		return waitError(b.ctx)
	}
	deadline, _ := b.ctx.Deadline()
	return c.Start(b.updates[i], deadline, func(err error) { b.settle(i, err) })
}

// dialAndStart is the slow way, for a bridge that has no connection or whose connection has just ended.
func (b *batch) dialAndStart(i int) {
	bridge := b.updates[i].Bridge
	b.steps[i].CompareAndSwap(stepSent, stepWaiting)
	b.updates[i].Known = false // the switch may have been restarted, and its flows be gone
	c, err := b.pool.conn(b.ctx, bridge)
	if err == nil {
		err = b.start(c, i)
	}
	if err != nil {
		b.settle(i, &cable.SwitchError{Bridge: bridge, Op: opSet, Err: err, Retryable: retryable(err)})
	}
}

// settle answers update i, unless that has happened.
func (b *batch) settle(i int, err error) {
	if b.steps[i].Swap(stepSettled) != stepSettled {
		b.finish(i, err)
	}
}

func (b *batch) finish(i int, err error) {
	b.done(i, err)
	if b.left.Add(-1) == 0 {
		b.unwatch()
		b.cancel()
		b.pool.wg.Done()
	}
}

// expire answers the updates that were sent and are not settled when the batch's time is over or the pool closes. Those
// that wait for a connection notice by themselves, and know that nothing was sent.
func (b *batch) expire() {
	err := errNoAnswer
	if b.pool.closed.Err() != nil {
		err = errClosed
	}
	for i := range b.updates {
		if b.steps[i].CompareAndSwap(stepSent, stepSettled) {
			b.finish(i, &cable.SwitchError{Bridge: b.updates[i].Bridge, Op: opSet, Err: err, Unknown: true, Retryable: true})
		}
	}
}
