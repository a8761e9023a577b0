package provider_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

const examples = "../examples"

// The examples are what the documentation shows: each folder with tests is run by `terraform test` on an agent.
func TestExamples(t *testing.T) {
	t.Parallel()
	needTerraform(t)
	tests := glob(t, "*.tftest.hcl")
	if len(tests) == 0 {
		t.Fatal("no example has tests")
	}
	for _, file := range tests {
		folder := filepath.Dir(file)
		t.Run(strings.TrimPrefix(folder, examples+"/"), func(t *testing.T) {
			t.Parallel()
			has(t, "terraform test", since.test)
			if strings.HasPrefix(folder, examples+"/functions") || strings.HasSuffix(folder, "dualtor-120") {
				has(t, "functions", since.functions)
			}
			ports := 12
			if strings.HasSuffix(folder, "dualtor-120") {
				ports = 112
			}
			a := agenttest.Start(t, agenttest.Ports(ports))
			env := []string{"MUX_ENDPOINT=" + a.URL, "MUX_VM_SET=" + a.VMSet}
			if out := terraformIn(t, copyExample(t, folder), env, "test"); !strings.Contains(out, "Success!") {
				t.Errorf("terraform test in %s:\n%s", folder, out)
			}
		})
	}
}

// glob finds files of the examples by the pattern of their names.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(examples, func(path string, d fs.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, filepath.Base(path)); ok && err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// copyExample copies a folder without the imports, which stand beside the resources for the documentation.
func copyExample(t *testing.T, folder string) string {
	t.Helper()
	dir := t.TempDir()
	for _, entry := range must(os.ReadDir(folder))(t) {
		name := entry.Name()
		if strings.HasPrefix(name, "import") || !strings.HasSuffix(name, ".tf") && !strings.HasSuffix(name, ".hcl") {
			continue
		}
		content := must(os.ReadFile(filepath.Join(folder, name)))(t)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// blocks returns the bodies of a type of block in a file, by their last label.
func blocks(t *testing.T, file, typ string) map[string]*hclsyntax.Body {
	t.Helper()
	parsed, diags := hclparse.NewParser().ParseHCLFile(file)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	found := map[string]*hclsyntax.Body{}
	for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
		if block.Type == typ {
			found[strings.Join(block.Labels, ".")] = block.Body
		}
	}
	return found
}

// configOf evaluates the config block of an action or a list.
func configOf(t *testing.T, body *hclsyntax.Body) attrs {
	t.Helper()
	set := attrs{}
	for _, block := range body.Blocks {
		if block.Type != "config" {
			continue
		}
		for name, attribute := range block.Body.Attributes {
			v, diags := attribute.Expr.Value(&hcl.EvalContext{})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			set[name] = fromCty(t, v)
		}
	}
	return set
}

func fromCty(t *testing.T, v cty.Value) any {
	t.Helper()
	if v.Type() == cty.String {
		return v.AsString()
	}
	var ports []int
	var words []string
	for _, element := range v.AsValueSlice() {
		if element.Type() == cty.String {
			words = append(words, element.AsString())
			continue
		}
		n, _ := element.AsBigFloat().Int64()
		ports = append(ports, int(n))
	}
	if words != nil {
		return words
	}
	return portSet(ports...)
}

// Actions and lists need a newer terraform than there may be: their examples are read here and called in process.
func TestExamplesOfActions(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.use(a)
	tried := map[string]bool{}
	for _, file := range glob(t, "action.tf") {
		for label, body := range blocks(t, file, "action") {
			name, _, _ := strings.Cut(label, ".")
			tried[name] = true
			if words := p.invoke(name, configOf(t, body)); strings.Contains(words, "ERROR") {
				t.Errorf("%s: %s", file, words)
			}
		}
	}
	for name := range p.schemas.ActionSchemas {
		if !tried[name] {
			t.Errorf("%s has no example", name)
		}
	}
}

func TestExamplesOfLists(t *testing.T) {
	a := agenttest.Start(t)
	for typeName, want := range map[string]int{"mux_port": 12, "mux_ports": 1} {
		p := newPluginFor(t, typeName)
		p.use(a)
		file := filepath.Join(examples, "list-resources", typeName, "list-resource.tfquery.hcl")
		for label, body := range blocks(t, file, "list") {
			if got := p.list(configOf(t, body), true, 100); len(got) != want {
				t.Errorf("%s: %s found %d, want %d", file, label, len(got), want)
			}
		}
	}
}

// The provider block shows every attribute that there is.
func TestExampleOfTheProvider(t *testing.T) {
	p := newPlugin(t)
	body := blocks(t, examples+"/provider/provider.tf", "provider")["mux"]
	for name := range p.config.AttributeTypes {
		if body.Attributes[name] == nil {
			t.Errorf("examples/provider/provider.tf does not show %s", name)
		}
	}
	set := attrs{}
	for name, attribute := range body.Attributes {
		if name == "token" || strings.HasSuffix(name, "_pem") {
			continue // from a variable
		}
		v, diags := attribute.Expr.Value(&hcl.EvalContext{})
		switch {
		case diags.HasErrors():
			t.Fatal(diags)
		case v.Type() == cty.Bool:
			set[name] = v.True()
		case v.Type() == cty.Number:
			set[name] = tftypes.NewValue(tftypes.Number, v.AsBigFloat())
		case v.Type().IsObjectType():
			parts := attrs{}
			for part, value := range v.AsValueMap() {
				parts[part] = value.AsString()
			}
			set[name] = p.value(object(t, p.config.AttributeTypes[name]), parts)
		default:
			set[name] = v.AsString()
		}
	}
	if words := validate(t, set, attrs{"port_index": 0, "active_side": "upper_tor"}); words != "" {
		t.Error(words)
	}
}

// Configurations in the guides and the examples are written as `terraform fmt` writes them.
func TestFormat(t *testing.T) {
	check := func(name string, content []byte) {
		t.Helper()
		if _, diags := hclparse.NewParser().ParseHCL(content, name); diags.HasErrors() {
			t.Error(diags)
		}
		if got := hclwrite.Format(content); !bytes.Equal(got, content) {
			t.Errorf("%s is not formatted; it should be:\n%s", name, got)
		}
	}
	for _, pattern := range []string{"*.tf", "*.hcl"} {
		for _, file := range glob(t, pattern) {
			check(file, must(os.ReadFile(file))(t))
		}
	}
	guides := must(filepath.Glob("templates/guides/*.md"))(t)
	if len(guides) == 0 {
		t.Fatal("there are no guides")
	}
	for _, guide := range guides {
		for i, part := range strings.Split(string(must(os.ReadFile(guide))(t)), "```terraform\n")[1:] {
			config, _, _ := strings.Cut(part, "```")
			check(fmt.Sprintf("%s, configuration %d", guide, i+1), []byte(config))
		}
	}
}
