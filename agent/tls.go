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

// tlsConfig is how cfg.ListenAuth speaks TLS, nil where it does not. Its files are read again after they have changed, and
// hold for connections that come then.
func (cfg Config) tlsConfig() (*tls.Config, error) {
	switch {
	case cfg.TLSCert == "" && cfg.TLSKey == "" && cfg.ClientCA == "":
		return nil, nil
	case cfg.TLSCert == "" && cfg.TLSKey == "":
		return nil, errors.New("--client-ca needs --tls-cert and --tls-key")
	case cfg.TLSCert == "" || cfg.TLSKey == "":
		return nil, errors.New("--tls-cert and --tls-key come together, and one of them is missing")
	}
	paths := []string{cfg.TLSCert, cfg.TLSKey}
	if cfg.ClientCA != "" {
		paths = append(paths, cfg.ClientCA)
	}
	current, err := newFileValue(cfg.Log, cfg.loadTLS, paths...)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.get(), nil },
	}, nil
}

func (cfg Config) loadTLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", cfg.TLSCert, cfg.TLSKey, err)
	}
	if left := time.Until(pair.Leaf.NotAfter); left < expirySoon {
		cfg.Log.Warn("the certificate has expired or soon will", "file", cfg.TLSCert, "not_after", pair.Leaf.NotAfter)
	}
	loaded := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
		// A resumed session would skip the check of the client's certificate against an authority that has changed.
		SessionTicketsDisabled: true,
	}
	if cfg.ClientCA == "" {
		return loaded, nil
	}
	authority, err := os.ReadFile(cfg.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	loaded.ClientAuth = tls.RequireAndVerifyClientCert
	loaded.ClientCAs = x509.NewCertPool()
	if !loaded.ClientCAs.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("--client-ca %s: no certificate in PEM form in it", cfg.ClientCA)
	}
	return loaded, nil
}
