package agent_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// Every route asks for the role that the table names, and for no other.
func TestRolesOfEveryRoute(t *testing.T) {
	tokens := map[string]api.Roles{
		"read": api.RoleRead, "switch": api.RoleRead | api.RoleSwitch, "fault": api.RoleRead | api.RoleFault, "wire": api.RoleWire, "": api.DefaultRoles,
	}
	secret := func(roles string) string { return fmt.Sprintf("%-16s", roles+"x") + "end" }
	var lines strings.Builder
	for roles := range tokens {
		if roles != "" {
			fmt.Fprintf(&lines, "by-%s:%s:", roles, roles)
		}
		fmt.Fprintln(&lines, strings.ReplaceAll(secret(roles), " ", "."))
	}
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile = "127.0.0.1:0", writeFile(t, t.TempDir(), "tokens", lines.String())
	}))
	paths := strings.NewReplacer("{vm_set}", "vms17-8", "{port}", "0", "{action}", "drop", "{asset}", "page.js")
	for _, route := range api.RouteRoles() {
		for roles, has := range tokens {
			req, err := http.NewRequest(route.Method, "http://"+a.Auth+paths.Replace(route.Path), strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+strings.ReplaceAll(secret(roles), " ", "."))
			req.Header.Set("Content-Type", "application/json")
			res, err := from(t, "127.0.0.1").Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if refused := res.StatusCode == http.StatusForbidden; res.StatusCode == http.StatusUnauthorized || refused == has.Has(route.Role) {
				t.Errorf("%s %s with the roles %q: %s; it asks for %q", route.Method, route.Path, has, res.Status, route.Role)
			}
		}
	}
}

// The name of a token, or of a certificate, is in the history.
func TestHistoryNamesWhoAsked(t *testing.T) {
	servers, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	dir := t.TempDir()
	cert, key := servers.issue(t, dir, "server", time.Hour)
	var log logged
	secret := strings.Repeat("s", 32)
	post := func(client *http.Client, url, token string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, url+"/mux/vms17-8/0", strings.NewReader(`{"active_side":"toggle"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	last := func(a *agenttest.Agent) api.Event {
		t.Helper()
		events := history(t, a.URL+"/mux/vms17-8/0/history")
		return events[len(events)-1]
	}

	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile, cfg.Log = "127.0.0.1:0", writeFile(t, dir, "tokens", "alice:switch:"+secret+"\n"), log.log()
	}))
	if res := post(from(t, "127.0.0.1"), "http://"+a.Auth, secret); res.StatusCode != 200 || last(a).By != "alice" {
		t.Errorf("by a token: %s, %+v", res.Status, last(a))
	}
	if res := post(from(t, "127.0.0.1"), a.URL, ""); res.StatusCode != 200 || last(a).By != "" {
		t.Errorf("by nobody: %s, %+v", res.Status, last(a))
	}
	wait.For(t, "a line of the log that names alice", func() bool { return strings.Contains(log.String(), "by=alice") })

	// A certificate has the roles of its line, else those of a token without a name.
	mine := clients.client(t, time.Hour)
	for lines, want := range map[string]int{"cn:client:read\n": 403, "cn:client:switch\n": 200, "cn:other:read\n": 200} {
		a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
			cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.ClientCA = "127.0.0.1:0", cert, key, clients.file
			cfg.TokenFile = writeFile(t, t.TempDir(), "tokens", lines)
		}))
		client := tlsClient(&tls.Config{RootCAs: servers.pool(), Certificates: []tls.Certificate{mine}})
		if res := post(client, "https://"+a.Auth, ""); res.StatusCode != want {
			t.Errorf("with the line %q: %s, want %d", lines, res.Status, want)
		}
		if ev := last(a); (want == 200) != (ev.By == "client") {
			t.Errorf("with the line %q: %+v", lines, ev)
		}
	}
}

// An open connection outlives neither its authority nor a token.
func TestAnOpenConnectionIsJudgedAnew(t *testing.T) {
	servers, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	cert, key := servers.issue(t, t.TempDir(), "server", time.Hour)
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.ClientCA = "127.0.0.1:0", cert, key, clients.file
	}))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: servers.pool(), Certificates: []tls.Certificate{clients.client(t, time.Hour)},
	}}}
	defer client.CloseIdleConnections()
	for _, want := range []int{200, 401} {
		res, err := client.Get("https://" + a.Auth + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 100))
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s, want %d", res.Status, want)
		}
		swap(t, others.file, clients.file)
	}
}

// What a line says of a certificate's name holds for the whole name, however long it is.
func TestRolesOfALongName(t *testing.T) {
	servers, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	cert, key := servers.issue(t, t.TempDir(), "server", time.Hour)
	long := strings.Repeat("ü", 40) // 80 bytes
	for name, want := range map[string]int{long: 403, strings.Repeat("a", 60): 403, strings.Repeat("a", 64) + "b": 200} {
		a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
			cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.ClientCA = "127.0.0.1:0", cert, key, clients.file
			cfg.TokenFile = writeFile(t, t.TempDir(), "tokens", "cn:"+long+":read\ncn:"+strings.Repeat("a", 60)+":read\ncn:"+strings.Repeat("a", 64)+":read\n")
		}))
		pair, err := tls.LoadX509KeyPair(clients.issueTo(t, t.TempDir(), "client", name, time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		client := tlsClient(&tls.Config{RootCAs: servers.pool(), Certificates: []tls.Certificate{pair}})
		res, err := client.Post("https://"+a.Auth+"/mux/vms17-8/0/reset", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %s, want %d", name, res.Status, want)
		}
	}
}

// A token that is added to a file which had only roles of certificates is asked for from then on.
func TestATokenThatIsAddedIsAskedFor(t *testing.T) {
	servers, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	cert, key := servers.issue(t, t.TempDir(), "server", time.Hour)
	dir, token := t.TempDir(), strings.Repeat("s", 32)
	a := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TLSCert, cfg.TLSKey, cfg.ClientCA = "127.0.0.1:0", cert, key, clients.file
		cfg.TokenFile = writeFile(t, dir, "tokens", "cn:client:read\n")
	}))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: servers.pool(), Certificates: []tls.Certificate{clients.client(t, time.Hour)},
	}}}
	defer client.CloseIdleConnections()
	ask := func(token string) (status int, said string) {
		t.Helper()
		res, err := client.Do(withToken(t, "https://"+a.Auth+"/mux/vms17-8/0", token))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if status, said := ask(""); status != 200 {
		t.Errorf("without tokens in the file: %d %s", status, said)
	}
	writeFile(t, dir, "tokens", "cn:client:read\n"+token+"\n")
	if status, said := ask(""); status != 401 || !strings.Contains(said, "wants a token") {
		t.Errorf("with a token in the file, and none sent: %d %s", status, said)
	}
	if status, said := ask(token); status != 200 {
		t.Errorf("with the token: %d %s", status, said)
	}
	swap(t, others.file, clients.file)
	if status, said := ask(token); status != 401 || !strings.Contains(said, "the client certificate is no longer trusted") {
		t.Errorf("with another authority: %d %s", status, said)
	}
}

// swap writes what one file says into another.
func swap(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Dir(to), filepath.Base(to), string(text))
}
