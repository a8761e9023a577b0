package openflow

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
)

// A Port is what OVS tells about one port of a bridge (ofp_port).
type Port struct {
	Number    uint32 // OpenFlow port number; the bridge's own port has 0xfffffffe
	Name      string
	Down      bool // it was taken down (OFPPC_PORT_DOWN)
	NoReceive bool // what enters is dropped (OFPPC_NO_RECV)
	NoForward bool // nothing is sent out (OFPPC_NO_FWD)
	NoLink    bool // it has no carrier (OFPPS_LINK_DOWN)
}

// Parts of a port description (ofp_port_config, ofp_port_state), and of a message about it (ofp_port_status).
const (
	portLen             = 40 // without properties
	portConfigDown      = 1 << 0
	portConfigNoReceive = 1 << 2
	portConfigNoForward = 1 << 5
	portLinkDown        = 1
	portStatusLen       = 8 // of what comes before the description
	portDeleted         = 1
)

// appendPortsRequest asks for the descriptions of all ports (OFPMP_PORT_DESC).
func appendPortsRequest(b []byte, xid uint32) []byte {
	return patchLength(appendMultipartRequest(b, xid, multipartPortDesc), len(b))
}

// parsePorts appends the ports described in b.
func parsePorts(ports []Port, b []byte) ([]Port, error) {
	for len(b) > 0 {
		port, n, err := parsePort(b)
		if err != nil {
			return ports, err
		}
		ports = append(ports, port)
		b = b[n:]
	}
	return ports, nil
}

// parsePort reads the port description at the start of b and returns its length in bytes.
func parsePort(b []byte) (Port, int, error) {
	if len(b) < portLen {
		return Port{}, 0, fmt.Errorf("port description of %d bytes is too short", len(b))
	}
	n := int(be.Uint16(b[4:]))
	if n < portLen || n > len(b) {
		return Port{}, 0, fmt.Errorf("port description claims %d of %d bytes", n, len(b))
	}
	name, _, _ := bytes.Cut(b[16:32], []byte{0})
	config, state := be.Uint32(b[32:]), be.Uint32(b[36:])
	return Port{
		Number:    be.Uint32(b),
		Name:      string(name),
		Down:      config&portConfigDown != 0,
		NoReceive: config&portConfigNoReceive != 0,
		NoForward: config&portConfigNoForward != 0,
		NoLink:    state&portLinkDown != 0,
	}, n, nil
}

// note brings the table of ports, where there is one, to what a port status message says. The caller holds c.mu.
func (c *Conn) note(status []byte) error {
	if len(status) < portStatusLen {
		return fmt.Errorf("port status of %d bytes is too short", len(status))
	}
	port, _, err := parsePort(status[portStatusLen:])
	if err != nil || c.ports == nil {
		return err
	}
	if status[0] == portDeleted {
		delete(c.ports, port.Number)
		return nil
	}
	if len(c.ports) >= maxPorts {
		return fmt.Errorf("OVS tells of more than %d ports", maxPorts)
	}
	c.ports[port.Number] = port
	return nil
}

// maxPorts bounds the table of ports. OpenFlow has 65,279 numbers of ports below the reserved ones.
const maxPorts = 1 << 16

// Ports returns all ports of the bridge, the bridge's own one included, in no order: as OVS told last where it tells of changes,
// and else, or with fresh, as it answers now.
func (c *Conn) Ports(ctx context.Context, fresh bool) ([]Port, error) {
	c.mu.Lock()
	if c.ports != nil && !fresh {
		defer c.mu.Unlock()
		return slices.Collect(maps.Values(c.ports)), nil
	}
	c.mu.Unlock()
	return c.askPorts(ctx, false)
}

// askPorts asks for all ports. With keep the answer becomes the table that the messages after it change.
func (c *Conn) askPorts(ctx context.Context, keep bool) ([]Port, error) {
	var all []Port
	part := func(m message) error {
		got, entries, more, err := multipart(m)
		if err != nil {
			return err
		}
		if got != multipartPortDesc {
			return fmt.Errorf("OVS answered with a multipart reply of type %d where %d is due", got, multipartPortDesc)
		}
		if all, err = parsePorts(all, entries); err != nil || more {
			return err
		}
		if keep || c.ports != nil {
			c.ports = map[uint32]Port{}
			for _, p := range all {
				c.ports[p.Number] = p
			}
		}
		return nil
	}
	err := c.do(ctx, typeMultipartRep, part, func(b []byte, xid uint32) ([]byte, uint32, error) {
		if keep {
			b = appendAsync(b, xid) // two messages of one xid, to which there is no answer
			xid++
		}
		return appendPortsRequest(b, xid), xid, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
