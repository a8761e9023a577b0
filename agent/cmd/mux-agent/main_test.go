package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
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
	})
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
