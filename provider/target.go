package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Descriptions of what data sources, actions and lists have in common.
const (
	endpointDescription = "Base URL of the agent, such as `http://10.0.0.64:8080`. Defaults to the provider's."
	vmSetDescription    = "The testbed's vm_set, such as `vms17-8`. Defaults to the provider's."
)

// A target is a testbed and the agent that serves it.
type target struct {
	testbed
	endpoint types.String // as it is configured, null for the provider's
}

// configuration is that of a data source, an action or a list.
type configuration interface {
	GetAttribute(ctx context.Context, at path.Path, target any) diag.Diagnostics
}

// target reads endpoint and vm_set of a configuration. Both have to be known, since the agent is asked at once.
func (m *meta) target(ctx context.Context, config configuration) (target, diag.Diagnostics) {
	var t target
	var vmSet types.String
	diags := config.GetAttribute(ctx, path.Root("endpoint"), &t.endpoint)
	diags.Append(config.GetAttribute(ctx, path.Root("vm_set"), &vmSet)...)
	agent, agentDiags := m.agent(t.endpoint)
	diags.Append(agentDiags...)
	if vmSet.IsNull() {
		vmSet = m.vmSet
	}
	switch {
	case diags.HasError():
	case agent == nil || vmSet.IsUnknown():
		addError(&diags, endpointUnknown("The agent has to be asked now."))
	case vmSet.IsNull():
		diags.Append(noVMSet())
	}
	t.testbed = testbed{agent: agent, vmSet: vmSet.ValueString(), run: m.run}
	return t, diags
}
