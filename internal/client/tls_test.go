package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// serveTLS serves port 3 to those who send the token "s3cret", and returns the server's certificate and key as PEM. With
// mutual, a client must show that same certificate.
func serveTLS(t *testing.T, mutual bool) (url, cert, key string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			refuse(http.StatusUnauthorized, "", "who are you")(w, r)
			return
		}
		ok(port3)(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that shall fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	der, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if mutual {
		srv.TLS.ClientAuth = tls.RequireAnyClientCert
	}
	return srv.URL, cert, key
}

func TestTLSAndToken(t *testing.T) {
	open, cert, key := serveTLS(t, false)
	mutual, _, _ := serveTLS(t, true)
	for name, tc := range map[string]struct {
		url, token, ca, cert, key string
		insecure                  bool
		code                      string // "" for success
	}{
		"trusted by its CA":     {url: open, token: "s3cret", ca: cert},
		"not verified":          {url: open, token: "s3cret", insecure: true},
		"not trusted":           {url: open, token: "s3cret", code: client.CodeUnreachable},
		"wrong token":           {url: open, token: "guess", ca: cert, code: client.CodeUnauthorised},
		"no token":              {url: open, ca: cert, code: client.CodeUnauthorised},
		"client certificate":    {url: mutual, token: "s3cret", ca: cert, cert: cert, key: key},
		"no client certificate": {url: mutual, token: "s3cret", ca: cert, code: client.CodeUnauthorised},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := client.TLSConfig(tc.ca, tc.cert, tc.key, tc.insecure)
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, tc.url, func(c *client.Config) { c.TLS, c.Token = cfg, tc.token })
			_, err = c.Status(t.Context(), "vms17-8", 3)
			if tc.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := failure(t, err, tc.code); e.Attempts != 1 || e.MayHaveLanded {
				t.Errorf("it was tried again, or may have landed: %+v", e)
			}
		})
	}
}

func TestBadTLSConfig(t *testing.T) {
	_, cert, key := serveTLS(t, false)
	for name, tc := range map[string]struct{ ca, cert, key, says string }{
		"CA is not PEM":            {ca: "/etc/ssl/ca.pem", says: "CA certificate is not a certificate in PEM"},
		"certificate without key":  {cert: cert, says: "come together"},
		"key without certificate":  {key: key, says: "come together"},
		"key is not the right one": {cert: cert, key: "nonsense", says: "the client certificate and its key: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := client.TLSConfig(tc.ca, tc.cert, tc.key, false); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want it to say %q", err, tc.says)
			}
		})
	}
}
