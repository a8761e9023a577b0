package agent

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/metrics"
)

// A gate lets connections in by the client's address, and no more of them than there may be.
type gate struct {
	allowed  []netip.Prefix // nil lets everybody in
	limits   limits
	log      *slog.Logger
	refused  func(reason string)
	headers  budget // of all requests under way
	mu       sync.Mutex
	all      int // open connections
	byClient map[netip.Addr]int
	told     map[string]*refusals // by reason
}

// refusals are what the log has to say of one reason.
type refusals struct {
	at     time.Time // of the last line
	untold int       // refusals since
}

func newGate(allowed []netip.Prefix, l limits, log *slog.Logger) *gate {
	return &gate{
		allowed: allowed, limits: l, log: log, refused: func(string) {}, headers: budget{limit: maxHeaders},
		byClient: map[netip.Addr]int{}, told: map[string]*refusals{},
	}
}

// limits are how many connections there may be.
type limits struct {
	all      int
	reserved int // of all, those that only the address for clients with a token or a certificate may have
	client   int // from one address that is not this machine's
}

// spareFiles is how many file descriptors are left to the rest: a thousand bridges are polled by no more than a few hundred
// at once, and the log, the page and the listeners take a handful.
const spareFiles = 512

// fit makes the limits fit what the system lets the process open.
func fit(auth, open bool) limits {
	l := limits{all: maxConnections, client: maxPerClient}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.all = fitTo(files.Cur)
	}
	if auth && open {
		l.reserved = l.all / (maxConnections / reservedForAuth)
	}
	return l
}

// fitTo returns how many connections there may be with a number of file descriptors.
func fitTo(files uint64) int {
	if files >= maxConnections+spareFiles {
		return maxConnections
	}
	return max(int(files)-spareFiles, int(files)/2)
}

// parseCIDRs reads networks, or single addresses, of IPv4 or IPv6. An IPv4 network may be written as one of IPv6.
func parseCIDRs(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil && addr.Zone() == "" {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("--allow-cidr %q: want a network or an address, such as 10.0.0.0/8 or fd00::/8", text)
		}
		if mapped := 96; p.Addr().Is4In6() {
			if p.Bits() < mapped {
				return nil, fmt.Errorf("--allow-cidr %q: not an IPv4 network; write one such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// addrOf returns a client's address; one of IPv4 may look like one of IPv6.
func addrOf(a net.Addr) (netip.Addr, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	return tcp.AddrPort().Addr().Unmap().WithZone(""), true
}

// allows reports whether a client may connect.
func (g *gate) allows(addr netip.Addr, known bool) bool {
	if g.allowed == nil {
		return true
	}
	for _, p := range g.allowed {
		if known && p.Contains(addr) {
			return true
		}
	}
	return false
}

// enter lets a client in, or returns the reason for which it is refused.
func (g *gate) enter(addr netip.Addr, known, auth bool) (reason string) {
	if !g.allows(addr, known) {
		return metrics.RefusedAddress
	}
	room := g.limits.all
	if !auth {
		room -= g.limits.reserved
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.all >= room:
		return metrics.RefusedLimit
	case !addr.IsLoopback() && g.byClient[addr] >= g.limits.client:
		return metrics.RefusedClient
	}
	g.all++
	g.byClient[addr]++
	return ""
}

func (g *gate) leave(addr netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.byClient[addr]--; g.byClient[addr] == 0 {
		delete(g.byClient, addr)
	}
}

// open returns how many connections there are.
func (g *gate) open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all
}

// refusalPause is the shortest pause between two lines in the log about connections that were refused for one reason.
const refusalPause = 10 * time.Second

// refuse counts a connection that is not served and, now and then, logs one.
func (g *gate) refuse(client net.Addr, reason string, why error) {
	g.refused(reason)
	g.mu.Lock()
	defer g.mu.Unlock()
	said := g.told[reason]
	if said == nil {
		said = &refusals{}
		g.told[reason] = said
	}
	said.untold++
	now := time.Now()
	if now.Sub(said.at) < refusalPause {
		return
	}
	attrs := []any{"reason", reason, "client", client.String(), "refused", said.untold}
	if why != nil {
		attrs = append(attrs, "err", why)
	}
	g.log.Warn("connection refused", attrs...)
	said.at, said.untold = now, 0
}

func (g *gate) guard(l net.Listener, auth bool) net.Listener {
	return &guardedListener{Listener: l, gate: g, auth: auth}
}

type guardedListener struct {
	net.Listener
	gate *gate
	auth bool
}

// Accept returns the next connection that the gate lets in.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, known := addrOf(conn.RemoteAddr())
		if reason := l.gate.enter(addr, known, l.auth); reason != "" {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset: a client sees at once that nobody will answer
			}
			l.gate.refuse(conn.RemoteAddr(), reason, nil) // the count and the log know of it before the client does
			_ = conn.Close()
			continue
		}
		return &countedConn{Conn: conn, leave: sync.OnceFunc(func() { l.gate.leave(addr) })}, nil
	}
}

// A countedConn leaves room for another when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite ends what is sent, so that a client that still writes reads the answer before it is reset.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
