package httpapi_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A faulty switch fails in a way that no switch does.
type faulty struct{ engine.Switch }

func (faulty) Apply(updates []cable.Update, done func(int, error)) {
	go func() {
		for i := range updates {
			done(i, errors.New("no switch says that"))
		}
	}()
}

// Every error code is given by some request, with its status, and is in openapi.yaml and in the documentation; and there
// are no others anywhere.
func TestEveryErrorCode(t *testing.T) {
	got := map[string]int{}
	ask := func(url, request string, header ...string) {
		t.Helper()
		words := strings.SplitN(request, " ", 3)
		answer := call(t, words[0], url+words[1], strings.Join(words[2:], ""), header...)
		got[answer.header.Get(api.ErrorCodeHeader)] = answer.status
	}

	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, agenttest.Ports(3), agenttest.Config(func(cfg *agent.Config) {
		cfg.ListenAuth, cfg.TokenFile = "127.0.0.1:0", tokens
	}))
	a.AddBridge(3, "muxy-vms17-8-3")
	const toggle = `{"active_side":"toggle"}`
	ask("http://"+a.Auth, "GET /mux")
	ask(a.URL, "GET /mux", "Origin: http://evil.example")
	ask(a.URL, "GET /mux/nope")
	ask(a.URL, "GET /mux/vms17-8/7")
	ask(a.URL, "GET /mux/vms17-8/3")
	ask(a.URL, "GET /nope")
	ask(a.URL, "DELETE /mux")
	ask(a.URL, "POST /mux/vms17-8/0 {}")
	ask(a.URL, "POST /mux/vms17-8/0 "+toggle, "Content-Type: text/plain")
	ask(a.URL, "POST /mux/vms17-8/0 "+strings.Repeat("x", 70_000))
	ask(a.URL, "GET /mux/vms17-8/0?active_side=lower_tor&wait=0s")
	call(t, "POST", a.URL+"/mux/vms17-8/0?reqId=a", toggle)
	ask(a.URL, "POST /mux/vms17-8/1?reqId=a "+toggle)
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	ask(a.URL, "POST /mux/vms17-8/1 "+toggle)
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	ask(a.URL, "POST /mux/vms17-8 "+toggle)
	resume := a.Stall()
	ask(a.URL, "POST /mux/vms17-8/0 "+toggle)
	a.Stop()
	a.ResumeUnready()
	ask(a.URL, "GET /mux/vms17-8/0")
	resume()
	broken := agenttest.Start(t, agenttest.Ports(1), agenttest.Config(func(cfg *agent.Config) {
		whole := cfg.NewSwitch
		cfg.NewSwitch = func(names *cable.Names) (engine.Switch, func(), error) {
			sw, closeSwitch, err := whole(names)
			return faulty{sw}, closeSwitch, err
		}
	}))
	ask(broken.URL, "POST /mux/vms17-8/0 "+toggle)

	want := map[string]int{
		api.CodeUnauthorized: 401, api.CodeForbidden: 403, api.CodeUnknownVMSet: 404, api.CodeUnknownPort: 404, api.CodeRejectedMux: 404,
		api.CodeNotFound: 404, api.CodeMethodNotAllowed: 405, api.CodeBadRequest: 400, api.CodeMediaType: 415, api.CodeConflict: 409,
		api.CodeNotReached: 412, api.CodeTooLarge: 413, api.CodeNotReady: 503, api.CodeSwitch: 500, api.CodeTimeout: 500,
		api.CodePartial: 500, api.CodeInternal: 500,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes and their status (-want +got):\n%s", diff)
	}

	all := slices.Sorted(maps.Keys(want))
	if diff := cmp.Diff(all, codesOfTheSource(t)); diff != "" {
		t.Errorf("codes of package api (-here +there):\n%s", diff)
	}
	var documented []string
	for _, code := range loadOpenAPI(t, api.OpenAPI).Components.Headers["ErrorCode"].Value.Schema.Value.Enum {
		documented = append(documented, code.(string))
	}
	slices.Sort(documented)
	if diff := cmp.Diff(all, documented); diff != "" {
		t.Errorf("codes of openapi.yaml (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	for code, status := range want {
		row := func(line string) bool {
			return strings.HasPrefix(line, fmt.Sprintf("| %d |", status)) && strings.Contains(line, "`"+code+"`")
		}
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), row) {
			t.Errorf("%s has no row with %d and %s", docs, status, code)
		}
	}
}

// codesOfTheSource returns the values of package api's constants that begin with Code, sorted.
func codesOfTheSource(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../internal/api/api.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	slices.Sort(codes)
	return codes
}
