package openflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// An exchange is some messages that were sent together, and whoever waits for the answer to the last of them.
type exchange struct {
	first, last uint32 // their xids
	reply       uint8  // type of message that answers the last one
	part        func(message) error
	done        func(error)
	err         error // the first thing that went wrong
	size        int   // of the answer so far, in bytes
}

// maxAnswer bounds an answer of many parts, in bytes: some hundred thousand flows.
const maxAnswer = 16 << 20

var errEndless = fmt.Errorf("OVS's answer has no end: it has more than %d MB", maxAnswer>>20)

// owns reports whether a message with that xid answers one of the exchange's.
func (x *exchange) owns(xid uint32) bool { return xid-x.first <= x.last-x.first }

// take notes an answer and reports whether it was the last.
func (x *exchange) take(m message) (finished bool) {
	err := error(nil)
	switch {
	case m.kind == typeError:
		err = parseError(m.body)
	case m.xid == x.last && m.kind != x.reply:
		err = fmt.Errorf("OVS answered with a message of type %d where %d is due", m.kind, x.reply)
	case m.xid == x.last && x.part != nil:
		err = x.part(m)
	}
	if x.err == nil {
		x.err = err
	}
	if m.xid != x.last {
		return false
	}
	if m.kind == typeMultipartRep {
		_, _, more, _ := multipart(m)
		return !more
	}
	return true
}

// ask sends a multipart request and gathers what all parts of the answer hold.
func ask[T any](ctx context.Context, c *Conn, kind uint16, request func([]byte, uint32) []byte,
	parse func([]T, []byte) ([]T, error),
) ([]T, error) {
	var all []T
	part := func(m message) error {
		got, entries, _, err := multipart(m)
		if err != nil {
			return err
		}
		if got != kind {
			return fmt.Errorf("OVS answered with a multipart reply of type %d where %d is due", got, kind)
		}
		all, err = parse(all, entries)
		return err
	}
	err := c.do(ctx, typeMultipartRep, part, func(b []byte, xid uint32) ([]byte, uint32, error) {
		return request(b, xid), xid, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// do sends what build appends and waits until its last message is answered. part takes each reply to that one, under
// the connection's lock.
func (c *Conn) do(ctx context.Context, reply uint8, part func(message) error, build builder) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	answer := make(chan error, 1)
	x := &exchange{reply: reply, part: part, done: func(err error) { answer <- err }}
	c.mu.Lock()
	err := c.send(x, build)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		c.pending = slices.DeleteFunc(c.pending, func(p *exchange) bool { return p == x })
		c.mu.Unlock()
		return waitError(ctx)
	}
}

// A builder appends messages to b that bear the xids from xid on, and returns the last of these.
type builder func(b []byte, xid uint32) (frames []byte, last uint32, err error)

func waitError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errNoAnswer
	}
	return ctx.Err()
}

// send writes what build appends and enters the exchange. When it fails OVS has got no message to act on. The caller
// holds c.mu.
func (c *Conn) send(x *exchange, build builder) error {
	if c.err != nil {
		return c.err
	}
	frames, last, err := build(c.out[:0], c.xid)
	if err != nil {
		return err
	}
	c.out = frames
	if err := c.write(); err != nil {
		return err
	}
	x.first, x.last = c.xid, last
	c.xid = last + 1
	c.pending = append(c.pending, x)
	return nil
}

// answer hands a message to the exchange that it answers. There is none when nobody waits any more. An error ends the
// connection.
func (c *Conn) answer(m message) error {
	c.mu.Lock()
	i := slices.IndexFunc(c.pending, func(x *exchange) bool { return x.owns(m.xid) })
	if i < 0 {
		c.mu.Unlock()
		return nil
	}
	x := c.pending[i]
	if x.size += headerLen + len(m.body); x.size > maxAnswer {
		c.mu.Unlock()
		return errEndless
	}
	finished := x.take(m)
	if finished {
		c.pending = slices.Delete(c.pending, i, i+1)
	}
	c.mu.Unlock()
	if finished {
		x.done(x.err)
	}
	return nil
}
