package provider_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// terraformIn runs terraform in a folder, with the provider as processes of its own, one for each provider block, and returns
// what it said.
func terraformIn(t testing.TB, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), terraformPath(), append(args, "-no-color")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "TF_CLI_CONFIG_FILE="+overrides(t), "CHECKPOINT_DISABLE=1")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("terraform %s: %v", args[0], err)
	}
	return string(out)
}

// overrides writes a CLI configuration by which terraform takes this test's binary for the providers; see TestMain.
func overrides(t testing.TB) string {
	t.Helper()
	return overridesBy(t, must(os.Executable())(t))
}

// overridesBy is overrides with another binary.
func overridesBy(t testing.TB, binary string) string {
	t.Helper()
	dir := must(os.MkdirTemp("", "mux"))(t) // short, as in run
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"mux", "nothing"} {
		if err := os.Symlink(binary, filepath.Join(dir, "terraform-provider-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	config := `provider_installation {
  dev_overrides {
    "hashicorp/mux"  = ` + strconv.Quote(dir) + `
    "sonic-mux/mux" = ` + strconv.Quote(dir) + `
    "hashicorp/nothing" = ` + strconv.Quote(dir) + `
  }
  direct {}
}`
	file := filepath.Join(dir, "overrides.tfrc")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Each provider block has its own endpoint, vm_set and policy.
func TestManyAgentsByAlias(t *testing.T) {
	t.Parallel()
	needTerraform(t)
	a := agenttest.Start(t)
	b := agenttest.Start(t, agenttest.VMSet("vms21-1"))
	config := settings(a) + settings(b, `alias = "b"`) + port(0, onLower) + `
resource "mux_port" "q" {
  provider    = mux.b
  port_index  = 1
  active_side = "lower_tor"
}
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out := terraformIn(t, dir, nil, "apply", "-auto-approve")
	for _, err := range []error{agentHas(t, a, 0, "lower_tor", 1)(nil), agentHas(t, b, 1, "lower_tor", 1)(nil)} {
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
