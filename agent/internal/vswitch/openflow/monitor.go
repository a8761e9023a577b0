package openflow

import (
	"context"
	"errors"
	"time"
)

// multipartFlowMonitor is the multipart type of flow monitors (OFPMP_FLOW_MONITOR).
const multipartFlowMonitor = 16

// What a monitor is asked for (ofp_flow_monitor_flags), and how it is created (ofp_flow_monitor_command). The flows that
// stand already are not asked for, nor what they do: whoever hears of a change reads the flows anyway.
const (
	monitorAdds     = 1 << 1
	monitorRemovals = 1 << 2
	monitorChanges  = 1 << 3
	monitorAdd      = 0
)

// Events of a monitor (ofp_flow_update_event) that are no change by somebody else. After a pause, for which there is no room
// for more updates in the socket, comes another one, that it is over.
const (
	eventAbbrev = 4 // the monitor's own connection did it
	eventPaused = 5
)

// appendMonitorRequest asks to be told of changes of all flows (ofp_flow_monitor_request).
func appendMonitorRequest(b []byte, xid uint32) []byte {
	start := len(b)
	b = appendMultipartRequest(b, xid, multipartFlowMonitor)
	b = be.AppendUint32(b, 1) // the monitor's number
	b = be.AppendUint32(b, anyPort)
	b = be.AppendUint32(b, anyGroup)
	b = be.AppendUint16(b, monitorAdds|monitorRemovals|monitorChanges)
	b = append(b, allTables, monitorAdd)
	b = be.AppendUint16(b, matchOXM)
	b = be.AppendUint16(b, 4)
	b = append(b, 0, 0, 0, 0)
	return patchLength(b, start)
}

// foreign reports whether the updates in b, the entries of a flow monitor's message (ofp_flow_update_header), may tell of a
// change by somebody else. What cannot be read may.
func foreign(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return true
		}
		n := int(be.Uint16(b))
		if n < 4 || n > len(b) {
			return true
		}
		if event := be.Uint16(b[2:]); event != eventAbbrev && event != eventPaused {
			return true
		}
		b = b[n:]
	}
	return false
}

// isUpdate reports whether a message is from a flow monitor. What it sends by itself bears no request's xid.
func isUpdate(m message) bool {
	if m.kind != typeMultipartRep || m.xid != 0 {
		return false
	}
	kind, _, _, err := multipart(m)
	return err == nil && kind == multipartFlowMonitor
}

// Monitor has OVS tell of ports that come, go or change, and of changes of flows that are not this connection's own: at each
// of them changed is called, which must not block. The last caller's changed counts. An *Error means that OVS has no flow
// monitor for OpenFlow 1.4, which is new in OVS 3.0.
func (c *Conn) Monitor(ctx context.Context, changed func()) error {
	if c.changed.Swap(&changed) != nil {
		return nil // OVS was asked before
	}
	err := c.do(ctx, typeMultipartRep, nil, func(b []byte, xid uint32) ([]byte, uint32, error) {
		b = appendAsync(b, xid) // two messages of one xid, to which there is no answer
		xid++
		return appendMonitorRequest(b, xid), xid, nil
	})
	if err != nil && !errors.Is(err, errNoAnswer) && ctx.Err() == nil {
		c.changed.Store(nil)
	}
	return err
}

// tell calls whoever asked to be told of changes.
func (c *Conn) tell() {
	if changed := c.changed.Load(); changed != nil {
		(*changed)()
	}
}

// The pauses between attempts to connect to a bridge that is followed.
const (
	firstRedial = 5 * time.Millisecond
	lastRedial  = time.Second
)

// Follow keeps the bridge connected until ctx ends. It calls changed when it has connected, when the connection has ended,
// when a port changes, and when anybody but this pool changes flows; changed must not block. Each bridge is followed once at
// a time.
//
// It returns nil when ctx ends or the pool is closed. It returns at once, with OVS's words, when this OVS cannot monitor flows.
func (p *Pool) Follow(ctx context.Context, bridge string, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.closed, cancel)()
	tell := func() {
		if ctx.Err() == nil {
			changed()
		}
	}
	pause := firstRedial
	for ctx.Err() == nil {
		c, err := p.conn(ctx, bridge)
		if err == nil {
			err = c.Monitor(ctx, tell)
		}
		if refused, ok := errors.AsType[*Error](err); ok && refused.Type != errHelloFailed {
			return refused
		}
		if err == nil {
			pause = firstRedial
			tell()
			select {
			case <-c.ended:
				tell()
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastRedial)
		case <-ctx.Done():
		}
	}
	return nil
}
