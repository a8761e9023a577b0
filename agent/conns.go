package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/metrics"
)

// A budget is an amount that many share.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take returns false, and takes nothing, where the budget doesn't allow it.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// lineCost is about what one line of a header takes besides its text: net/http keeps a map (see net/textproto, which reckons
// with as much).
const lineCost = 256

// A headConn bounds the headers of requests, which net/http bounds by bytes alone: a line of four bytes costs far more than
// that. What they cost is taken from a budget of all connections, from the first byte until the request is over.
type headConn struct {
	net.Conn
	gate *gate

	// The following are touched by the one who reads.
	ended bool // the headers of the request under way were read
	lines int
	width int  // bytes of the line that is being read
	ret   bool // the first of them is a carriage return
	ahead int64
	broke bool // the budget does not allow what was read ahead

	taken atomic.Int64
}

var errHead = errors.New("too many headers")

// Read reads, and ends the connection when its headers are too much.
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n <= 0 || !c.broke && c.count(p[:n], len(p)) {
		return n, err
	}
	c.gate.refuse(c.RemoteAddr(), metrics.RefusedHeaders, nil)
	const status = "431 Request Header Fields Too Large"
	_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
	_, _ = io.WriteString(c.Conn, "HTTP/1.1 "+status+"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+status)
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, 1<<20))    // a reset would overtake the answer
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: errHead} // about which net/http says nothing
}

// count takes what was read into account, and returns false where it is too much.
func (c *headConn) count(p []byte, room int) bool {
	var cost int64
	for !c.ended && len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		cost += int64(len(p) - len(rest))
		if c.width == 0 {
			c.ret = len(line) > 0 && line[0] == '\r'
		}
		c.width += len(line)
		p = rest
		if !whole {
			break
		}
		cost += lineCost
		if c.lines++; c.lines > maxHeaderLines {
			return false
		}
		c.ended = c.width == 0 || c.width == 1 && c.ret
		c.width = 0
	}
	// What comes behind is of the body, or the beginning of another request. A single byte net/http reads to see whether
	// the client is still there.
	if ahead := int64(len(p) + lineCost*bytes.Count(p, []byte{'\n'})); room == 1 {
		c.ahead += ahead
	} else {
		c.ahead = ahead
	}
	return c.take(cost)
}

func (c *headConn) take(cost int64) bool {
	if cost == 0 {
		return true
	}
	if !c.gate.headers.take(cost) {
		return false
	}
	c.taken.Add(cost)
	return true
}

// next is called between two requests.
func (c *headConn) next() {
	c.gate.headers.give(c.taken.Swap(0))
	c.ended, c.lines, c.width = false, 0, 0
	c.broke = !c.take(c.ahead)
	c.ahead = 0
}

// Close closes the connection.
func (c *headConn) Close() error {
	c.gate.headers.give(c.taken.Swap(0))
	return c.Conn.Close()
}

// CloseWrite ends what is sent.
func (c *headConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// A headListener wraps the connections of a guarded one.
type headListener struct {
	net.Listener
	gate *gate
	tls  *tls.Config // nil without TLS
}

// Accept returns the next connection. That of TLS has shaken no hands yet.
func (l *headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.tls == nil {
		return &headConn{Conn: conn, gate: l.gate}, nil
	}
	secured := tls.Server(conn, l.tls)
	return &tlsConn{headConn: &headConn{Conn: secured, gate: l.gate}, tls: secured, raw: conn}, nil
}

// A tlsConn is a headConn over TLS.
type tlsConn struct {
	*headConn
	tls *tls.Conn
	raw net.Conn
}

// ConnectionState shakes hands. net/http asks for it before it reads, in the connection's own goroutine.
func (c *tlsConn) ConnectionState() tls.ConnectionState {
	_ = c.SetDeadline(time.Now().Add(readHeaderTimeout))
	if err := c.tls.HandshakeContext(context.Background()); err != nil {
		c.gate.refuse(c.RemoteAddr(), metrics.RefusedTLS, err)
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && looksLikeHTTP(plain.RecordHeader) {
			_, _ = io.WriteString(c.raw, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		_ = c.raw.Close()
		return tls.ConnectionState{}
	}
	_ = c.SetDeadline(time.Time{})
	return c.tls.ConnectionState()
}

// looksLikeHTTP reports whether a record of TLS is the beginning of a request.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "OPTIO":
		return true
	}
	return false
}

// headOf returns the headConn of a connection that a headListener has accepted.
func headOf(c net.Conn) *headConn {
	switch c := c.(type) {
	case *headConn:
		return c
	case *tlsConn:
		return c.headConn
	}
	return nil
}

// followHeads has the connections of a server know when a request is over.
func followHeads(c net.Conn, state http.ConnState) {
	if head := headOf(c); head != nil && state == http.StateIdle {
		head.next()
	}
}
