package main

import (
	"errors"
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
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func TestMain(m *testing.M) {
	testscript.Main(agentproc.Main{M: m}, map[string]func(){"mux-agent": main})
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
			env.Setenv("GORACE", "atexit_sleep_ms=0") // with -race each command would end a second later
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"agent": agentCommand(t), "codes": exitCodeCommand, "width": widthCommand},
	})
}

// agentCommand lets scripts run an agent, one for each script:
//
//	agent start PORTS [VM_SET]   and MUX_ENDPOINT names it
//	agent stop | resume
//	agent fail PORT WORDS        the switch refuses the port's next change
//	agent stray PORT INTERFACE…  a bridge for the port with these interfaces
//	agent flip PORT              by somebody else
//	agent foreign PORT           a flow that is not a mux's
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
		case "foreign":
			a.AddForeignFlow(number())
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

// widthCommand wants no line of the last output to be longer: width 80.
func widthCommand(ts *testscript.TestScript, _ bool, args []string) {
	most, err := strconv.Atoi(args[0])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most {
			ts.Fatalf("%d columns: %s", n, line)
		}
	}
}

// startSimulated runs the built agent on the simulated switch.
func startSimulated(t *testing.T, args ...string) *agentproc.Agent {
	t.Helper()
	return agentproc.StartReady(t, agentproc.Config{VMSet: "vms6-1", Args: append([]string{"--driver", "simulated"}, args...)})
}

func TestLogFileIsMadeAnewWhenRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mux_simulator_8080.log")
	a := startSimulated(t, "--log-file", path)
	log := func(message string) {
		t.Helper()
		if code, text := a.Post("/mux/vms6-1/log", `{"message":"`+message+`"}`); code != http.StatusOK {
			t.Fatalf("%d: %s", code, text)
		}
		wait.For(t, message+" is in the log", func() bool {
			text, _ := os.ReadFile(path)
			return strings.Contains(string(text), message)
		})
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
	a := startSimulated(t, "--log-file", path)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.Signal(syscall.SIGHUP)
	wait.For(t, "a new log that says so", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "reloaded")
	})
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
