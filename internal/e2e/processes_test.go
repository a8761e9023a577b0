package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// hangLimit is how long a process may take before the test fails. It is generous: nothing waits for it.
const hangLimit = 2 * time.Minute

// lookTerraform finds the terraform or tofu to test with.
func lookTerraform(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("TF_ACC_TERRAFORM_PATH"), "terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const reason = "neither terraform nor tofu is on PATH"
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// build builds both binaries and returns their folder.
func build(t *testing.T) string {
	t.Helper()
	bin := shortTempDir(t)
	for name, pkg := range map[string]string{"terraform-provider-mux": ".", "mux-agent": "./agent/cmd/mux-agent"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), pkg)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return bin
}

// shortTempDir is a temporary folder with room for the path of a unix socket in it, which holds at most 107 bytes.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mux-e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// An agentProcess is a running mux-agent.
type agentProcess struct {
	t    *testing.T
	url  string
	cmd  *exec.Cmd
	done chan error // its exit
}

// startAgent starts the built agent on an Open vSwitch and returns when it is ready.
func startAgent(t *testing.T, bin, listen, runDir string) *agentProcess {
	t.Helper()
	// Not the test's context, which ends before the cleanups that end the agent.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "mux-agent"),
		"serve", "--listen", listen, "--vm-set", vmSet, "--ovs-rundir", runDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	a := &agentProcess{t: t, cmd: cmd, done: make(chan error, 1)}
	started, listening := make(chan error, 1), make(chan string, 1)
	go func() {
		// Pdeathsig is about the parent's thread, so that has to live as long as the agent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(listening)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "mux-agent: listening on "); ok {
				listening <- url
			}
		}
		a.done <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.stop()
		if t.Failed() {
			t.Logf("log of the agent on %s:\n%s", a.url, log.String())
		}
	})

	a.url = <-listening
	if a.url == "" {
		t.Fatal("the agent ended before it listened")
	}
	a.waitReady()
	return a
}

func (a *agentProcess) waitReady() {
	a.t.Helper()
	for deadline := time.Now().Add(hangLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		res, err := http.Get(a.url + api.PathReadyz)
		if err != nil {
			continue
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	a.t.Fatalf("the agent on %s did not become ready", a.url)
}

// address is where it listens, as --listen wants it.
func (a *agentProcess) address() string { return strings.TrimPrefix(a.url, "http://") }

// stop ends the agent as systemd does, and is an error unless it ends well.
func (a *agentProcess) stop() {
	a.t.Helper()
	if a.cmd == nil {
		return
	}
	// An error means that it has ended already, which its exit tells better.
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	a.cmd = nil
	select {
	case err := <-a.done:
		if err != nil {
			a.t.Errorf("the agent ended with %v", err)
		}
	case <-time.After(hangLimit):
		a.t.Error("the agent does not end")
	}
}

// post posts JSON to a path below the vm_set.
func (a *agentProcess) post(path, body string) {
	a.t.Helper()
	res, err := http.Post(a.url+api.VMSetPath(vmSet)+path, "application/json", strings.NewReader(body))
	a.answer(res, err)
}

// muxes gets the status of all ports.
func (a *agentProcess) muxes() api.Muxes {
	a.t.Helper()
	res, err := http.Get(a.url + api.VMSetPath(vmSet))
	var muxes api.Muxes
	if err := json.Unmarshal(a.answer(res, err), &muxes); err != nil {
		a.t.Fatal(err)
	}
	return muxes
}

func (a *agentProcess) answer(res *http.Response, err error) []byte {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		a.t.Fatalf("%s %s: %s: %s", res.Request.Method, res.Request.URL, res.Status, body)
	}
	return body
}

// A workspace is a folder with the quickstart's configuration, the built provider where Terraform finds it without a
// registry, and an environment without the user's own settings.
type workspace struct {
	t         *testing.T
	terraform string
	dir       string
	env       []string
}

func newWorkspace(t *testing.T, terraform, bin, endpoint string) *workspace {
	t.Helper()
	dir := shortTempDir(t)
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		mirror := filepath.Join(dir, "terraform.d", "plugins", host, "sonic-mux", "mux", "0.1.0", runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(mirror, 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.Symlink(filepath.Join(bin, "terraform-provider-mux"), filepath.Join(mirror, "terraform-provider-mux_v0.1.0"))
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile("../../examples/quickstart/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"main.tf": config, "terraform.rc": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	w := &workspace{t: t, terraform: terraform, dir: dir}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") && !strings.HasPrefix(variable, "MUX_") {
			w.env = append(w.env, variable)
		}
	}
	w.env = append(w.env, "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "terraform.rc"), "TF_CLI_ARGS=-no-color",
		"CHECKPOINT_DISABLE=1", "TMPDIR="+dir, "MUX_ENDPOINT="+endpoint, "MUX_VM_SET="+vmSet)
	return w
}

// run runs terraform, which must succeed.
func (w *workspace) run(args ...string) {
	w.t.Helper()
	if out, code := w.exec(args...); code != 0 {
		w.t.Fatalf("terraform %s ended with %d\n%s", args[0], code, out)
	}
}

// Exit codes of terraform plan -detailed-exitcode.
const (
	planEmpty   = 0
	planChanges = 2
)

// wantPlan plans and compares the exit code.
func (w *workspace) wantPlan(want int) {
	w.t.Helper()
	if out, code := w.exec("plan", "-input=false", "-detailed-exitcode", "-var=ports="+strconv.Itoa(numPorts)); code != want {
		w.t.Fatalf("terraform plan -detailed-exitcode ended with %d, want %d\n%s", code, want, out)
	}
}

func (w *workspace) exec(args ...string) (out []byte, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.terraform, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return out, cmd.ProcessState.ExitCode()
}
