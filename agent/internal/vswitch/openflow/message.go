// Package openflow speaks OpenFlow 1.4 to the bridges of an Open vSwitch, each over its management socket.
//
// It owns the bytes: messages are written and read here from the OpenFlow Switch Specification, version 1.4.0,
// whose names of structures stand beside the code; as far as a mux needs them. A Conn is one bridge's connection, a Pool keeps one for each of
// many. Its aim is the switch's own speed: a change of a bridge is one bundle in one write, and all bridges of a batch
// are written to before any answer is awaited, since ovs-vswitchd answers in one pass what lies there when it wakes.
//
// The package knows flows and updates. It must not know what a mux is, which bridges there are, nor who asks.
package openflow

import (
	"encoding/binary"
	"fmt"
)

var be = binary.BigEndian

// version is OpenFlow 1.4, the first with bundles.
const version = 0x05

// Message types (ofp_type).
const (
	typeHello         = 0
	typeError         = 1
	typeEchoRequest   = 2
	typeEchoReply     = 3
	typeSetConfig     = 9
	typeFlowRemoved   = 11
	typePortStatus    = 12
	typeFlowMod       = 14
	typeMultipartReq  = 18
	typeMultipartRep  = 19
	typeBarrierReq    = 20
	typeBarrierRep    = 21
	typeSetAsync      = 28
	typeBundleControl = 33
	typeBundleAdd     = 34
)

// headerLen is the length in bytes of the header that all messages begin with (ofp_header).
const headerLen = 8

// A message is one that was received. Its body follows the header and is valid only until the next one is read.
type message struct {
	version uint8
	kind    uint8
	xid     uint32
	body    []byte
}

// next cuts the first message off b and returns its length in bytes, 0 while b does not hold all of it. An error means
// that b is not OpenFlow and the stream cannot be read on.
func next(b []byte) (message, int, error) {
	if len(b) < headerLen {
		return message{}, 0, nil
	}
	n := int(be.Uint16(b[2:]))
	if n < headerLen {
		return message{}, 0, fmt.Errorf("message of type %d claims a length of %d bytes, less than its header", b[1], n)
	}
	if len(b) < n {
		return message{}, 0, nil
	}
	return message{version: b[0], kind: b[1], xid: be.Uint32(b[4:]), body: b[headerLen:n]}, n, nil
}

// appendHeader begins a message whose length is not known yet; patchLength ends it.
func appendHeader(b []byte, kind uint8, xid uint32) []byte {
	b = append(b, version, kind, 0, 0)
	return be.AppendUint32(b, xid)
}

// patchLength writes the length of the message that began at start, inner messages included.
func patchLength(b []byte, start int) []byte {
	be.PutUint16(b[start+2:], uint16(len(b)-start))
	return b
}

// appendEmpty appends a message that is its header alone, such as a barrier.
func appendEmpty(b []byte, kind uint8, xid uint32) []byte {
	return patchLength(appendHeader(b, kind, xid), len(b))
}

// helloVersions is the hello element that lists versions as a bitmap (ofp_hello_elem_versionbitmap).
const helloVersions = 1

// appendHello appends a hello that offers version 1.4 and nothing else.
func appendHello(b []byte, xid uint32) []byte {
	start := len(b)
	b = appendHeader(b, typeHello, xid)
	b = be.AppendUint16(b, helloVersions)
	b = be.AppendUint16(b, 8)
	b = be.AppendUint32(b, 1<<version)
	return patchLength(b, start)
}

// speaksOurs reports whether the sender of a hello accepts version 1.4: by its bitmap when it has one, and else because
// its highest version is no lower.
func speaksOurs(hello message) bool {
	for b := hello.body; len(b) >= 4; {
		n := int(be.Uint16(b[2:]))
		if n < 4 || n > len(b) {
			break
		}
		if be.Uint16(b) == helloVersions && n >= 8 {
			return be.Uint32(b[4:])&(1<<version) != 0
		}
		b = b[min(len(b), pad(n)):]
	}
	return hello.version >= version
}

// appendEchoReply answers an echo request with the request's own payload.
func appendEchoReply(b []byte, request message) []byte {
	start := len(b)
	b = appendHeader(b, typeEchoReply, request.xid)
	b = append(b, request.body...)
	return patchLength(b, start)
}

// Properties of the asynchronous configuration (ofp_async_config_prop_type): a mask of reasons for each kind of message.
const (
	asyncPacketIn    = 1
	asyncPortStatus  = 3
	asyncFlowRemoved = 5
	asyncPropLen     = 8
	allPortReasons   = 1<<0 | 1<<1 | 1<<2        // added, deleted, modified (ofp_port_reason)
	allFlowReasons   = 1<<0 | 1<<1 | 1<<2 | 1<<3 // idle, too old, deleted, with its group (ofp_flow_removed_reason)
)

// appendAsync appends what makes OVS report, on a management socket, changes of ports, and the end of flows that were added
// with OFPFF_SEND_FLOW_REM: a miss_send_len that is not zero turns asynchronous messages on (ovs-ofctl(8), monitor), and a
// second message turns all kinds off that nobody here reads.
func appendAsync(b []byte, xid uint32) []byte {
	start := len(b)
	b = appendHeader(b, typeSetConfig, xid)
	b = be.AppendUint16(b, 0) // fragments are handled as usual
	b = be.AppendUint16(b, 128)
	b = patchLength(b, start)

	start = len(b)
	b = appendHeader(b, typeSetAsync, xid)
	for _, p := range [...]struct {
		kind    uint16
		reasons uint32
	}{{asyncPacketIn, 0}, {asyncPortStatus, allPortReasons}, {asyncFlowRemoved, allFlowReasons}} {
		b = be.AppendUint16(b, p.kind)
		b = be.AppendUint16(b, asyncPropLen)
		b = be.AppendUint32(b, p.reasons)
	}
	return patchLength(b, start)
}

// Multipart types (ofp_multipart_type).
const (
	multipartFlow     = 1
	multipartPortDesc = 13
)

// multipartLen is the length of what all multipart messages begin with, after their header.
const multipartLen = 8

// multipartMore flags a reply that another one of the same exchange follows.
const multipartMore = 1

func appendMultipartRequest(b []byte, xid uint32, kind uint16) []byte {
	b = appendHeader(b, typeMultipartReq, xid)
	b = be.AppendUint16(b, kind)
	return append(b, 0, 0, 0, 0, 0, 0) // flags and padding
}

// multipart splits the body of a multipart reply. more is true when the reply goes on in another message.
func multipart(m message) (kind uint16, entries []byte, more bool, err error) {
	if len(m.body) < multipartLen {
		return 0, nil, false, fmt.Errorf("multipart reply of %d bytes is too short", len(m.body))
	}
	return be.Uint16(m.body), m.body[multipartLen:], be.Uint16(m.body[2:])&multipartMore != 0, nil
}

// pad returns n rounded up to a multiple of 8.
func pad(n int) int { return (n + 7) &^ 7 }
