package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// opSet is what a SwitchError says was tried by an update.
const opSet = "set flows"

// Start sends u as one atomic bundle in one write and returns. When OVS has answered, done is called once, with nil if
// the wanted flows stand and else with a *cable.SwitchError. It is Unknown when the connection ends before. What OVS
// refuses is looked into until deadline: the flows are read back and, should OVS have done only a part, the old ones are
// restored.
//
// Start itself fails when nothing was sent, and then done is not called. There is no timeout for OVS's answer: whoever
// has many updates under way needs only one for all of them.
func (c *Conn) Start(u cable.Update, deadline time.Time, done func(error)) error {
	x := &exchange{reply: typeBundleControl, done: func(err error) {
		if err == nil {
			done(nil)
			return
		}
		if refused, ok := errors.AsType[*Error](err); ok {
			c.wg.Go(func() { done(c.lookInto(u, refused, deadline)) })
			return
		}
		done(&cable.SwitchError{Bridge: c.bridge, Op: opSet, Err: err, Unknown: true, Retryable: true})
	}}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(x, func(b []byte, xid uint32) ([]byte, uint32, error) { return appendUpdate(b, xid, u) })
}

// lookInto finds out what became of an update that OVS answered with an error, and says it. An error at the commit rolls
// everything back; one at an add leaves it out and commits the rest. Only the flows themselves tell for sure.
func (c *Conn) lookInto(u cable.Update, refused *Error, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	failure := &cable.SwitchError{Bridge: c.bridge, Op: opSet, Err: refused}

	flows, err := c.Flows(ctx)
	if err != nil {
		failure.Unknown, failure.Retryable = true, true
		failure.Err = fmt.Errorf("%w (and the flows could not be read back: %w)", refused, err)
		return failure
	}
	if u.Want.Stands(flows) {
		return nil
	}
	if !u.Known {
		// Nobody knows what stood there, so nobody can tell whether it still does.
		failure.Unknown = true
		return failure
	}
	if u.Have.Stands(flows) {
		return failure
	}
	if err := c.restore(ctx, u); err != nil {
		failure.Unknown = true
		failure.Err = fmt.Errorf("%w (and the old flows could not be restored: %w)", refused, err)
	}
	return failure
}

// restore brings the old flows of a half-done update back.
func (c *Conn) restore(ctx context.Context, u cable.Update) error {
	back := cable.Update{Bridge: u.Bridge, Want: u.Have, Have: u.Want, Known: true}
	return c.do(ctx, typeBundleControl, nil, func(b []byte, xid uint32) ([]byte, uint32, error) {
		return appendUpdate(b, xid, back)
	})
}
