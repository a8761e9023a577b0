package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// TLSConfig makes the TLS configuration of a client from PEM texts, each "" for none. With caCert only agents with a
// certificate of that authority are trusted, instead of what the system trusts. clientCert and clientKey come together.
// insecure trusts everybody.
func TLSConfig(caCert, clientCert, clientKey string, insecure bool) (*tls.Config, error) {
	cfg := &tls.Config{InsecureSkipVerify: insecure} // the user asks for it
	if caCert != "" {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(caCert)) {
			return nil, errors.New("the CA certificate is not a certificate in PEM text")
		}
	}
	switch {
	case clientCert == "" && clientKey == "":
		return cfg, nil
	case clientCert == "" || clientKey == "":
		return nil, errors.New("a client certificate and its key come together, and one of them is missing")
	}
	pair, err := tls.X509KeyPair([]byte(clientCert), []byte(clientKey))
	if err != nil {
		return nil, fmt.Errorf("the client certificate and its key: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}
