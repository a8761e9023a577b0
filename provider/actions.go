package provider

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var (
	_ action.ActionWithConfigure  = (*verbAction)(nil)
	_ action.ActionWithModifyPlan = (*verbAction)(nil)
)

// verbs are what can be done with ports once, instead of keeping them in a state.
func verbs() []verb {
	return []verb{{
		name:        "toggle",
		done:        "Toggled",
		description: "Makes the other ToR the active one, port by port. It reads the sides, then sets the other ones, so that a request that is repeated after a failure never toggles twice.",
		change: func(now api.Status, _ []string) api.Desired {
			return api.Desired{ActiveSide: &now.StandbySide}
		},
	}, {
		name:        "set_side",
		done:        "Set",
		description: "Makes a ToR the active one.",
		takes:       takesSide,
		change:      func(_ api.Status, side []string) api.Desired { return api.Desired{ActiveSide: &side[0]} },
	}, {
		name:        "drop",
		done:        "Dropped sides of",
		description: "Stops packets to sides, beside those to which none pass already.",
		takes:       takesSides,
		change: func(now api.Status, sides []string) api.Desired {
			dropped := slices.Concat(droppedSides(now), sides)
			slices.Sort(dropped)
			dropped = slices.Compact(dropped)
			return api.Desired{Dropped: &dropped}
		},
	}, {
		name:        "output",
		done:        "Restored sides of",
		description: "Lets packets to sides pass again.",
		takes:       takesSides,
		change: func(now api.Status, sides []string) api.Desired {
			dropped := slices.DeleteFunc(droppedSides(now), func(side string) bool { return slices.Contains(sides, side) })
			return api.Desired{Dropped: &dropped}
		},
	}, {
		name:        "reset",
		done:        "Reset",
		description: "Lets packets to all sides pass and makes the flows right, also those that somebody changed on the switch. The active side stays.",
		call: func(ctx context.Context, agent *client.Client, vmSet string, ports []int) error {
			if ports == nil {
				_, err := agent.ResetAll(ctx, vmSet)
				return err
			}
			_, err := agent.ResetPorts(ctx, vmSet, ports)
			return err
		},
	}, {
		name:        "clear_flap_counter",
		done:        "Cleared the flap counters of",
		description: "Sets flap counters to 0.",
		call: func(ctx context.Context, agent *client.Client, vmSet string, ports []int) error {
			_, err := agent.ClearFlapCounters(ctx, vmSet, ports...)
			return err
		},
	}, {
		name:        "reload",
		done:        "Reloaded",
		description: "Has the agent look for the testbed's bridges again. `mux-agent` does so by itself; `mux_simulator.py` needs it after bridges were made.",
		takes:       takesNoPorts,
		call: func(ctx context.Context, agent *client.Client, vmSet string, _ []int) error {
			_, err := agent.Reload(ctx, vmSet)
			return err
		},
	}}
}

// A verb is one action: it either changes ports from what they are now, or calls the agent.
type verb struct {
	name        string
	done        string // for the progress, before the ports
	description string
	takes       string // one of the values below; "" is ports alone
	change      func(now api.Status, sides []string) api.Desired
	call        func(ctx context.Context, agent *client.Client, vmSet string, ports []int) error
}

const (
	takesSide    = "active_side"
	takesSides   = "sides"
	takesNoPorts = "nothing"
)

// verbAction makes an action of a verb.
type verbAction struct {
	verb
	configuredAction
}

func newActions() []func() action.Action {
	var all []func() action.Action
	for _, v := range verbs() {
		all = append(all, func() action.Action { return &verbAction{verb: v} })
	}
	return all
}

func (a *verbAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.name
}

func (a *verbAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"endpoint": schema.StringAttribute{
			MarkdownDescription: endpointDescription, Optional: true,
			Validators: []validator.String{endpointValidator{}},
		},
		"vm_set": schema.StringAttribute{
			MarkdownDescription: vmSetDescription, Optional: true,
			Validators: []validator.String{vmSetValidator()},
		},
	}
	if a.takes != takesNoPorts {
		attributes["ports"] = schema.SetAttribute{
			MarkdownDescription: "Indexes of the ports. Left out, all ports of the testbed.",
			Optional:            true, ElementType: types.Int64Type,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueInt64sAre(int64validator.AtLeast(0))},
		}
	}
	switch a.takes {
	case takesSide:
		attributes[takesSide] = schema.StringAttribute{
			MarkdownDescription: "The ToR: `upper_tor` or `lower_tor`.", Required: true,
			Validators: []validator.String{sideValidator()},
		}
	case takesSides:
		attributes[takesSides] = schema.SetAttribute{
			MarkdownDescription: "The sides: any of `nic`, `upper_tor` and `lower_tor`.", Required: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(anySideValidator())},
		}
	}
	resp.Schema = schema.Schema{MarkdownDescription: a.description, Attributes: attributes}
}

// ModifyPlan puts the action off where the endpoint is not known yet and Terraform can wait.
func (a *verbAction) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if a.meta == nil {
		return
	}
	var endpoint types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("endpoint"), &endpoint)...)
	agent, diags := a.meta.agent(endpoint)
	resp.Diagnostics.Append(diags...)
	if agent == nil && !resp.Diagnostics.HasError() && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &action.Deferred{Reason: action.DeferredReasonActionConfigUnknown}
	}
}

func (a *verbAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	t, diags := a.meta.target(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	var ports []int // nil for all
	if a.takes != takesNoPorts {
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("ports"), &ports)...)
	}
	var sides []string
	switch a.takes {
	case takesSide:
		sides = []string{""}
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(takesSide), &sides[0])...)
	case takesSides:
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(takesSides), &sides)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	slices.Sort(ports)
	ports, err := a.do(ctx, t, ports, sides)
	if err != nil {
		addError(&resp.Diagnostics, t.cannotReach(ctx, ports, "the action on", err))
		return
	}
	resp.SendProgress(action.InvokeProgressEvent{Message: a.done + " " + portsOf(t.vmSet, ports) + "."})
}

// do does the action with the given ports, nil for all, or with none of them when one is not there. It returns the ports that
// it is about, which are those that are not there where that is the failure.
func (a *verbAction) do(ctx context.Context, t target, ports []int, sides []string) ([]int, error) {
	if a.call != nil && ports == nil {
		return nil, a.call(ctx, t.agent, t.vmSet, nil)
	}
	now, missing, err := t.find(ctx, ports, false)
	if err != nil {
		return missing, err
	}
	if a.call != nil {
		return ports, a.call(ctx, t.agent, t.vmSet, ports)
	}
	if ports == nil {
		ports = slices.Sorted(maps.Keys(now))
	}
	want := map[int]api.Desired{}
	for _, port := range ports {
		want[port] = a.change(now[port], sides)
	}
	_, _, err = t.set(ctx, want, nil)
	return ports, err
}
