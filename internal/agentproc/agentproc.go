// Package agentproc runs the built mux-agent as a process of its own, for tests and benchmarks that are about a process:
// its flags, its signals, its end, its time. For all other tests agenttest is quicker. Only tests import it.
//
// A package that uses it has its tests run by Main:
//
//	func TestMain(m *testing.M) { os.Exit(agentproc.Main{M: m}.Run()) }
package agentproc

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/child"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// Main runs the tests of a package, and removes afterwards what this package built for them.
type Main struct{ M interface{ Run() int } }

// dir is the folder of the built agent, "" outside Main.Run. It is written before the tests and after them.
var dir string

// Run runs the tests and returns their exit code.
func (m Main) Run() int {
	made, err := os.MkdirTemp("/tmp", "mux-agent")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(made) }()
	if err := os.Chmod(made, 0o755); err != nil { // tests run the agent as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir = made
	defer func() { dir = "" }()
	return m.M.Run()
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(dir, "mux-agent")
	out, err := exec.Command("go", "build", "-o", path, "github.com/sonic-mux/terraform-provider-mux/agent/cmd/mux-agent").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return path, nil
})

// Binary builds the agent, once for all tests of a package, and returns its path.
func Binary(tb testing.TB) string {
	tb.Helper()
	if dir == "" {
		tb.Fatal("TestMain does not run the tests by agentproc.Main")
	}
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// A Config says how an agent is started.
type Config struct {
	VMSet  string
	RunDir string   // of Open vSwitch; "" leaves the flag out
	Listen string   // 127.0.0.1:0 when empty
	Args   []string // further arguments of mux-agent serve
	User   uint32   // who runs it; 0 is whoever runs the test
	Stderr *os.File // its standard error; nil keeps it for Log
}

// An Agent is a running agent. Its methods fail the test when something goes wrong.
type Agent struct {
	URL   string // such as http://127.0.0.1:43215
	VMSet string

	tb     testing.TB
	proc   *child.Process
	out    *child.Output // what it printed
	log    *child.Output
	ended  bool // by the test
	client http.Client
}

// Start starts an agent and returns when it listens. It is stopped when the test ends; if the test failed, its log is shown.
func Start(tb testing.TB, cfg Config) *Agent {
	tb.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	args := []string{"serve", "--listen", cfg.Listen, "--vm-set", cfg.VMSet}
	if cfg.RunDir != "" {
		args = append(args, "--ovs-rundir", cfg.RunDir)
	}
	cmd := exec.Command(Binary(tb), append(args, cfg.Args...)...)
	if cfg.User != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: cfg.User, Gid: cfg.User}}
	}
	a := &Agent{VMSet: cfg.VMSet, tb: tb, out: &child.Output{}, log: &child.Output{}}
	cmd.Stdout, cmd.Stderr = a.out, a.log
	if cfg.Stderr != nil {
		cmd.Stderr = cfg.Stderr
	}
	// Connections of one agent are no other's, and are closed with it.
	a.client = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: wait.Limit}

	var err error
	if a.proc, err = child.Start(cmd); err != nil {
		tb.Fatalf("start the agent: %v", err)
	}
	tb.Cleanup(func() {
		_ = a.proc.Signal(syscall.SIGCONT)
		a.Stop()
		if tb.Failed() {
			tb.Logf("log of the agent on %s, which ended with %v:\n%s", a.URL, a.proc.Err(), a.Log())
		}
	})
	wait.For(tb, "the agent says where it listens", func() bool {
		line, _, whole := strings.Cut(a.out.String(), "\n")
		if !whole && !a.proc.Running() {
			tb.Fatalf("the agent ended with %v and said %q", a.proc.Err(), line)
		}
		url, says := strings.CutPrefix(line, "mux-agent: listening on ")
		if whole && !says {
			tb.Fatalf("the agent printed %q", line)
		}
		a.URL = url
		return whole
	})
	return a
}

// StartReady is Start, and returns when the agent is ready.
func StartReady(tb testing.TB, cfg Config) *Agent {
	tb.Helper()
	a := Start(tb, cfg)
	a.WaitReady()
	return a
}

