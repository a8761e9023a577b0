package openflow

import (
	"bytes"
	"fmt"
)

// A Port is what OVS tells about one port of a bridge (ofp_port).
type Port struct {
	Number uint32 // OpenFlow port number; the bridge's own port has 0xfffffffe
	Name   string
	Up     bool // neither taken down nor without a link
}

// Parts of a port description (ofp_port_config, ofp_port_state).
const (
	portLen        = 40 // without properties
	portConfigDown = 1
	portLinkDown   = 1
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
	return Port{
		Number: be.Uint32(b),
		Name:   string(name),
		Up:     be.Uint32(b[32:])&portConfigDown == 0 && be.Uint32(b[36:])&portLinkDown == 0,
	}, n, nil
}
