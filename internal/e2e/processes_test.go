package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
)

func TestMain(m *testing.M) { os.Exit(agentproc.Main{M: m}.Run()) }

// lookTerraform finds the terraform or tofu to test with.
func lookTerraform(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("TF_ACC_TERRAFORM_PATH"), "terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	lack.Of(t, "neither terraform nor tofu is on PATH")
	return ""
}

// buildProvider builds the provider and returns its folder.
func buildProvider(t *testing.T) string {
	t.Helper()
	bin := shortTempDir(t)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "terraform-provider-mux"), ".")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, out)
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
		mirror := filepath.Join(dir, "terraform.d", "plugins", host, "sonic-mux", "mux", "0.2.0", runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(mirror, 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.Symlink(filepath.Join(bin, "terraform-provider-mux"), filepath.Join(mirror, "terraform-provider-mux_v0.2.0"))
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
