package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Every form of import leads to an empty plan, whatever the configuration says of drops, as long as it is true.
func TestImport(t *testing.T) {
	for name, tc := range map[string]struct {
		id      string   // %s is the agent's URL
		dropped []string // on the switch
		lines   []string
		alone   bool // no provider block
	}{
		"id":                                 {id: "vms17-8/3"},
		"id, nothing dropped":                {id: "vms17-8/3", lines: []string{`dropped = []`}},
		"id, drops not managed":              {id: "vms17-8/3", dropped: []string{api.NIC}},
		"id, drops managed":                  {id: "vms17-8/3", dropped: []string{api.NIC, api.LowerToR}, lines: []string{`dropped = ["lower_tor", "nic"]`}},
		"URL of the provider's agent":        {id: "%s/mux/vms17-8/3"},
		"URL of an agent that only this has": {id: "%s/mux/vms17-8/3", lines: []string{`endpoint = "%s"`, `vm_set = "vms17-8"`}, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			a.Flip(3)
			if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, tc.dropped...); err != nil {
				t.Fatal(err)
			}
			url := func(s string) string { return strings.ReplaceAll(s, "%s", a.URL) }
			config := url(port(3, append(tc.lines, onLower)...))
			if !tc.alone {
				config = settings(a) + config
			}
			apply(t, resource.TestCase{Steps: []resource.TestStep{{
				Config: config, ResourceName: "mux_port.p", ImportState: true, ImportStateId: url(tc.id), ImportStatePersist: true,
			}, {
				Config: config, ConfigPlanChecks: planIsEmpty(),
				Check: agentHas(t, a, 3, "lower_tor", 1, tc.dropped...),
			}, { // drops that are not managed stay so
				PreConfig: func() { a.Flip(3) }, Config: config,
				Check: agentHas(t, a, 3, "lower_tor", 3, tc.dropped...),
			}}})
		})
	}
}

func TestImportedDropsBecomeManagedAndUnmanaged(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onUpper), ResourceName: "mux_port.p", ImportState: true, ImportStateId: "vms17-8/3", ImportStatePersist: true,
	}, {
		Config: settings(a) + port(3, onUpper, `dropped = ["nic"]`),
		Check:  agentHas(t, a, 3, "upper_tor", 0, "nic"),
	}, {
		Config: settings(a) + port(3, onUpper),
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 3, "upper_tor", 0, "nic"),
			resource.TestCheckNoResourceAttr("mux_port.p", "dropped.#"),
		),
	}}})
}

func TestImportBlock(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onLower),
	}, {
		ResourceName: "mux_port.p", ImportState: true, ImportStateId: "vms17-8/3", ImportStateKind: resource.ImportBlockWithID,
	}, {
		ResourceName: "mux_port.p", ImportState: true, ImportStateId: "vms17-8/3", ImportStateVerify: true,
		ImportStateVerifyIdentifierAttribute: "port_index", ImportStateVerifyIgnore: []string{"original"}, // which an import can't know
	}}})
}

func TestImportErrors(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.use(a)
	for id, says := range map[string]string{
		"3":                            `write <vm_set>/<port_index>, such as "vms17-8/3"`,
		"vms17-8":                      "names no port",
		"vms17-8/-1":                   "names no port",
		"vms17-8/x":                    "names no port",
		"vms17-8/3/drop":               "names no port",
		"/3":                           "names no port",
		"http://10.0.0.64:8080/3":      "names no port",
		"http://mux/mux/vms1-1":        "names no port",
		"http://h/mux/vms1-1/3?x=1":    "names no port",
		"ftp://10.0.0.64/mux/vms1-1/3": "the scheme must be http or https",
	} {
		t.Run(id, func(t *testing.T) {
			resp := must(p.server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: "mux_port", ID: id}))(t)
			mustSay(t, said(resp.Diagnostics), "ERROR: Bad import id", says)
		})
	}
}

func TestImportOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	step := func(id, says string) resource.TestStep {
		return resource.TestStep{
			Config: settings(a) + port(3, onUpper), ResourceName: "mux_port.p",
			ImportState: true, ImportStateId: id, ExpectError: words(says),
		}
	}
	apply(t, resource.TestCase{Steps: []resource.TestStep{
		step("vms17-8/99", "No such port"),
		step("vms99-1/3", "The agent serves another vm_set"),
	}})
}

func TestManyImportsByBlocks(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(2))
	var blocks string
	for i := range 2 {
		blocks += fmt.Sprintf("import {\n  to = mux_port.all[%d]\n  id = \"%s/mux/vms17-8/%d\"\n}\n", i, a.URL, i)
	}
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + blocks + `
resource "mux_port" "all" {
  count       = 2
  port_index  = count.index
  active_side = "upper_tor"
}`,
		Check: resource.TestCheckResourceAttr("mux_port.all.1", "active_side", "upper_tor"),
	}}})
}

func TestImportBlockByIdentity(t *testing.T) {
	t.Parallel()
	has(t, "import by identity", since.identity)
	a := agenttest.Start(t)
	a.Flip(3)
	w := newWorkspace(t, settings(a)+`
import {
  to       = mux_port.p
  identity = { vm_set = "vms17-8", port_index = 3 }
}
import {
  to       = mux_ports.p
  identity = { vm_set = "vms17-8" }
}
`+port(3, onLower)+`
resource "mux_ports" "p" {
  ports = { for i in range(12) : i => { active_side = i == 3 ? "lower_tor" : "upper_tor" } }
}
`)
	saysInWords(t, w.apply(), "2 to import, 0 to add, 0 to change")
}
