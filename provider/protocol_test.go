package provider_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/provider"
)

// A plugin is the provider as terraform sees it: what terraform does not show to its tests, or cannot do in the version at
// hand, is tested over the protocol.
type plugin struct {
	t        *testing.T
	server   tfprotov6.ProviderServer
	schemas  *tfprotov6.GetProviderSchemaResponse
	config   tftypes.Object // of the provider
	typeName string         // of the resource, whose types follow
	port     tftypes.Object
	identity tftypes.Object
}

// A resourceState is what terraform keeps of a resource.
type resourceState struct {
	value   tftypes.Value
	private []byte
}

func newPlugin(t *testing.T) *plugin {
	t.Helper()
	return newPluginFor(t, "mux_port")
}

// newPluginFor is newPlugin for another resource.
func newPluginFor(t *testing.T, typeName string) *plugin {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(provider.New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	schemas := must(server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{}))(t)
	return (&plugin{t: t, server: server, schemas: schemas, config: object(t, schemas.Provider.ValueType())}).as(typeName)
}

// as is the same process of the provider for another resource.
func (p *plugin) as(typeName string) *plugin {
	p.t.Helper()
	identities := must(p.server.GetResourceIdentitySchemas(p.t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{}))(p.t)
	other := *p
	other.typeName = typeName
	other.port = object(p.t, p.schemas.ResourceSchemas[typeName].ValueType())
	other.identity = object(p.t, identities.IdentitySchemas[typeName].ValueType())
	return &other
}

func object(t *testing.T, v tftypes.Type) tftypes.Object {
	t.Helper()
	o, ok := v.(tftypes.Object)
	if !ok {
		t.Fatalf("got a schema of type %T", v)
	}
	return o
}

// must returns the first result, and fails the test when there is an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// attrs are the attributes of an object that are not null: strings, ints, []string, map or a tftypes.Value.
type attrs map[string]any

func (p *plugin) value(typ tftypes.Object, set attrs) tftypes.Value {
	values := map[string]tftypes.Value{}
	for name, t := range typ.AttributeTypes {
		switch v := set[name].(type) {
		case tftypes.Value:
			values[name] = v
		case []string:
			elements := []tftypes.Value{}
			for _, s := range v {
				elements = append(elements, tftypes.NewValue(tftypes.String, s))
			}
			values[name] = tftypes.NewValue(t, elements)
		default:
			values[name] = tftypes.NewValue(t, v)
		}
	}
	return tftypes.NewValue(typ, values)
}

// attribute is one of a state.
func (p *plugin) attribute(s tftypes.Value, name string) tftypes.Value {
	p.t.Helper()
	values := map[string]tftypes.Value{}
	if err := s.As(&values); err != nil {
		p.t.Fatal(err)
	}
	return values[name]
}

// with is a state with another value of an attribute.
func (p *plugin) with(s tftypes.Value, name string, value any) tftypes.Value {
	p.t.Helper()
	values := map[string]tftypes.Value{}
	if err := s.As(&values); err != nil {
		p.t.Fatal(err)
	}
	values = maps.Clone(values) // they are the state's own
	v, ok := value.(tftypes.Value)
	if !ok {
		v = tftypes.NewValue(p.port.AttributeTypes[name], value)
	}
	values[name] = v
	return tftypes.NewValue(p.port, values)
}

func (p *plugin) pack(typ tftypes.Type, v tftypes.Value) *tfprotov6.DynamicValue {
	p.t.Helper()
	d := must(tfprotov6.NewDynamicValue(typ, v))(p.t)
	return &d
}

func (p *plugin) unpack(typ tftypes.Type, d *tfprotov6.DynamicValue) tftypes.Value {
	p.t.Helper()
	return must(d.Unmarshal(typ))(p.t)
}

// said writes diagnostics as "WARNING: summary: detail".
func said(ds []*tfprotov6.Diagnostic) string {
	var lines []string
	for _, d := range ds {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", d.Severity, d.Summary, strings.Join(strings.Fields(d.Detail), " ")))
	}
	return strings.Join(lines, "\n")
}

