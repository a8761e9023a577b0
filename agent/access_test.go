package agent_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/child"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A logged is what an agent logs.
type logged struct{ child.Output }

func (l *logged) log() *slog.Logger {
	return slog.New(agent.NewLogHandler(l, agent.LogText, slog.LevelDebug))
}

// from returns a client whose connections come from an address of this machine.
func from(t *testing.T, ip string) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext,
	}
	return &http.Client{Transport: transport, Timeout: wait.Limit}
}

func status(client *http.Client, url string) (int, error) {
	res, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func TestOnlyAllowedNetworksConnect(t *testing.T) {
	var log logged
	dir := t.TempDir()
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.AllowCIDRs = []string{"192.0.2.0/24", "127.0.0.1"}
		cfg.ListenAuth = "127.0.0.1:0"
		cfg.TokenFile = writeFile(t, dir, "tokens", strings.Repeat("x", 32))
		cfg.Log = log.log()
	}))
	for _, url := range []string{a.URL, "http://" + a.Auth} {
		if got, err := status(from(t, "127.0.0.1"), url+"/healthz"); err != nil || got != 200 && got != 401 {
			t.Errorf("%s from an allowed address: %d, %v", url, got, err)
		}
		if got, err := status(from(t, "127.0.0.2"), url+"/healthz"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Errorf("%s from another address: %d, %v; want the connection reset", url, got, err)
		}
	}
	if want := `msg="connection refused" reason=address client=127.0.0.2:`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, log.String())
	}
	if got := get(t, a.URL+"/metrics"); !strings.Contains(got, `mux_agent_connections_refused_total{reason="address"} 2`) {
		t.Errorf("no count of the two refused connections in:\n%s", got)
	}
}

// A client of IPv4 has an IPv6 address on a socket for both.
func TestAllowedNetworksOnAnIPv6Socket(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		lack.Of(t, "no IPv6 here: "+err.Error())
	}
	_ = probe.Close()
	for _, c := range []struct {
		allow          string
		ipv4OK, ipv6OK bool
	}{
		{"127.0.0.0/8", true, false},
		{"::ffff:127.0.0.0/104", true, false},
		{"::1/128", false, true},
	} {
		var log logged
		addresses := make(chan net.Addr, 1)
		stop := run(t, agent.Config{
			Listen: "[::]:0", AllowCIDRs: []string{c.allow}, Log: log.log(), VMSets: []string{"vms1"}, Driver: agent.DriverSimulated,
			Listening: func(a net.Addr) { addresses <- a },
		})
		port := (<-addresses).(*net.TCPAddr).AddrPort().Port()
		for host, want := range map[string]bool{"127.0.0.1": c.ipv4OK, "::1": c.ipv6OK} {
			url := "http://" + net.JoinHostPort(host, itoa(port)) + "/healthz"
			if got, err := status(from(t, host), url); (err == nil && got == 200) != want {
				t.Errorf("with %s, %s: %d, %v; want let in: %v", c.allow, url, got, err, want)
			}
		}
		stop()
	}
}

// 0.0.0.0 is all addresses of IPv4, as the replaced service bound it, and none of IPv6.
func TestAnIPv4AddressBindsIPv4(t *testing.T) {
	for listen, want := range map[string]bool{"0.0.0.0:0": true, "127.0.0.1:0": true, "[::]:0": false, ":0": false} {
		addresses := make(chan net.Addr, 1)
		stop := run(t, agent.Config{
			Listen: listen, Log: slog.New(slog.DiscardHandler), VMSets: []string{"vms1"}, Driver: agent.DriverSimulated,
			Listening: func(a net.Addr) { addresses <- a },
		})
		addr := (<-addresses).(*net.TCPAddr)
		stop()
		if got := addr.IP.To4() != nil; got != want {
			t.Errorf("--listen %s binds %s; only IPv4: %v, want %v", listen, addr, got, want)
		}
	}
}

// Whoever opens the agent to a network without saying to whom is told so; nobody else is.
func TestWarningOfAnOpenDoor(t *testing.T) {
	dir := t.TempDir()
	tokens := writeFile(t, dir, "tokens", strings.Repeat("x", 32))
	const open, readable = "everybody who can reach the address", "tokens can be read on the network"
	for name, c := range map[string]struct {
		cfg  agent.Config
		want string
	}{
		"all addresses":          {agent.Config{Listen: "0.0.0.0:0"}, open},
		"all addresses of both":  {agent.Config{Listen: ":0"}, open},
		"with networks":          {agent.Config{Listen: "0.0.0.0:0", AllowCIDRs: []string{"10.0.0.0/8"}}, ""},
		"loopback":               {agent.Config{Listen: "127.0.0.1:0"}, ""},
		"tokens without TLS":     {agent.Config{ListenAuth: "0.0.0.0:0", TokenFile: tokens}, readable},
		"tokens on loopback":     {agent.Config{ListenAuth: "127.0.0.1:0", TokenFile: tokens}, ""},
		"open and authenticated": {agent.Config{Listen: "0.0.0.0:0", ListenAuth: "127.0.0.1:0", TokenFile: tokens}, open},
	} {
		var log logged
		started := make(chan net.Addr, 2)
		c.cfg.Listening = func(a net.Addr) { started <- a }
		c.cfg.ListeningAuth = c.cfg.Listening
		c.cfg.VMSets, c.cfg.Driver, c.cfg.Log = []string{"vms1"}, agent.DriverSimulated, log.log()
		stop := run(t, c.cfg)
		<-started
		stop()
		for _, text := range []string{open, readable} {
			if strings.Contains(log.String(), text) != (text == c.want) {
				t.Errorf("%s: want the warning %q and no other:\n%s", name, c.want, log.String())
			}
		}
	}
}

