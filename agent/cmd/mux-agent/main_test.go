package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mux-agent": main})
}

// The command line by scripts: what it prints, and its exit codes.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = taken.Close() })
			env.Setenv("TAKEN", taken.Addr().String())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"agent": agentCommand(t), "codes": exitCodeCommand},
	})
}

// agentCommand lets scripts run an agent, one for each script:
//
//	agent start PORTS [VM_SET]   and MUX_ENDPOINT names it
//	agent stop | resume
//	agent fail PORT WORDS        the switch refuses the port's next change
//	agent stray PORT INTERFACE…  a bridge for the port with these interfaces
//	agent flip PORT              by somebody else
func agentCommand(t *testing.T) func(*testscript.TestScript, bool, []string) {
	var mu sync.Mutex
	agents := map[string]*agenttest.Agent{} // by the script's folder
	return func(ts *testscript.TestScript, _ bool, args []string) {
		mu.Lock()
		a := agents[ts.Getenv("WORK")]
		mu.Unlock()
		number := func() int { // the first argument of all that have any
			n, err := strconv.Atoi(args[1])
			ts.Check(err)
			return n
		}
		switch args[0] {
		case "start":
			options := []agenttest.Option{agenttest.Ports(number())}
			if len(args) > 2 {
				options = append(options, agenttest.VMSet(args[2]))
			}
			a = agenttest.Start(t, options...)
			ts.Setenv("MUX_ENDPOINT", a.URL)
			mu.Lock()
			agents[ts.Getenv("WORK")] = a
			mu.Unlock()
		case "stop":
			a.Stop()
		case "resume":
			a.Resume()
		case "fail":
			a.FailNext(number(), args[2])
		case "stray":
			a.AddBridge(number(), args[2:]...)
		case "flip":
			a.Flip(number())
		default:
			ts.Fatalf("unknown command agent %s", args[0])
		}
	}
}

// exitCodeCommand runs a command and wants an exit code: codes 3 mux-agent wait 0 upper.
func exitCodeCommand(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, exit := 0, (*exec.ExitError)(nil)
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// hang is how long anything may take before the test fails.
const hang = 30 * time.Second

// startServe runs serve in process until the test ends and returns its URL.
func startServe(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	root := newRoot()
	root.SetArgs(args)
	out, in := io.Pipe()
	root.SetOut(in)
	root.SetErr(new(strings.Builder))
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx); _ = in.Close() }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("serve ended without an address")
	}
	url, ok := strings.CutPrefix(lines.Text(), "mux-agent: listening on ")
	if !ok {
		t.Fatalf("serve printed %q", lines.Text())
	}
	return url
}

func TestLogFileIsMadeAnewWhenRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mux_simulator_8080.log")
	url := startServe(t, "serve", "--driver", "simulated", "--vm-set", "vms6-1", "--listen", "127.0.0.1:0", "--log-file", path)
	log := func(message string) {
		t.Helper()
		var status int
		for deadline := time.Now().Add(hang); status != http.StatusOK && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			res, err := http.Post(url+"/mux/vms6-1/log", "application/json", strings.NewReader(`{"message":"`+message+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			status = res.StatusCode
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), message) {
			t.Errorf("the log has no %q: %v\n%s", message, err, text)
		}
	}
	log("before")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	log("after")
}

// A log that was moved away is made anew, and the agent goes on.
func TestHangupReloads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	startServe(t, "serve", "--driver", "simulated", "--vm-set", "vms6-1", "--listen", "127.0.0.1:0", "--log-file", path)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "reloaded") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log says %q, %v", text, err)
		}
	}
}

func TestLegacyArguments(t *testing.T) {
	for call, want := range map[string]string{
		"8080 vms6-1 -v": "serve --listen 0.0.0.0:8080 --log-file /tmp/mux_simulator_8080.log --vm-set vms6-1 --verbose --log-level debug",
		"8080 vms6-1":    "serve --listen 0.0.0.0:8080 --log-file /tmp/mux_simulator_8080.log --vm-set vms6-1",
		"serve 8080":     "serve 8080",
		"":               "",
	} {
		if got := strings.Join(legacyArgs(strings.Fields(call)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", call, got, want)
		}
	}
}
