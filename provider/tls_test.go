package provider_test

import (
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// beforeTLS puts TLS and a token before an agent, and returns the URL and the certificate to trust.
func beforeTLS(t *testing.T, a *agenttest.Agent, token string) (endpoint, ca string) {
	t.Helper()
	target := must(url.Parse(a.URL))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"err_msg":"a token is needed"}`))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that shall fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
}

func TestTLSAndToken(t *testing.T) {
	a := agenttest.Start(t)
	endpoint, ca := beforeTLS(t, a, "s3cret")
	for name, tc := range map[string]struct {
		set  attrs
		env  string
		says string // "" for success
	}{
		"trusted":                    {set: attrs{"ca_cert_pem": ca, "token": "s3cret"}},
		"token from the environment": {set: attrs{"ca_cert_pem": ca}, env: "s3cret"},
		"not verified":               {set: attrs{"insecure_skip_verify": true, "token": "s3cret"}},
		"not trusted":                {set: attrs{"token": "s3cret"}, says: "The agent's certificate is not trusted: Reading port 3 of vms17-8 failed. Set ca_cert_pem"},
		"bad token":                  {set: attrs{"ca_cert_pem": ca, "token": "guess"}, says: "The agent refuses this machine: Reading port 3 of vms17-8 failed. Check token"},
		"certificate that is none":   {set: attrs{"ca_cert_pem": "/etc/ssl/ca.pem"}, says: "Bad certificate or key"},
		"certificate without a key":  {set: attrs{"client_cert_pem": ca}, says: "come together"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.env != "" {
				t.Setenv("MUX_TOKEN", tc.env)
			}
			p := newPlugin(t)
			config := attrs{"endpoint": endpoint, "vm_set": a.VMSet}
			maps.Copy(config, tc.set)
			words := said(p.configure(config, false).Diagnostics)
			if words == "" {
				_, words = p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": api.LowerToR}))
			}
			if tc.says == "" && words != "" {
				t.Error(words)
			}
			mustSay(t, words, tc.says)
		})
	}
}

// The agent's own guard, as mux-agent serve --listen-auth --token-file sets it up.
func TestTokenOfTheAgent(t *testing.T) {
	token := strings.Repeat("s3cret", 6)
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile = "127.0.0.1:0", file
	}))
	for _, tc := range []struct{ token, says string }{
		{"guess", "ERROR: The agent refuses this machine"},
		{token, ""},
	} {
		p := newPlugin(t)
		p.quiet(p.configure(attrs{"endpoint": "http://" + a.Auth, "vm_set": a.VMSet, "token": tc.token}, false).Diagnostics)
		_, words := p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": api.LowerToR}))
		mustSay(t, words, tc.says)
		if done := words == ""; done != (look(t, a, 3).ActiveSide == api.LowerToR) || done != (tc.says == "") {
			t.Errorf("with token %q: %s", tc.token, words)
		}
	}
}