func TestFlagsOfAccessThatDoNotFit(t *testing.T) {
	ca := newAuthority(t, "ca")
	dir := t.TempDir()
	cert, key := ca.issue(t, dir, "server", time.Hour)
	file := func(text string) string { return writeFile(t, t.TempDir(), "file", text) }
	for want, cfg := range map[string]agent.Config{
		`--allow-cidr "10.0.0.0/33": want a network or an address`: {Listen: "127.0.0.1:0", AllowCIDRs: []string{"10.0.0.0/33"}},
		`--allow-cidr "nowhere": want a network`:                   {Listen: "127.0.0.1:0", AllowCIDRs: []string{"10.0.0.0/8", "nowhere"}},
		`--allow-cidr "::ffff:0:0/64": not an IPv4 network`:        {Listen: "127.0.0.1:0", AllowCIDRs: []string{"::ffff:0:0/64"}},
		"no address to serve":                                      {},
		"are about --listen-auth, which is missing":                {Listen: "127.0.0.1:0", TLSCert: cert, TLSKey: key},
		"--listen-auth needs --token-file, --client-ca or both":    {ListenAuth: "127.0.0.1:0", TLSCert: cert, TLSKey: key},
		"--client-ca needs --tls-cert and --tls-key":               {ListenAuth: "127.0.0.1:0", ClientCA: ca.file},
		"--tls-cert and --tls-key come together":                   {ListenAuth: "127.0.0.1:0", TLSCert: cert, ClientCA: ca.file},
		"private key does not match public key":                    {ListenAuth: "127.0.0.1:0", TLSCert: ca.file, TLSKey: key, ClientCA: ca.file},
		"no certificate in PEM form in it":                         {ListenAuth: "127.0.0.1:0", TLSCert: cert, TLSKey: key, ClientCA: file("nothing")},
		"no such file or directory":                                {ListenAuth: "127.0.0.1:0", TokenFile: "/nonexistent"},
		"a token has 5 bytes and needs 16; make one with":          {ListenAuth: "127.0.0.1:0", TokenFile: file("short\n")},
		"no token in it; make one with: openssl rand -hex 32":      {ListenAuth: "127.0.0.1:0", TokenFile: file("# none\n\n")},
		"want --listen-auth host:port":                             {ListenAuth: "nonsense", TokenFile: file(strings.Repeat("x", 32))},
	} {
		cfg.VMSets, cfg.Driver, cfg.Log = []string{"vms1"}, agent.DriverSimulated, slog.New(slog.DiscardHandler)
		if err := agent.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTokens(t *testing.T) {
	var log logged
	dir := t.TempDir()
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	path := writeFile(t, dir, "tokens", "# for the tests\n"+first+"\n"+second+"\n")
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile, cfg.Log = "127.0.0.1:0", path, log.log()
	}))
	try := func(authorization string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://"+a.Auth+"/mux/vms17-8/0", strings.NewReader(`{"active_side":"lower_tor"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		res, err := from(t, "127.0.0.1").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	for _, bad := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + first, first, "Bearer " + first + "x", "Bearer " + first[1:]} {
		res := try(bad)
		if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != `Bearer realm="mux-agent"` || res.Header.Get("Mux-Error-Code") != "unauthorized" {
			t.Errorf("%q: %s, %v", bad, res.Status, res.Header)
		}
	}
	if got := get(t, a.URL+"/mux/vms17-8/0"); !strings.Contains(got, `"active_side":"upper_tor"`) {
		t.Errorf("somebody without a token has switched: %s", got)
	}
	for _, good := range []string{"Bearer " + first, "bearer " + second} {
		if res := try(good); res.StatusCode != 200 {
			t.Errorf("%q: %s", good, res.Status)
		}
	}
	if strings.Contains(log.String(), first) || strings.Contains(log.String(), "wrong") {
		t.Errorf("the log tells tokens:\n%s", log.String())
	}

	// The file is read again when it has changed.
	third := strings.Repeat("3", 32)
	writeFile(t, dir, "tokens", third)
	if old, changed := try("Bearer "+first), try("Bearer "+third); old.StatusCode != 401 || changed.StatusCode != 200 {
		t.Errorf("after the change: the old token %s, the new one %s", old.Status, changed.Status)
	}
	writeFile(t, dir, "tokens", "")
	if res := try("Bearer " + third); res.StatusCode != 200 || !strings.Contains(log.String(), "files have changed and can't be used") {
		t.Errorf("with an empty file: %s; want the last tokens and a warning\n%s", res.Status, log.String())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if res := try("Bearer " + third); res.StatusCode != 200 {
		t.Errorf("without the file: %s", res.Status)
	}
	if got := get(t, a.URL+"/metrics"); !strings.Contains(got, `mux_agent_stale_files{flag="token-file"} 1`) {
		t.Errorf("no metric of the stale file in:\n%s", got)
	}
}

