package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
)

// Limits of what clients can hold. They leave room for a testbed's worst day: every ToR, test and script at once. What each
// costs at worst stands in docs/agent/security.md, which a test holds.
const (
	// maxConnections is how many connections may be open, over all listeners, where the system allows as many files. More are
	// closed at once.
	maxConnections = 4096
	// reservedForAuth is how many of them only the address for clients with a token or a certificate may have.
	reservedForAuth = 512
	// maxPerClient is how many of them one address may have. The server itself may have all.
	maxPerClient = 256
	// maxHeader is the size of a request's line and headers, in bytes; what is larger is answered with 431.
	maxHeader = 16 << 10
	// maxHeaderLines is how many lines they may have.
	maxHeaderLines = 128
	// maxHeaders is what the headers of all requests under way may cost together, in bytes.
	maxHeaders = 24 << 20

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
	err := l.server.Serve(l.listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// secrets are the files that say who may use ListenAuth; those that there are not are nil.
type secrets struct {
	tokens       *tokens
	certificates *certificates
}

// secrets reads the files, and returns an error where flags don't fit.
func (cfg Config) secrets() (s secrets, err error) {
	if cfg.Listen == "" && cfg.ListenAuth == "" {
		return s, errors.New("no address to serve: name one, such as --listen 127.0.0.1:8080")
	}
	if cfg.ListenAuth == "" {
		if cfg.TokenFile != "" || cfg.TLSCert != "" || cfg.TLSKey != "" || cfg.ClientCA != "" {
			return s, errors.New("--token-file, --tls-cert, --tls-key and --client-ca are about --listen-auth, which is missing")
		}
		return s, nil
	}
	if cfg.TokenFile != "" {
		if s.tokens, err = newTokens(cfg.TokenFile, cfg.Log); err != nil {
			return s, err
		}
		if first, _ := s.tokens.file.get(); len(first.tokens) == 0 && cfg.ClientCA == "" {
			return s, fmt.Errorf("--token-file %s: no token in it; make one with: openssl rand -hex 32", cfg.TokenFile)
		}
	}
	if s.certificates, err = cfg.newCertificates(); err != nil {
		return s, err
	}
	if cfg.TokenFile == "" && cfg.ClientCA == "" {
		return s, errors.New("--listen-auth needs --token-file, --client-ca or both")
	}
	return s, nil
}

// reload reads all of the files.
func (s secrets) reload() {
	if s.tokens != nil {
		s.tokens.file.reload()
	}
	if s.certificates != nil {
		s.certificates.pair.reload()
		if s.certificates.clients != nil {
			s.certificates.clients.reload()
		}
	}
}

// stale reports, by flag, whether files have changed and can't be used.
func (s secrets) stale() map[string]bool {
	stale := map[string]bool{}
	if s.tokens != nil {
		stale["token-file"] = s.tokens.file.stale()
	}
	if s.certificates != nil {
		stale["tls-cert"] = s.certificates.pair.stale()
		if s.certificates.clients != nil {
			stale["client-ca"] = s.certificates.clients.stale()
		}
	}
	return stale
}

// guard returns what tells who asks at ListenAuth.
func (s secrets) guard() *guard {
	g := &guard{tokens: s.tokens}
	if s.tokens != nil {
		list, _ := s.tokens.file.get()
		g.noTokens = len(list.tokens) == 0
	}
	if s.certificates != nil && s.certificates.clients != nil {
		g.clients = s.certificates.clients
		g.first, _ = g.clients.get()
	}
	return g
}

// open listens on cfg.Listen and cfg.ListenAuth.
func (cfg Config) open(ctx context.Context, handler *httpapi.Server, gate *gate, secrets secrets) (all []listening, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.listener.Close()
			}
		}
	}()
	if cfg.Listen != "" {
		listener, err := listen(ctx, "--listen", cfg.Listen)
		if err != nil {
			return nil, err
		}
		all = append(all, listening{listener: &headListener{gate.guard(listener, false), gate, nil}, server: newServer(handler, cfg.Log)})
		if !isLoopback(listener.Addr()) && gate.allowed == nil {
			cfg.Log.Warn("everybody who can reach the address can switch ports: name who may, with --allow-cidr", "address", listener.Addr().String())
		}
	}
	if cfg.ListenAuth == "" {
		return all, nil
	}
	listener, err := listen(ctx, "--listen-auth", cfg.ListenAuth)
	if err != nil {
		return all, err
	}
	var secured *tls.Config
	if secrets.certificates != nil {
		secured = secrets.certificates.serverConfig()
	} else if !isLoopback(listener.Addr()) {
		cfg.Log.Warn("tokens can be read on the network: add --tls-cert and --tls-key", "address", listener.Addr().String())
	}
	return append(all, listening{
		listener: &headListener{gate.guard(listener, true), gate, secured},
		server:   newServer(handler.Identify(secrets.guard().identify), cfg.Log), auth: true, tls: secured != nil,
	}), nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
