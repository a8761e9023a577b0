package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/metrics"
)

// Limits of what one client can hold. They leave room for a testbed's worst day: every ToR, test and script at once.
const (
	// maxConnections is how many connections may be open, over all listeners. More are closed at once.
	maxConnections = 4096
	// maxHeader is the size of a request's line and headers, in bytes; what is larger is answered with 431.
	maxHeader = 64 << 10

	readHeaderTimeout = 10 * time.Second // from the first byte, or the connection's start, to the end of the headers
	readTimeout       = 30 * time.Second // to the end of the body
	writeTimeout      = 60 * time.Second // from the end of the headers to the end of the answer; streams and waits have their own
	idleTimeout       = 2 * time.Minute  // between two requests
)

func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // no client needs HTTP/2, whose streams no limit on connections counts
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader - 4096, // net/http adds as much
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// A listening is one address with what serves it.
type listening struct {
	listener net.Listener
	server   *http.Server
	auth     bool // it is ListenAuth
	tls      bool
}

func (l listening) serve() error {
	var err error
	if l.tls {
		err = l.server.ServeTLS(l.listener, "", "")
	} else {
		err = l.server.Serve(l.listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// open listens on cfg.Listen and cfg.ListenAuth.
func (cfg Config) open(ctx context.Context, handler *httpapi.Server, gate *gate) (all []listening, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.listener.Close()
			}
		}
	}()
	if cfg.Listen == "" && cfg.ListenAuth == "" {
		return nil, errors.New("no address to serve: name one, such as --listen 127.0.0.1:8080")
	}
	if cfg.Listen != "" {
		listener, err := listen(ctx, "--listen", cfg.Listen)
		if err != nil {
			return nil, err
		}
		all = append(all, listening{listener: gate.guard(listener), server: newServer(handler, cfg.Log)})
		if !isLoopback(listener.Addr()) && gate.allowed == nil {
			cfg.Log.Warn("everybody who can reach the address can switch ports: name who may, with --allow-cidr", "address", listener.Addr().String())
		}
	}
	if cfg.ListenAuth == "" {
		if cfg.TokenFile != "" || cfg.TLSCert != "" || cfg.TLSKey != "" || cfg.ClientCA != "" {
			return all, errors.New("--token-file, --tls-cert, --tls-key and --client-ca are about --listen-auth, which is missing")
		}
		return all, nil
	}
	var guarded http.Handler = handler
	if cfg.TokenFile != "" {
		tokens, err := newTokens(cfg.TokenFile, cfg.Log)
		if err != nil {
			return all, err
		}
		guarded = handler.RequireToken(tokens.valid)
	}
	server := newServer(guarded, cfg.Log)
	if server.TLSConfig, err = cfg.tlsConfig(); err != nil {
		return all, err
	}
	if cfg.TokenFile == "" && cfg.ClientCA == "" {
		return all, errors.New("--listen-auth needs --token-file, --client-ca or both")
	}
	listener, err := listen(ctx, "--listen-auth", cfg.ListenAuth)
	if err != nil {
		return all, err
	}
	if server.TLSConfig == nil && !isLoopback(listener.Addr()) {
		cfg.Log.Warn("tokens can be read on the network: add --tls-cert and --tls-key", "address", listener.Addr().String())
	}
	return append(all, listening{listener: gate.guard(listener), server: server, auth: true, tls: server.TLSConfig != nil}), nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// A gate lets connections in by the client's address, and no more of them than there may be.
type gate struct {
	allowed []netip.Prefix // nil lets everybody in
	limit   int64
	log     *slog.Logger
	refused func(reason string)
	open    atomic.Int64

	mu     sync.Mutex
	told   time.Time // when a refusal was logged
	untold int       // refusals since
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
				return nil, fmt.Errorf("--allow-cidr %q: is no IPv4 network; write it as such, like 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// allows reports whether a client may connect. A client of IPv4 may look like one of IPv6.
func (g *gate) allows(a net.Addr) bool {
	if g.allowed == nil {
		return true
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, p := range g.allowed {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// refusalPause is the shortest pause between two lines in the log about refused connections.
const refusalPause = 10 * time.Second

func (g *gate) refuse(conn net.Conn, reason string) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset is the quickest answer, and leaves nothing behind here
	}
	defer func() { _ = conn.Close() }() // when the count and the log know of it
	g.refused(reason)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.untold++
	if now := time.Now(); now.Sub(g.told) >= refusalPause {
		g.log.Warn("connection refused", "reason", reason, "client", conn.RemoteAddr().String(), "refused", g.untold)
		g.told, g.untold = now, 0
	}
}

func (g *gate) guard(l net.Listener) net.Listener { return &guardedListener{Listener: l, gate: g} }

type guardedListener struct {
	net.Listener
	gate *gate
}

// Accept returns the next connection that the gate lets in.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.gate.allows(conn.RemoteAddr()) {
			l.gate.refuse(conn, metrics.RefusedAddress)
			continue
		}
		if l.gate.open.Add(1) > l.gate.limit {
			l.gate.open.Add(-1)
			l.gate.refuse(conn, metrics.RefusedLimit)
			continue
		}
		return &countedConn{Conn: conn, leave: sync.OnceFunc(func() { l.gate.open.Add(-1) })}, nil
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