// quiet fails the test when there is any diagnostic.
func (p *plugin) quiet(ds []*tfprotov6.Diagnostic) {
	p.t.Helper()
	if len(ds) > 0 {
		p.t.Fatal(said(ds))
	}
}

func (p *plugin) configure(set attrs, deferral bool) *tfprotov6.ConfigureProviderResponse {
	p.t.Helper()
	return must(p.server.ConfigureProvider(p.t.Context(), &tfprotov6.ConfigureProviderRequest{
		TerraformVersion:   "1.14.0",
		Config:             p.pack(p.config, p.value(p.config, set)),
		ClientCapabilities: &tfprotov6.ConfigureProviderClientCapabilities{DeferralAllowed: deferral},
	}))(p.t)
}

// use configures the plugin for an agent.
func (p *plugin) use(a *agenttest.Agent) {
	p.t.Helper()
	p.useFor(a.URL, a.VMSet)
}

// useFor configures the plugin for an endpoint, with a budget short enough for tests.
func (p *plugin) useFor(endpoint, vmSet string) {
	p.t.Helper()
	retry := object(p.t, p.config.AttributeTypes["retry"])
	p.quiet(p.configure(attrs{
		"endpoint": endpoint, "vm_set": vmSet,
		"retry": p.value(retry, attrs{"max_elapsed": "500ms", "min_delay": "5ms", "max_delay": "20ms"}),
	}, false).Diagnostics)
}

// plan plans a configuration.
func (p *plugin) plan(prior resourceState, config tftypes.Value) *tfprotov6.PlanResourceChangeResponse {
	p.t.Helper()
	return must(p.server.PlanResourceChange(p.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: p.typeName, PriorState: p.pack(p.port, prior.value), PriorPrivate: prior.private,
		ProposedNewState: p.pack(p.port, p.proposed(prior.value, config)), Config: p.pack(p.port, config),
	}))(p.t)
}

// proposed is the configuration with what is computed as it is in the state, as core proposes it.
func (p *plugin) proposed(prior, config tftypes.Value) tftypes.Value {
	p.t.Helper()
	if prior.IsNull() || config.IsNull() {
		return config
	}
	var was map[string]tftypes.Value
	if err := prior.As(&was); err != nil {
		p.t.Fatal(err)
	}
	return p.with(p.with(config, "original", was["original"]), "healthy", was["healthy"])
}

// apply plans and applies a configuration, null for a destroy, and returns what was said on the way.
func (p *plugin) apply(prior resourceState, config tftypes.Value) (resourceState, string) {
	p.t.Helper()
	if prior.value.Type() == nil {
		prior.value = tftypes.NewValue(p.port, nil)
	}
	plan := p.plan(prior, config)
	words := said(plan.Diagnostics)
	if strings.Contains(words, "ERROR") {
		return prior, words
	}
	done := must(p.server.ApplyResourceChange(p.t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: p.typeName, PriorState: p.pack(p.port, prior.value),
		PlannedState: plan.PlannedState, PlannedPrivate: plan.PlannedPrivate, Config: p.pack(p.port, config),
	}))(p.t)
	return resourceState{p.unpack(p.port, done.NewState), done.Private}, strings.TrimSpace(words + "\n" + said(done.Diagnostics))
}

// bare is the state of a resource without what is computed of its ports.
func (p *plugin) bare(s tftypes.Value) tftypes.Value {
	p.t.Helper()
	return p.with(p.with(s, "original", nil), "healthy", nil)
}

func (p *plugin) destroy(prior resourceState) (resourceState, string) {
	p.t.Helper()
	return p.apply(prior, tftypes.NewValue(p.port, nil))
}

func (p *plugin) read(s resourceState) (resourceState, string) {
	p.t.Helper()
	resp := must(p.server.ReadResource(p.t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: p.typeName, CurrentState: p.pack(p.port, s.value), Private: s.private,
	}))(p.t)
	return resourceState{p.unpack(p.port, resp.NewState), resp.Private}, said(resp.Diagnostics)
}

