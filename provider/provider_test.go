package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	fwprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/provider"
)

func TestMain(m *testing.M) {
	if os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "" { // terraform has started this binary as the provider
		name, build := "sonic-mux/mux", provider.New("test")
		if filepath.Base(os.Args[0]) == "terraform-provider-nothing" {
			name, build = "hashicorp/nothing", func() fwprovider.Provider { return nothing{} }
		}
		err := providerserver.Serve(context.Background(), build, providerserver.ServeOpts{Address: "registry.terraform.io/" + name})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

// envTestDir names a folder for what all tests of a run share.
const envTestDir = "MUX_TEST_DIR"

// run keeps a person's own settings out of the tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mux") // short: terraform's sockets live below it
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	empty := filepath.Join(dir, "empty.tfrc")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = os.Setenv("TF_CLI_CONFIG_FILE", empty)
	_ = os.Setenv(envTestDir, dir)
	for _, name := range []string{"MUX_ENDPOINT", "MUX_VM_SET", "MUX_TOKEN"} {
		_ = os.Unsetenv(name)
	}
	return agentproc.Main{M: m}.Run()
}

// needTerraform skips a test where there is no terraform, which is a failure in CI.
func needTerraform(t testing.TB) {
	t.Helper()
	if os.Getenv("TF_ACC_TERRAFORM_PATH") != "" {
		return
	}
	if _, err := exec.LookPath("terraform"); err == nil {
		return
	}
	lack.Of(t, "terraform is not on PATH")
}

// apply runs the steps with terraform and the provider in process.
func apply(t *testing.T, c resource.TestCase) {
	t.Helper()
	needTerraform(t)
	c.ProtoV6ProviderFactories = map[string]func() (tfprotov6.ProviderServer, error){
		"mux": providerserver.NewProtocol6WithError(provider.New("test")()),
	}
	resource.UnitTest(t, c)
}

// applyFrom is apply for what older versions of terraform cannot do; it is tested over the protocol as well.
func applyFrom(t *testing.T, version tfversion.TerraformVersionCheck, c resource.TestCase) {
	t.Helper()
	c.TerraformVersionChecks = []tfversion.TerraformVersionCheck{version}
	apply(t, c)
}

// settings is a provider block for an agent, with waits short enough for tests.
func settings(a *agenttest.Agent, more ...string) string { return settingsFor(a.URL, a.VMSet, more...) }

func settingsFor(endpoint, vmSet string, more ...string) string {
	return fmt.Sprintf(`
provider "mux" {
  endpoint = %q
  vm_set   = %q
  retry    = { max_elapsed = "5s", min_delay = "5ms", max_delay = "20ms" }
  %s
}
`, endpoint, vmSet, strings.Join(more, "\n  "))
}

// impatient shortens the budget in settings where it is to be spent.
func impatient(settings string) string { return strings.Replace(settings, `"5s"`, `"1s"`, 1) }

// port is a mux_port.p with the given lines.
func port(index int, lines ...string) string {
	return fmt.Sprintf("resource \"mux_port\" \"p\" {\n  port_index = %d\n  %s\n}\n", index, strings.Join(lines, "\n  "))
}

const (
	onUpper = `active_side = "upper_tor"`
	onLower = `active_side = "lower_tor"`
)

// dial returns a client that looks at an agent from outside.
func dial(t *testing.T, a *agenttest.Agent) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Endpoint: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// look reads a port of the agent.
func look(t *testing.T, a *agenttest.Agent, index int) api.Status {
	t.Helper()
	s, err := dial(t, a).Status(t.Context(), a.VMSet, index)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agentHas checks the side of a port, its flap counter, and that just the given sides are dropped, by the packets.
func agentHas(t *testing.T, a *agenttest.Agent, index int, side string, flaps int, dropped ...string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		s := look(t, a, index)
		if s.ActiveSide != side || s.FlapCounter != flaps {
			return fmt.Errorf("port %d is on %s after %d flaps, want %s after %d", index, s.ActiveSide, s.FlapCounter, side, flaps)
		}
		m := cabletest.Mux{Bridge: s.Bridge, NIC: s.Ports.NIC, Upper: s.Ports.UpperToR, Lower: s.Ports.LowerToR}
		sw := cabletest.Switch(func(_, from string) []string { return a.Inject(index, from) })
		if astray := sw.Astray(m, side, dropped...); astray != "" {
			return fmt.Errorf("port %d: %s", index, astray)
		}
		return nil
	}
}

func planIs(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction("mux_port.p", action)}}
}

func planIsEmpty() resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
}

// words matches words in a diagnostic, wherever terraform wraps its lines.
func words(s string) *regexp.Regexp {
	parts := strings.Fields(s)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(strings.Join(parts, `[\s│]+`))
}

// before puts a handler before an agent. It answers a request itself by returning true.
func before(t testing.TB, a *agenttest.Agent, handle func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// oldService hides from a client what mux_simulator.py does not have.
func oldService(w http.ResponseWriter, r *http.Request) bool {
	var status int
	var said string
	switch {
	case r.Method == http.MethodPatch:
		status, said = 405, "<MethodNotAllowed '405: Method Not Allowed'> 405 Method Not Allowed: The method is not allowed for the requested URL."
	case r.URL.Path == api.PathOverview:
		status, said = 404, "<NotFound '404: Not Found'> 404 Not Found: The requested URL was not found on the server."
	default:
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Error{ErrMsg: said})
	return true
}

func writeJSON(t *testing.T, w http.ResponseWriter, v any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

// regexpOf matches parts of a diagnostic in their order.
func regexpOf(parts ...string) *regexp.Regexp {
	return regexp.MustCompile("(?s)" + strings.Join(parts, ".*"))
}

// planHook runs something between the plan and the apply of a step.
type planHook func()

func (h planHook) CheckPlan(context.Context, plancheck.CheckPlanRequest, *plancheck.CheckPlanResponse) {
	h()
}