// WaitReady returns when the agent is ready.
func (a *Agent) WaitReady() {
	a.tb.Helper()
	wait.For(a.tb, "the agent is ready", func() bool {
		if !a.proc.Running() {
			a.tb.Fatalf("the agent ended with %v", a.proc.Err())
		}
		code, _ := a.Get(api.PathReadyz)
		return code == http.StatusOK
	})
}

// Address is where the agent listens, as --listen wants it.
func (a *Agent) Address() string { return strings.TrimPrefix(a.URL, "http://") }

// PID returns the agent's process id.
func (a *Agent) PID() int { return a.proc.PID() }

// Log returns what the agent has written to standard error.
func (a *Agent) Log() string { return a.log.String() }

// Signal sends the agent a signal.
func (a *Agent) Signal(sig os.Signal) {
	a.tb.Helper()
	if err := a.proc.Signal(sig); err != nil {
		a.tb.Errorf("%v to the agent: %v", sig, err)
	}
}

// Stop ends the agent as systemd does, and waits for it. It must end well, and not by itself. After Stop or Kill it does
// nothing.
func (a *Agent) Stop() {
	a.tb.Helper()
	a.client.CloseIdleConnections()
	if a.ended {
		return
	}
	a.ended = true
	if !a.proc.Running() {
		a.tb.Errorf("the agent ended by itself, with %v", a.proc.Err())
		return
	}
	// An error means that it ends by itself, which its exit tells better.
	_ = a.proc.Signal(syscall.SIGTERM)
	// One that hangs shows in its log where.
	late := time.AfterFunc(wait.Limit, func() { _ = a.proc.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	if err := a.proc.Err(); err != nil {
		a.tb.Errorf("the agent ended with %v", err)
	}
}

// Kill ends the agent as a crash does, and waits for it.
func (a *Agent) Kill() {
	a.tb.Helper()
	a.client.CloseIdleConnections()
	a.ended = true
	a.Signal(syscall.SIGKILL)
	_ = a.proc.Err()
}

// Get returns the status code and the text of a path.
func (a *Agent) Get(path string) (code int, text string) {
	a.tb.Helper()
	res, err := a.client.Get(a.URL + path)
	return a.answer(res, err)
}

// Post posts JSON to a path, and returns the status code and the text of the answer.
func (a *Agent) Post(path, body string) (code int, text string) {
	a.tb.Helper()
	res, err := a.client.Post(a.URL+path, "application/json", strings.NewReader(body))
	return a.answer(res, err)
}

func (a *Agent) answer(res *http.Response, err error) (code int, text string) {
	a.tb.Helper()
	if err != nil {
		a.tb.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		a.tb.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// Status returns the status of a port.
func (a *Agent) Status(port int) api.Status {
	a.tb.Helper()
	var s api.Status
	a.must(api.PortPath(a.VMSet, port), "", &s)
	return s
}

// Statuses returns the status of every port, by bridge.
func (a *Agent) Statuses() api.Muxes {
	a.tb.Helper()
	var all api.Muxes
	a.must(api.VMSetPath(a.VMSet), "", &all)
	return all
}

// Toggle toggles a port, and returns what it is then.
func (a *Agent) Toggle(port int) api.Status {
	a.tb.Helper()
	var s api.Status
	a.must(api.PortPath(a.VMSet, port), toggle, &s)
	return s
}

// ToggleAll toggles all ports in one call.
func (a *Agent) ToggleAll() {
	a.tb.Helper()
	a.must(api.VMSetPath(a.VMSet), toggle, nil)
}

const toggle = `{"active_side":"toggle"}`

// must gets a path, or posts a body to it, wants 200, and decodes the answer.
func (a *Agent) must(path, body string, into any) {
	a.tb.Helper()
	do := func() (int, string) { return a.Get(path) }
	if body != "" {
		do = func() (int, string) { return a.Post(path, body) }
	}
	code, text := do()
	if code != http.StatusOK {
		a.tb.Fatalf("%s: %d: %s", path, code, text)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		a.tb.Fatalf("%s: %v: %s", path, err, text)
	}
}
