package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// query writes a list block of mux_port and runs terraform query.
func (w *workspace) query(limit string) string {
	w.t.Helper()
	config := fmt.Sprintf("list \"mux_port\" \"all\" {\n  provider = mux\n  %s\n}\n", limit)
	if err := os.WriteFile(filepath.Join(w.dir, "all.tfquery.hcl"), []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return w.ok("query")
}

// Terraform reads 100 results unless the list block says otherwise, and says nothing of those that it does not read.
func TestQueryOfMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	has(t, "query", since.query)
	a := agenttest.Start(t, agenttest.Ports(117))
	w := newWorkspace(t, settings(a))
	for limit, listed := range map[string]int{"": 100, "limit = 5": 5, "limit = 200": 117} {
		out := w.query(limit)
		if got := strings.Count(out, "port_index="); got != listed {
			t.Errorf("%q lists %d ports, want %d:\n%s", limit, got, listed, out)
		}
		warning := "Not all ports of vms17-8 are listed"
		if listed < 117 {
			saysInWords(t, out, "Warning: "+warning, "There are 117", "Set limit = 117")
		} else {
			mustNotSay(t, out, warning)
		}
	}
}

// What a query finds, for both resources, is imported by the configuration that it writes, and nothing changes.
func TestQueryIsImported(t *testing.T) {
	t.Parallel()
	has(t, "query", since.query)
	for _, resource := range []string{"mux_port", "mux_ports"} {
		t.Run(resource, func(t *testing.T) {
			a := agenttest.Start(t, agenttest.Ports(3))
			a.Flip(1)
			w := newWorkspace(t, settings(a))
			list := fmt.Sprintf("list %q \"all\" {\n  provider = mux\n}\n", resource)
			if err := os.WriteFile(filepath.Join(w.dir, "all.tfquery.hcl"), []byte(list), 0o600); err != nil {
				t.Fatal(err)
			}
			w.ok("query", "-generate-config-out=found.tf")
			out := w.apply()
			saysInWords(t, out, "0 to add, 0 to change, 0 to destroy")
			w.planned()
			if got := flaps(t, a, 0, 1, 2); got != "port 0: 0, port 1: 1, port 2: 0" {
				t.Error(got)
			}
		})
	}
}

// Actions with a real terraform: invoked by hand, and triggered by a resource.
func TestActionsForReal(t *testing.T) {
	t.Parallel()
	has(t, "actions", since.query)
	a := agenttest.Start(t)
	w := newWorkspace(t, settings(a)+`
action "mux_toggle" "failover" {
  config {
    ports = [0, 1]
  }
}

action "mux_drop" "after" {
  config {
    ports = [5]
    sides = ["nic"]
  }
}

resource "terraform_data" "test" {
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.mux_drop.after]
    }
  }
}
`)
	saysInWords(t, w.apply("-invoke=action.mux_toggle.failover"), "Toggled ports 0-1 of vms17-8")
	w.apply()
	for _, err := range []error{
		agentHas(t, a, 0, "lower_tor", 1)(nil), agentHas(t, a, 1, "lower_tor", 1)(nil), agentHas(t, a, 5, "upper_tor", 0, "nic")(nil),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}
