package agent_test

import (
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// Who doesn't get through the TLS handshake leaves a line and a count.
func TestARefusedTLSClientLeavesALine(t *testing.T) {
	var log logged
	dir := t.TempDir()
	cert, key := newAuthority(t, "ca").issue(t, dir, "server", time.Hour)
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.Log = "127.0.0.1:0", cert, key, log.log()
		cfg.TokenFile = writeFile(t, dir, "tokens", strings.Repeat("x", 32))
	}))
	for _, hello := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x00\x05hello", strings.Repeat("\x00", 64)} {
		conn, err := net.Dial("tcp", a.Auth)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, hello)
		_, _ = io.Copy(io.Discard, conn) // until the agent has closed it
		_ = conn.Close()
	}
	if got, want := strings.Count(log.String(), `msg="connection refused" reason=tls client=127.0.0.1:`), 1; got != want {
		t.Errorf("%d lines of three refused clients at once, want %d:\n%s", got, want, log.String())
	}
	if got := get(t, a.URL+"/metrics"); !strings.Contains(got, `mux_agent_connections_refused_total{reason="tls"} 3`) {
		t.Errorf("no count of three refused clients in:\n%s", got)
	}
}

// Thousands of long requests without a token are a few short lines in the log, and the log says how many it left out.
func TestRefusedRequestsFillNoDisk(t *testing.T) {
	var log logged
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile = "127.0.0.1:0", writeFile(t, t.TempDir(), "tokens", strings.Repeat("x", 32))
		cfg.Log = slog.New(agent.NewLogHandler(&log, agent.LogText, slog.LevelInfo))
	}))
	const requests, long = 2000, 8 << 10
	conn, err := net.Dial("tcp", a.Auth)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for range requests {
			_, _ = io.WriteString(conn, "GET /mux/vms17-8/0?"+strings.Repeat("q", long)+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	}()
	answers, err := io.ReadAll(conn)
	if got := strings.Count(string(answers), "HTTP/1.1 401 "); err != nil || got < requests {
		t.Fatalf("%d answers of 401, want %d; %v", got, requests, err)
	}
	lines := strings.Count(log.String(), `msg="request failed"`)
	if lines == 0 || lines > requests/10 || len(log.String()) > requests*long/100 {
		t.Errorf("%d requests with %d bytes each are %d lines, %d bytes in all", requests, long, lines, len(log.String()))
	}
	for line := range strings.Lines(log.String()) {
		if len(line) > 2<<10 {
			t.Errorf("a line of %d bytes: %.300s", len(line), line)
		}
	}
}

// A secret that others can read, or put their own in place of, is warned of; one that only its owner can is not.
func TestWarningsOfModes(t *testing.T) {
	dir := t.TempDir()
	cert, key := newAuthority(t, "ca").issue(t, dir, "server", time.Hour)
	tokens := writeFile(t, dir, "tokens", strings.Repeat("x", 32))
	for name, c := range map[string]struct {
		tokens, key os.FileMode
		want        string
	}{
		"only the owner":  {0o600, 0o400, ""},
		"writable tokens": {0o622, 0o600, `"others can write a secret file: chmod 600" file=` + tokens},
		"readable tokens": {0o644, 0o600, `"others can read a secret file: chmod 600" file=` + tokens},
		"readable key":    {0o600, 0o640, `"others can read a secret file: chmod 600" file=` + key},
	} {
		var log logged
		for path, mode := range map[string]os.FileMode{tokens: c.tokens, key: c.key} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
			cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.TokenFile, cfg.Log = "127.0.0.1:0", cert, key, tokens, log.log()
		}))
		if got := strings.Contains(log.String(), "a secret file"); got != (c.want != "") || !strings.Contains(log.String(), c.want) {
			t.Errorf("%s: want the warning %q and no other:\n%s", name, c.want, log.String())
		}
	}
}
