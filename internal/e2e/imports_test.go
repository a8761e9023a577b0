// Package e2e tests the whole: the built binaries, a real Open vSwitch and a real Terraform; and the rules about which
// package of this module may import what. It has no code but tests.
package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/sonic-mux/terraform-provider-mux"

// A listed package is what go list knows of one: its own imports, and everything that ends up in the same binary.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// An importRule keeps a package, or a family of packages, to the few of this module that may import it. A pattern names a
// package and, with a trailing "...", everything below it or beginning like it.
type importRule struct {
	imports string
	only    []string
}

// testHelpers are packages that only tests import. What they import is their own business.
func testHelpers() []string {
	return []string{
		"agent/agenttest", "agent/internal/switchtest", "internal/agentproc", "internal/cabletest", "internal/child", "internal/lack",
		"internal/ovstest", "internal/wait", "internal/e2e",
	}
}

func importRules() []importRule {
	return []importRule{
		{"github.com/digitalocean/go-openvswitch/...", []string{"agent/internal/vswitch/ofctl"}},
		{"os/exec", []string{"agent/internal/vswitch/ofctl"}},
		{"github.com/gorilla/mux", []string{"agent/internal/httpapi"}},
		{"github.com/hashicorp/go-retryablehttp", []string{"internal/client"}},
		{"github.com/prometheus/client_golang/...", []string{"agent", "agent/internal/metrics"}},
		// The schema dumper is no part of either binary: make generate runs it to ask the provider for its schema.
		{"github.com/hashicorp/terraform-plugin-...", []string{"", "provider", "internal/tools/schema"}},
		{module + "/provider", []string{"", "internal/tools/schema"}},
		// The agent's packages below agent/internal are out of the provider's reach by the language's own rule.
		{module + "/agent", []string{"agent/cmd/mux-agent"}},
		{module + "/agent/agenttest", nil},
		{module + "/agent/internal/switchtest", nil},
		{module + "/internal/agentproc", nil},
		{module + "/internal/cabletest", nil},
		{module + "/internal/child", nil},
		{module + "/internal/lack", nil},
		{module + "/internal/ovstest", nil},
		{module + "/internal/wait", nil},
	}
}

// standardOnly are the packages that import the standard library alone, and what each may import beside it.
func standardOnly() map[string][]string {
	return map[string][]string{"agent/internal/cable": {module + "/internal/api"}, "internal/api": nil}
}

func matches(pattern, path string) bool {
	prefix, family := strings.CutSuffix(pattern, "...")
	if !family {
		return path == pattern
	}
	return strings.HasPrefix(path, prefix) || path == strings.TrimSuffix(prefix, "/")
}

// broken returns one sentence for each import that breaks a rule of the house.
func broken(packages []listed) []string {
	standard := make(map[string]bool)
	for _, p := range packages {
		standard[p.ImportPath] = p.Standard
	}

	var found []string
	for _, p := range packages {
		inner, ours := strings.CutPrefix(p.ImportPath, module)
		inner = strings.TrimPrefix(inner, "/")
		if !ours || slices.Contains(testHelpers(), inner) {
			continue
		}
		for _, imported := range p.Imports {
			for _, rule := range importRules() {
				if matches(rule.imports, imported) && !slices.Contains(rule.only, inner) {
					found = append(found, p.ImportPath+" must not import "+imported)
				}
			}
			if beside, ok := standardOnly()[inner]; ok && !standard[imported] && !slices.Contains(beside, imported) {
				found = append(found, p.ImportPath+" must import the standard library alone, not "+imported)
			}
		}
		if inner != "" {
			continue
		}
		for _, dep := range p.Deps {
			if matches(module+"/agent/...", dep) {
				found = append(found, "the provider binary must not link "+dep)
			}
		}
	}
	return found
}

// TestImportRules holds the house in shape: who may import what. Test files are free.
func TestImportRules(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}

	var packages []listed
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
	if !slices.ContainsFunc(packages, func(p listed) bool { return p.ImportPath == module+"/internal/api" }) {
		t.Fatalf("go list found %d packages and internal/api is not among them", len(packages))
	}
	for _, sentence := range broken(packages) {
		t.Error(sentence)
	}
}