// A token that was withdrawn is refused where its file has the time and the size of the one before.
func TestAWithdrawnTokenIsRefused(t *testing.T) {
	dir := t.TempDir()
	past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(token string) string {
		t.Helper()
		path := writeFile(t, dir, "tokens", token)
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile = "127.0.0.1:0", write(first)
	}))
	write(second)
	for token, want := range map[string]int{first: 401, second: 200} {
		res, err := from(t, "127.0.0.1").Do(withToken(t, "http://"+a.Auth+"/mux", token))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %s, want %d", token, res.Status, want)
		}
	}
}

func TestTLSAndItsReload(t *testing.T) {
	var log logged
	ca := newAuthority(t, "ca")
	dir := t.TempDir()
	cert, key := ca.issue(t, dir, "server", time.Hour)
	token := strings.Repeat("x", 32)
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.Log = "127.0.0.1:0", cert, key, log.log()
		cfg.TokenFile = writeFile(t, dir, "tokens", token)
	}))
	try := func() (serial string, err error) {
		client := tlsClient(&tls.Config{RootCAs: ca.pool()})
		res, err := client.Do(withToken(t, "https://"+a.Auth+"/mux/vms17-8/0", token))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		if res.StatusCode != 200 || res.ProtoMajor != 1 || res.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s %s, TLS %x", res.Proto, res.Status, res.TLS.Version)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.String(), nil
	}
	before, err := try()
	if err != nil {
		t.Fatal(err)
	}
	ca.issue(t, dir, "server", time.Hour)
	if after, err := try(); err != nil || after == before {
		t.Errorf("after a new certificate: %s, %v; it was %s", after, err, before)
	}
	good, _ := os.ReadFile(cert)
	writeFile(t, dir, "server.crt", "half a fi")
	if _, err := try(); err != nil {
		t.Errorf("with a broken file: %v, want the last certificate", err)
	}
	writeFile(t, dir, "server.crt", string(good))
	ca.issue(t, dir, "server", -time.Hour)
	if _, err := try(); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("with an expired certificate: %v", err)
	}
	for _, want := range []string{"files have changed and can't be used", "the certificate has expired or soon will"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log.String())
		}
	}
	if res, err := http.Get("http://" + a.Auth + "/healthz"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode != 400 {
			t.Errorf("HTTP to the TLS address: %s", res.Status)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	servers, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	dir := t.TempDir()
	cert, key := servers.issue(t, dir, "server", time.Hour)
	good, expired, foreign := clients.client(t, time.Hour), clients.client(t, -time.Hour), others.client(t, time.Hour)
	token := strings.Repeat("x", 32)
	start := func(tokenFile string) *agenttest.Agent {
		return agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
			cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey = "127.0.0.1:0", cert, key
			cfg.ClientCA, cfg.TokenFile = clients.file, tokenFile
		}))
	}
	try := func(a *agenttest.Agent, token string, certs ...tls.Certificate) int {
		t.Helper()
		client := tlsClient(&tls.Config{RootCAs: servers.pool(), Certificates: certs})
		res, err := client.Do(withToken(t, "https://"+a.Auth+"/healthz", token))
		if err != nil {
			if !strings.Contains(err.Error(), "tls: ") { // the server's alert, and no other trouble
				t.Errorf("unexpected: %v", err)
			}
			return 0
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	a := start("")
	for name, c := range map[string]struct {
		certs []tls.Certificate
		want  int
	}{
		"good": {[]tls.Certificate{good}, 200}, "none": {nil, 0},
		"expired": {[]tls.Certificate{expired}, 0}, "another authority's": {[]tls.Certificate{foreign}, 0},
	} {
		if got := try(a, "", c.certs...); got != c.want {
			t.Errorf("certificate %s: %d, want %d", name, got, c.want)
		}
	}

	both := start(writeFile(t, dir, "tokens", token))
	if without, with := try(both, "", good), try(both, token, good); without != 401 || with != 200 {
		t.Errorf("token and certificate: %d without the token, %d with both", without, with)
	}
	if got := try(both, token); got != 0 {
		t.Errorf("token without a certificate: %d", got)
	}

	// The authorities are read again when they have changed.
	text, err := os.ReadFile(others.file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Dir(clients.file), filepath.Base(clients.file), string(text))
	if old, changed := try(a, "", good), try(a, "", foreign); old != 0 || changed != 200 {
		t.Errorf("after the change: the old authority's client %d, the new one's %d", old, changed)
	}
}
