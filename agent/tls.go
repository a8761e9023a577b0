package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// expirySoon is how long before its end a certificate is worth a warning.
const expirySoon = 14 * 24 * time.Hour

// certificates are the files of TLS, each read again after it has changed. What they say holds for connections that come
// then. The server's own certificate is served on when its files can't be used: it lets nobody in who should not be.
type certificates struct {
	pair    *fileValue[tls.Certificate]
	clients *fileValue[*x509.CertPool] // nil where no client certificate is asked for
}

// newCertificates returns nil where cfg.ListenAuth does not speak TLS.
func (cfg Config) newCertificates() (*certificates, error) {
	switch {
	case cfg.TLSCert == "" && cfg.TLSKey == "" && cfg.ClientCA == "":
		return nil, nil
	case cfg.TLSCert == "" && cfg.TLSKey == "":
		return nil, errors.New("--client-ca needs --tls-cert and --tls-key")
	case cfg.TLSCert == "" || cfg.TLSKey == "":
		return nil, errors.New("--tls-cert and --tls-key come together, and one of them is missing")
	}
	var c certificates
	var err error
	if c.pair, err = newFileValue(cfg.Log, cfg.loadPair, cfg.TLSCert, cfg.TLSKey); err != nil || cfg.ClientCA == "" {
		return &c, err
	}
	c.clients, err = newFileValue(cfg.Log, cfg.loadClients, cfg.ClientCA)
	return &c, err
}

// config is how a connection that comes now speaks TLS.
func (c *certificates) config() (*tls.Config, error) {
	pair, _ := c.pair.get()
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
		// A resumed session would skip the check of the client's certificate against an authority that has changed.
		SessionTicketsDisabled: true,
	}
	if c.clients != nil {
		pool, err := c.clients.get()
		if err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, pool
	}
	return cfg, nil
}

// serverConfig asks for the configuration of each connection.
func (c *certificates) serverConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config() },
	}
}

func (cfg Config) loadPair() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return pair, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", cfg.TLSCert, cfg.TLSKey, err)
	}
	if left := time.Until(pair.Leaf.NotAfter); left < expirySoon {
		cfg.Log.Warn("the certificate has expired or soon will", "file", cfg.TLSCert, "not_after", pair.Leaf.NotAfter)
	}
	checkMode(cfg.TLSKey, "key", cfg.Log)
	return pair, nil
}

func (cfg Config) loadClients() (*x509.CertPool, error) {
	authority, err := os.ReadFile(cfg.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("--client-ca %s: no certificate in PEM form in it", cfg.ClientCA)
	}
	return pool, nil
}
