package provider_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"
)

// A workspace is a folder where a person runs terraform, with the provider as a process of its own in each run.
type workspace struct {
	t   testing.TB
	dir string
	env []string
}

// newWorkspace makes a workspace with a configuration.
func newWorkspace(t testing.TB, config string) *workspace {
	t.Helper()
	return newWorkspaceBy(t, must(os.Executable())(t), config)
}

// newWorkspaceBy is newWorkspace with another binary of the provider.
func newWorkspaceBy(t testing.TB, binary, config string) *workspace {
	t.Helper()
	needTerraform(t)
	w := &workspace{t: t, dir: t.TempDir(), env: []string{"TF_CLI_CONFIG_FILE=" + overridesBy(t, binary), "CHECKPOINT_DISABLE=1"}}
	w.write(config)
	return w
}

// write replaces the configuration.
func (w *workspace) write(config string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run runs terraform and returns what it said and its exit code.
func (w *workspace) run(args ...string) (out string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), terraformPath(), append(args, "-no-color")...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), w.env...)
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		w.t.Fatal(err)
	}
	return overridden.ReplaceAllString(string(b), ""), code
}

// overridden is what terraform says of the way by which it finds the provider here.
var overridden = regexp.MustCompile(`(?s)╷?\n?│? ?Warning: Provider development overrides are in effect.*?releases\.\s*╵?\n?`)

// ok is run for what must end well.
func (w *workspace) ok(args ...string) string {
	w.t.Helper()
	out, code := w.run(args...)
	if code != 0 {
		w.t.Fatalf("terraform %s ended with %d:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// fails is run for what must not.
func (w *workspace) fails(args ...string) string {
	w.t.Helper()
	out, code := w.run(args...)
	if code != 1 {
		w.t.Fatalf("terraform %s ended with %d, want 1:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// apply applies the configuration and returns what was said.
func (w *workspace) apply(more ...string) string {
	w.t.Helper()
	return w.ok(append([]string{"apply", "-auto-approve"}, more...)...)
}

func (w *workspace) destroy(more ...string) string {
	w.t.Helper()
	return w.ok(append([]string{"destroy", "-auto-approve"}, more...)...)
}

// planned fails the test unless the plan is empty.
func (w *workspace) planned() string {
	w.t.Helper()
	return w.ok("plan", "-detailed-exitcode")
}

func terraformPath() string {
	if own := os.Getenv("TF_ACC_TERRAFORM_PATH"); own != "" {
		return own
	}
	return "terraform"
}

// A firstIn is the versions that first had something; "" has it not.
type firstIn struct{ terraform, tofu string }

// since is the table of versions in the provider's documentation; see TestTableOfVersions.
var since = struct{ test, removed, functions, identity, query firstIn }{
	test:      firstIn{"1.6.0", "1.6.0"},
	removed:   firstIn{"1.7.0", "1.7.0"},
	functions: firstIn{"1.8.0", "1.7.0"},
	identity:  firstIn{"1.12.0", "1.12.0"},
	query:     firstIn{"1.14.0", ""},
}

// has skips a test where terraform is older than the version that first had what the test needs.
func has(t testing.TB, what string, first firstIn) {
	t.Helper()
	needTerraform(t)
	out, err := exec.CommandContext(t.Context(), terraformPath(), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	name, rest, _ := strings.Cut(string(out), " v")
	least := first.terraform
	if name == "OpenTofu" {
		least = first.tofu
	}
	number, _, _ := strings.Cut(rest, "\n")
	if least == "" {
		t.Skipf("%s has no %s", name, what)
	}
	if v := version.Must(version.NewVersion(number)).Core(); v.LessThan(version.Must(version.NewVersion(least))) {
		t.Skipf("%s %s has no %s: it came with %s", name, number, what, least)
	}
}

// mustNotSay is the reverse of mustSay.
func mustNotSay(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(flat(got), part) {
			t.Errorf("%q is in what was said:\n%s", part, got)
		}
	}
}

// saysInWords is mustSay for what terraform has broken into lines.
func saysInWords(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(flat(got), part) {
			t.Errorf("%q is not in what was said:\n%s", part, got)
		}
	}
}

// flat joins the lines of a diagnostic.
func flat(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(s)), " ")
}