// TestImportRulesBite shows that each rule fails for a package that breaks it, whether or not what it names exists today.
func TestImportRulesBite(t *testing.T) {
	importing := func(inner string, imports ...string) listed {
		return listed{ImportPath: strings.TrimSuffix(module+"/"+inner, "/"), Imports: imports}
	}
	tests := map[string]struct {
		packages []listed
		want     []string
	}{
		"allowed": {
			packages: []listed{
				importing("", "github.com/hashicorp/terraform-plugin-framework/providerserver", module+"/provider"),
				importing("provider", "github.com/hashicorp/terraform-plugin-framework/resource"),
				importing("agent/internal/vswitch/ofctl", "github.com/digitalocean/go-openvswitch/ovs", "os/exec"),
				importing("agent/internal/httpapi", "github.com/gorilla/mux"),
				importing("internal/client", "github.com/hashicorp/go-retryablehttp"),
				importing("internal/ovstest", "os/exec"),
				importing("agent/cmd/mux-agent", module+"/agent"),
				{ImportPath: "strings", Standard: true},
				importing("internal/api", "strings"),
			},
		},
		"go-openvswitch": {
			packages: []listed{
				importing("agent/internal/engine", "github.com/digitalocean/go-openvswitch/ovs"),
				importing("agent/internal/vswitch", "github.com/digitalocean/go-openvswitch/ovsdb"),
			},
			want: []string{
				module + "/agent/internal/engine must not import github.com/digitalocean/go-openvswitch/ovs",
				module + "/agent/internal/vswitch must not import github.com/digitalocean/go-openvswitch/ovsdb",
			},
		},
		"processes": {
			packages: []listed{importing("agent/internal/vswitch/openflow", "os/exec")},
			want:     []string{module + "/agent/internal/vswitch/openflow must not import os/exec"},
		},
		"router": {
			packages: []listed{importing("agent", "github.com/gorilla/mux")},
			want:     []string{module + "/agent must not import github.com/gorilla/mux"},
		},
		"metrics": {
			packages: []listed{importing("agent/internal/engine", "github.com/prometheus/client_golang/prometheus")},
			want:     []string{module + "/agent/internal/engine must not import github.com/prometheus/client_golang/prometheus"},
		},
		"retries": {
			packages: []listed{importing("provider", "github.com/hashicorp/go-retryablehttp")},
			want:     []string{module + "/provider must not import github.com/hashicorp/go-retryablehttp"},
		},
		"terraform": {
			packages: []listed{importing("internal/client", "github.com/hashicorp/terraform-plugin-log/tflog")},
			want:     []string{module + "/internal/client must not import github.com/hashicorp/terraform-plugin-log/tflog"},
		},
		"provider": {
			packages: []listed{importing("agent/cmd/mux-agent", module+"/provider")},
			want:     []string{module + "/agent/cmd/mux-agent must not import " + module + "/provider"},
		},
		"test helper in a binary": {
			packages: []listed{importing("agent/cmd/mux-agent", module+"/agent/agenttest")},
			want:     []string{module + "/agent/cmd/mux-agent must not import " + module + "/agent/agenttest"},
		},
		"hang limit of tests in a binary": {
			packages: []listed{importing("internal/client", module+"/internal/wait")},
			want:     []string{module + "/internal/client must not import " + module + "/internal/wait"},
		},
		"standard library alone": {
			packages: []listed{importing("agent/internal/cable", "golang.org/x/sync/errgroup")},
			want: []string{
				module + "/agent/internal/cable must import the standard library alone, not golang.org/x/sync/errgroup",
			},
		},
		"agent linked into the provider": {
			packages: []listed{{ImportPath: module, Deps: []string{module + "/agent", module + "/agent/internal/cable"}}},
			want: []string{
				"the provider binary must not link " + module + "/agent",
				"the provider binary must not link " + module + "/agent/internal/cable",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, broken(test.packages)); diff != "" {
				t.Errorf("broken rules (-want +got):\n%s", diff)
			}
		})
	}
}
