package provider

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// meta is what a configured provider gives its resources. A value is unknown while the configuration is, at plan time.
type meta struct {
	endpoint    types.String
	vmSet       types.String
	driftPolicy types.String
	agents      *agents
	run         *run
}

// agent returns the client for a resource whose own endpoint is given, null for none. It is nil without a diagnostic
// when the endpoint is not known yet.
func (m *meta) agent(own types.String) (*client.Client, diag.Diagnostics) {
	endpoint := own
	if endpoint.IsNull() {
		endpoint = m.endpoint
	}
	switch {
	case endpoint.IsUnknown():
		return nil, nil
	case endpoint.IsNull():
		return nil, diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root("endpoint"), "No endpoint",
			"Nothing says which agent serves this resource. Set endpoint here, in the provider block, or in the environment variable "+
				envEndpoint+", to the agent's base URL, such as \"http://10.0.0.64:8080\".")}
	}
	c, err := m.agents.at(endpoint.ValueString())
	if err != nil {
		return nil, diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root("endpoint"), "Bad endpoint", sentence(err))}
	}
	return c, nil
}

// ignoresDrift reports whether a resource with the given drift_policy, null for the provider's, is left as it is found.
func (m *meta) ignoresDrift(own types.String) bool {
	if own.IsNull() {
		own = m.driftPolicy
	}
	return own.ValueString() == driftIgnore
}

// rewrites reports whether an update writes each setting, changed or not: under "ignore" the state may be old, and a new
// endpoint may be another switch.
func (m *meta) rewrites(state, plan managed) bool {
	return m.ignoresDrift(state.DriftPolicy) && !m.ignoresDrift(plan.DriftPolicy) || !m.normal(plan.Endpoint).Equal(m.normal(state.Endpoint))
}

// normal returns the endpoint of a resource as it would be called, however it is written.
func (m *meta) normal(own types.String) types.String {
	if own.IsNull() {
		own = m.endpoint
	}
	if endpoint, err := client.ParseEndpoint(own.ValueString()); err == nil {
		return types.StringValue(endpoint)
	}
	return own
}

// agents holds one client for each endpoint, so that its connections and its limit are shared.
type agents struct {
	config client.Config // all but the endpoint

	mu      sync.Mutex
	clients map[string]*client.Client
}

func newAgents(config client.Config) *agents {
	return &agents{config: config, clients: map[string]*client.Client{}}
}

func (a *agents) at(endpoint string) (*client.Client, error) {
	endpoint, err := client.ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.clients[endpoint]; c != nil {
		return c, nil
	}
	config := a.config
	config.Endpoint = endpoint
	c, err := client.New(config)
	if err != nil {
		return nil, err
	}
	a.clients[endpoint] = c
	return c, nil
}

func logTry(ctx context.Context, try client.Try) {
	fields := map[string]any{
		"method": try.Method, "url": try.URL, "try": try.Number, "status": try.Status, "took_ms": try.Took.Milliseconds(),
	}
	if try.Err != nil {
		fields["error"] = try.Err.Error()
	}
	tflog.Debug(ctx, "mux agent request", fields)
}

// objectOptions reads unknown parts of an object as empty, which only happens at plan time.
var objectOptions = basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true}