// imported imports and reads what req names.
func (p *plugin) imported(req tfprotov6.ImportResourceStateRequest) resourceState {
	p.t.Helper()
	req.TypeName = p.typeName
	resp := must(p.server.ImportResourceState(p.t.Context(), &req))(p.t)
	p.quiet(resp.Diagnostics)
	one := resp.ImportedResources[0]
	s, words := p.read(resourceState{p.unpack(p.port, one.State), one.Private})
	if words != "" {
		p.t.Fatal(words)
	}
	return s
}

func mustSay(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in what was said:\n%s", part, got)
		}
	}
}

func TestWarningWhenAPortIsGone(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.use(a)
	s, words := p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}))
	if words != "" {
		t.Fatal(words)
	}
	a.RemoveBridge(3)
	s, words = p.read(s)
	mustSay(t, words, "WARNING: No such port", "The state no longer holds port 3 of vms17-8", "GET "+a.URL+"/mux/vms17-8/3", "404")
	if !s.value.IsNull() {
		t.Error("the port is still in the state")
	}
}

func TestRestoreThatFailsKeepsThePort(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.use(a)
	s, words := p.apply(resourceState{}, p.value(p.port, attrs{
		"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor", "on_destroy": "restore",
	}))
	if words != "" {
		t.Fatal(words)
	}
	p.use(a) // another run
	a.FailNext(3, "OFPFMFC_TABLE_FULL")
	s, words = p.destroy(s)
	mustSay(t, words, "ERROR: The port was not restored", "OFPFMFC_TABLE_FULL", "port 3: upper_tor with dropped []",
		"terraform state rm", "a removed block", "terraform apply -refresh=false, then terraform destroy -refresh=false")
	if s.value.IsNull() {
		t.Fatal("the port is no longer in the state")
	}
	p.use(a)
	if s, words = p.destroy(s); words != "" || !s.value.IsNull() {
		t.Errorf("the next destroy left %s, and said %s", s.value, words)
	}
	if got := look(t, a, 3).ActiveSide; got != "upper_tor" {
		t.Errorf("the port is on %s", got)
	}
}

func TestImportedPortHasNothingToRestore(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	p.use(a)
	s := p.imported(tfprotov6.ImportResourceStateRequest{ID: "vms17-8/3"})
	s, words := p.apply(s, p.value(p.port, attrs{
		"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor", "on_destroy": "restore",
	}))
	mustSay(t, words, "WARNING: Nothing to restore: Port 3 of vms17-8 came by an import")
	_, words = p.destroy(s)
	mustSay(t, words, "WARNING: Nothing to restore")
	if got := look(t, a, 3).ActiveSide; got != "lower_tor" {
		t.Errorf("the port is on %s, want it left on lower_tor", got)
	}
}

