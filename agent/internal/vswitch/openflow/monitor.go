package openflow

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// multipartFlowMonitor is the multipart type of flow monitors (OFPMP_FLOW_MONITOR).
const multipartFlowMonitor = 16

// What a monitor is asked for (ofp_flow_monitor_flags), and how it is created (ofp_flow_monitor_command). The flows that
// stand already are asked for only to try a switch, and never what they do: whoever hears of a change reads the flows anyway.
const (
	monitorInitial  = 1 << 0
	monitorAdds     = 1 << 1
	monitorRemovals = 1 << 2
	monitorChanges  = 1 << 3
	monitorAdd      = 0
)

// Events of a monitor (ofp_flow_update_event) that are not a change by somebody else. After a pause, for which there is no room
// for more updates in the socket, comes another one, that it is over.
const (
	eventAbbrev = 4 // the monitor's own connection did it
	eventPaused = 5
)

// appendMonitorRequest asks to be told of changes of all flows (ofp_flow_monitor_request).
func appendMonitorRequest(b []byte, xid uint32, flags uint16) []byte {
	start := len(b)
	b = appendMultipartRequest(b, xid, multipartFlowMonitor)
	b = be.AppendUint32(b, 1) // the monitor's number
	b = be.AppendUint32(b, anyPort)
	b = be.AppendUint32(b, anyGroup)
	b = be.AppendUint16(b, flags)
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

// allChanges are the flags of a monitor of all that happens to flows.
const allChanges = monitorAdds | monitorRemovals | monitorChanges

// Watch has OVS tell of ports that come, go or change, of flows that end and were to be told of, and with flows, of all changes
// of flows that are not this connection's own: at each of them changed is called, which must not block. The last caller's
// changed counts.
//
// Whoever asks for flows must know by Tells that OVS has a flow monitor for OpenFlow 1.4.
func (c *Conn) Watch(ctx context.Context, flows bool, changed func()) error {
	if c.changed.Swap(&changed) != nil {
		return nil // OVS was asked before
	}
	_, err := c.askPorts(ctx, true)
	if err == nil && flows {
		err = c.do(ctx, typeMultipartRep, nil, func(b []byte, xid uint32) ([]byte, uint32, error) {
			return appendMonitorRequest(b, xid, allChanges), xid, nil
		})
	}
	if err != nil {
		c.end(err) // half asked: the next connection starts anew
	}
	return err
}

// Tells tries whether OVS has a flow monitor for OpenFlow 1.4, which is new in 3.0. It uses the connection up: OVS 2.15 takes
// the request for that of Nicira's extension to OpenFlow 1.0. Depending on the flows that stand it answers with a message of
// version 1.0, with an error, or with nothing; and then tells of changes in version 1.0, in which nothing can be read here. So
// a monitor is believed only when it answers as the specification says.
func (c *Conn) Tells(ctx context.Context) (bool, error) {
	defer c.Close()
	answered := false
	part := func(m message) error {
		kind, _, _, err := multipart(m)
		answered = err == nil && kind == multipartFlowMonitor
		return err
	}
	asked := make(chan error, 1)
	monitor := &exchange{reply: typeMultipartRep, part: part, done: func(err error) { asked <- err }}
	c.mu.Lock()
	err := c.send(monitor, func(b []byte, xid uint32) ([]byte, uint32, error) {
		return appendMonitorRequest(b, xid, monitorInitial|allChanges), xid, nil
	})
	c.mu.Unlock()
	if err == nil {
		err = c.Barrier(ctx) // after which there will be no answer
	}
	if errors.Is(err, errOtherVersion) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	select {
	case err := <-asked:
		return err == nil && answered, nil
	default:
		return false, nil
	}
}

// tell calls whoever asked to be told of changes.
func (c *Conn) tell() {
	if changed := c.changed.Load(); changed != nil {
		(*changed)()
	}
}

// The pauses between attempts to connect to a bridge that is followed. Each is drawn between a half and the whole.
const (
	firstRedial = 5 * time.Millisecond
	lastRedial  = time.Second
)

// Follow keeps the bridge connected until ctx ends, or the pool is closed. It calls changed, which must not block, when it has
// connected, when the connection has ended, when a port changes, and when a flow ends or anybody but this pool changes flows.
// told says whether OVS will tell of flows from now on: it doesn't below 3.0, nor where flows is false, nor while there is no
// connection. Each bridge is followed once at a time.
func (p *Pool) Follow(ctx context.Context, bridge string, flows bool, changed func(told bool)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.closed, cancel)()
	pause := firstRedial
	for ctx.Err() == nil {
		started := time.Now()
		c, told, err := p.watch(ctx, bridge, flows, changed)
		if err == nil {
			changed(told)
			select {
			case <-c.ended:
				p.doubt()
				changed(false)
			case <-ctx.Done():
				return
			}
		}
		if time.Since(started) > 2*lastRedial {
			pause = firstRedial
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
			pause = min(2*pause, lastRedial)
		case <-ctx.Done():
		}
	}
}

// watch connects to a bridge and has OVS tell of it.
func (p *Pool) watch(ctx context.Context, bridge string, flows bool, changed func(told bool)) (c *Conn, told bool, err error) {
	told = flows
	if flows {
		if told, err = p.tells(ctx, bridge); err != nil {
			return nil, false, err
		}
	}
	if c, err = p.conn(ctx, bridge); err != nil {
		return nil, false, err
	}
	err = c.Watch(ctx, told, func() {
		if ctx.Err() == nil {
			changed(told)
		}
	})
	return c, told, err
}

// tells reports whether this OVS tells of flows. That is tried once, on a connection of its own, and again after a connection
// has ended, since it may be another OVS then.
func (p *Pool) tells(ctx context.Context, bridge string) (bool, error) {
	p.trial.Lock()
	defer p.trial.Unlock()
	if tells := p.tried.Load(); tells != nil {
		return *tells, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	c, err := Dial(ctx, filepath.Join(p.cfg.Dir, bridge+".mgmt"))
	if err != nil {
		return false, err
	}
	tells, err := c.Tells(ctx)
	if err == nil {
		p.tried.Store(&tells)
	}
	return tells, err
}

// doubt has it tried again.
func (p *Pool) doubt() { p.tried.Store(nil) }

// Ports returns all ports of a bridge as Conn.Ports does. The error is a *cable.SwitchError.
func (p *Pool) Ports(ctx context.Context, bridge string, fresh bool) (ports []Port, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	for range 2 { // a connection may have ended unnoticed since it was last used
		var c *Conn
		if c, err = p.conn(ctx, bridge); err != nil {
			break
		}
		if ports, err = c.Ports(ctx, fresh); err == nil || c.Alive() {
			break
		}
	}
	if err != nil {
		return nil, &cable.SwitchError{Bridge: bridge, Op: "read ports", Err: err, Retryable: retryable(err)}
	}
	return ports, nil
}
