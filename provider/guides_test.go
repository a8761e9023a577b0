package provider_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// guide returns the configurations of a guide.
func guide(t *testing.T, name string) []string {
	t.Helper()
	text := string(must(os.ReadFile(filepath.Join("templates", "guides", name)))(t))
	var all []string
	for _, part := range strings.Split(text, "```terraform\n")[1:] {
		config, _, _ := strings.Cut(part, "```")
		all = append(all, config)
	}
	return all
}

// watched is an agent of which all writes are counted.
func watched(t *testing.T, a *agenttest.Agent, handle func(http.ResponseWriter, *http.Request) bool) (endpoint string, writes *atomic.Int32) {
	t.Helper()
	writes = &atomic.Int32{}
	return before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		return handle(w, r)
	}), writes
}

func passOn(http.ResponseWriter, *http.Request) bool { return false }

// Both ways of the guide leave the switch as it is, and write nothing.
func TestGuideFromMuxPortToMuxPorts(t *testing.T) {
	const old = `
resource "mux_port" "server" {
  count       = 12
  port_index  = count.index
  active_side = count.index % 2 == 0 ? "upper_tor" : "lower_tor"
  on_destroy  = "restore"
}
`
	config := guide(t, "from-mux-port-to-mux-ports.md")[0]
	for name, tc := range map[string]struct {
		needs firstIn
		move  func(w *workspace, provider string)
	}{
		"removed block": {since.removed, func(w *workspace, provider string) {
			w.write(provider + config)
			saysInWords(w.t, w.apply(), "1 to import, 0 to add, 0 to change")
		}},
		"state rm": {firstIn{"1.0.0", "1.6.0"}, func(w *workspace, provider string) {
			_, resource, _ := strings.Cut(config, "resource ")
			w.write(provider + "resource " + resource)
			w.ok("state", "rm", "mux_port.server")
			w.ok("import", "mux_ports.all", "vms17-8")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			has(t, name, tc.needs)
			a := agenttest.Start(t)
			endpoint, writes := watched(t, a, passOn)
			w := newWorkspace(t, settingsFor(endpoint, a.VMSet)+old)
			w.apply()
			writes.Store(0)
			tc.move(w, settingsFor(endpoint, a.VMSet))
			w.planned()
			if n := writes.Load(); n != 0 {
				t.Errorf("%d writes, want none", n)
			}
			if got := strings.TrimSpace(w.ok("state", "list")); got != "mux_ports.all" {
				t.Errorf("the state holds %s", got)
			}
		})
	}
}

// The first step of the guide takes the ports over as they are: it plans imports and no changes.
func TestGuideFromMuxSimulator(t *testing.T) {
	t.Parallel()
	has(t, "import blocks with for_each", since.removed)
	a := agenttest.Start(t)
	a.Flip(3)
	endpoint, writes := watched(t, a, oldService)
	configs := guide(t, "from-mux-simulator.md")
	provider := strings.Replace(configs[0], "http://10.0.0.64:8080", endpoint, 1)
	w := newWorkspace(t, provider+configs[1])
	saysInWords(t, w.apply(), "12 to import, 0 to add, 0 to change")
	w.planned()
	if n := writes.Load(); n != 0 {
		t.Errorf("%d writes, want none", n)
	}
}

// The documentation says which version has what a test is skipped for in an older one.
func TestTableOfVersions(t *testing.T) {
	index := string(must(os.ReadFile("../docs/index.md"))(t))
	for what, first := range map[string]firstIn{
		"`terraform test`": since.test,
		"`removed` blocks, import blocks with `for_each`": since.removed,
		"functions":          since.functions,
		"import by identity": since.identity,
		"`terraform query` with list resources, actions": since.query,
	} {
		row := fmt.Sprintf("| %s | %s |", what, strings.TrimSuffix(first.terraform, ".0"))
		if first.tofu != "" {
			row += " " + strings.TrimSuffix(first.tofu, ".0")
		}
		if !strings.Contains(index, row+" |") {
			t.Errorf("docs/index.md does not say %q", row+" |")
		}
	}
}