func TestImportByIdentity(t *testing.T) {
	a := agenttest.Start(t)
	other := agenttest.Start(t, agenttest.VMSet("vms21-1"))
	p := newPlugin(t)
	p.use(a)
	for name, tc := range map[string]struct{ identity, want attrs }{
		"with the provider's endpoint": {
			attrs{"vm_set": "vms17-8", "port_index": 3},
			attrs{"vm_set": "vms17-8", "port_index": 3, "active_side": "upper_tor", "dropped": []string{}},
		},
		"with an endpoint": {
			attrs{"vm_set": "vms21-1", "port_index": 4, "endpoint": other.URL},
			attrs{"vm_set": "vms21-1", "port_index": 4, "endpoint": other.URL, "active_side": "upper_tor", "dropped": []string{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := p.imported(tfprotov6.ImportResourceStateRequest{
				Identity: &tfprotov6.ResourceIdentityData{IdentityData: p.pack(p.identity, p.value(p.identity, tc.identity))},
			})
			if diff := cmp.Diff(p.value(p.port, tc.want).String(), p.bare(s.value).String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// While the provider's endpoint is unknown nothing is read from anywhere, the environment's agent included.
func TestUnknownEndpoint(t *testing.T) {
	t.Setenv("MUX_ENDPOINT", "http://127.0.0.1:1")
	unknown := attrs{"endpoint": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}

	p := newPlugin(t)
	p.quiet(p.configure(unknown, true).Diagnostics)
	config := p.value(p.port, attrs{"port_index": 3, "active_side": "lower_tor"})
	plan := must(p.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: "mux_port", PriorState: p.pack(p.port, tftypes.NewValue(p.port, nil)),
		ProposedNewState: p.pack(p.port, config), Config: p.pack(p.port, config),
		ClientCapabilities: &tfprotov6.PlanResourceChangeClientCapabilities{DeferralAllowed: true},
	}))(t)
	if plan.Deferred == nil || plan.Deferred.Reason != tfprotov6.DeferredReasonProviderConfigUnknown {
		t.Errorf("the plan was not deferred: %+v", plan)
	}

	p = newPlugin(t)
	p.quiet(p.configure(unknown, false).Diagnostics)
	before := resourceState{value: p.value(p.port, attrs{"vm_set": "vms17-8", "port_index": 3, "active_side": "lower_tor"})}
	after, words := p.read(before)
	if words != "" {
		t.Error(words)
	}
	if diff := cmp.Diff(before.value.String(), after.value.String()); diff != "" {
		t.Error(diff)
	}
}

// Ctrl-C: terraform asks the provider to stop, and the call that waits for an answer ends with what it knows.
func TestStop(t *testing.T) {
	a := agenttest.Start(t)
	p := newPlugin(t)
	var once sync.Once
	p.useFor(before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		once.Do(func() {
			resp, err := p.server.StopProvider(context.WithoutCancel(t.Context()), &tfprotov6.StopProviderRequest{})
			if err != nil || resp.Error != "" {
				t.Error(err, resp)
			}
		})
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
		<-r.Context().Done()
		return true
	}), a.VMSet)
	s, words := p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}))
	mustSay(t, words, "ERROR: Stopped before it was done", "PATCH ", "Request id: ")
	if s.value.IsNull() {
		t.Error("the write may have landed, but the state does not have the port")
	}
}

// An agent that has not read its switch yet answers 503 with Retry-After: the apply waits for it.
func TestAgentThatIsNotReadyYet(t *testing.T) {
	a := agenttest.Start(t)
	a.Stop()
	resume := a.Stall()
	a.ResumeUnready()
	var once sync.Once
	p := newPlugin(t)
	p.quiet(p.configure(attrs{"vm_set": a.VMSet, "endpoint": before(t, a, func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { time.AfterFunc(20*time.Millisecond, resume) })
		return false
	})}, false).Diagnostics)
	_, words := p.apply(resourceState{}, p.value(p.port, attrs{"vm_set": a.VMSet, "port_index": 3, "active_side": "lower_tor"}))
	if words != "" {
		t.Error(words)
	}
	if got := look(t, a, 3).ActiveSide; got != "lower_tor" {
		t.Errorf("the port is on %s", got)
	}
}

// validate returns what the provider says of a configuration, in the order in which terraform asks.
func validate(t *testing.T, config, port attrs) string {
	t.Helper()
	p := newPlugin(t)
	ctx := context.WithoutCancel(t.Context())
	prepared := must(p.server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: p.pack(p.config, p.value(p.config, config))}))(t)
	if words := said(prepared.Diagnostics); words != "" {
		return words
	}
	value := p.value(p.port, port)
	checked := must(p.server.ValidateResourceConfig(ctx, &tfprotov6.ValidateResourceConfigRequest{TypeName: "mux_port", Config: p.pack(p.port, value)}))(t)
	if words := said(checked.Diagnostics); words != "" {
		return words
	}
	if words := said(p.configure(config, false).Diagnostics); words != "" {
		return words
	}
	plan := must(p.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
		TypeName: "mux_port", PriorState: p.pack(p.port, tftypes.NewValue(p.port, nil)),
		ProposedNewState: p.pack(p.port, value), Config: p.pack(p.port, value),
	}))(t)
	return said(plan.Diagnostics)
}
