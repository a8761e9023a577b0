package provider

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	originalDescription = "before Terraform took it over, for `on_destroy = \"restore\"`. Nothing after an import. Terraform never changes it; a resource that replaces " +
		"another one in the same apply has that one's."
	healthyDescription = "packets pass to the server from the active ToR alone, and from the server to both. A port with a dropped side is not healthy. " +
		"Where setting the port again mends it, and `drift_policy` is `correct`, the plan does so; `data.mux_port` says why it is unhealthy."
)

func (r *portResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := managedAttributes(ctx)
	maps.Copy(attributes, settingsAttributes())
	attributes["port_index"] = schema.Int64Attribute{
		MarkdownDescription: "The port's index in the testbed, the last part of its bridge's name. Another index is another port: the resource is replaced.",
		Required:            true,
		Validators:          []validator.Int64{int64validator.AtLeast(0)},
		PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
	}
	attributes["original"] = schema.SingleNestedAttribute{
		MarkdownDescription: "How the port was " + originalDescription,
		Computed:            true,
		Attributes:          originalAttributes(),
	}
	attributes["healthy"] = schema.BoolAttribute{MarkdownDescription: "Whether " + healthyDescription, Computed: true}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One port of a dual-ToR testbed: which ToR is active on its simulated Y-cable, and which of its sides are dropped.\n\n" +
			"The port itself belongs to the testbed. Creating the resource takes it over, destroying it leaves the port as it is, " +
			"or as it was found with `on_destroy = \"restore\"`. Manage a port by one resource only.",
		Attributes: attributes,
	}
}

// settingsAttributes are those of one port.
func settingsAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"active_side": schema.StringAttribute{
			MarkdownDescription: "The ToR whose packets reach the server: `upper_tor` or `lower_tor`.",
			Required:            true,
			Validators:          []validator.String{sideValidator()},
		},
		"dropped": schema.SetAttribute{
			MarkdownDescription: "The sides to which no packets pass: any of `nic`, `upper_tor` and `lower_tor`. `[]` keeps all sides passing. " +
				"Left out, drops are not managed: tests may drop and restore sides, and Terraform neither shows nor touches it.",
			ElementType: types.StringType,
			Optional:    true,
			Computed:    true, // after an import that knows the drops while the configuration leaves them out
			Validators:  []validator.Set{setvalidator.ValueStringsAre(anySideValidator())},
		},
	}
}

// originalAttributes are those of how a port was found.
func originalAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"active_side": schema.StringAttribute{MarkdownDescription: "The ToR whose packets reached the server.", Computed: true},
		"dropped":     schema.SetAttribute{MarkdownDescription: "The sides to which no packets passed.", ElementType: types.StringType, Computed: true},
	}
}

// timeoutsAttribute is the library's, with words and with durations that mean something.
func timeoutsAttribute(ctx context.Context) schema.Attribute {
	attribute := timeouts.Attributes(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true})
	nested, ok := attribute.(schema.SingleNestedAttribute)
	if !ok {
		return attribute
	}
	nested.MarkdownDescription = "How long all requests of an operation may take together, in place of the provider's `retry.max_elapsed` for each of them: " +
		"longer for an agent that is restarted meanwhile, shorter for one that is not worth the wait."
	for name, what := range map[string]string{
		"create": "To take the port over and set it.", "read": "To bring the state up to date.",
		"update": "To write what has changed.", "delete": "To put the port back with `on_destroy = \"restore\"`.",
	} {
		nested.Attributes[name] = schema.StringAttribute{
			MarkdownDescription: what + " A duration, such as `90s` or `2m`.",
			Optional:            true,
			Validators:          []validator.String{durationValidator{}},
		}
	}
	return nested
}

// managedAttributes are those that mux_port and mux_ports have in common.
func managedAttributes(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"endpoint": schema.StringAttribute{
			MarkdownDescription: "Base URL of the agent, such as `http://10.0.0.64:8080`. Defaults to the provider's; moving the agent is then no change of the resource.",
			Optional:            true,
			Validators:          []validator.String{endpointValidator{}},
		},
		"vm_set": schema.StringAttribute{
			MarkdownDescription: "The testbed's vm_set, such as `vms17-8`. Defaults to the provider's. Another vm_set is another testbed: the resource is replaced.",
			Optional:            true,
			Computed:            true,
			Validators:          []validator.String{vmSetValidator()},
		},
		"drift_policy": schema.StringAttribute{
			MarkdownDescription: "What to do when a port is not as it was applied: `correct` shows it in the plan and puts it right at the next apply; " +
				"`ignore` leaves it, and writes only what changes in the configuration. Defaults to the provider's.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(driftCorrect, driftIgnore)},
		},
		"on_destroy": schema.StringAttribute{
			MarkdownDescription: "What becomes of a port that is no longer managed: `keep` (default) leaves it as it is; `restore` puts back the side and the drops " +
				"it had before it was taken over (`original`). An imported port has nothing to restore. A port that can't be put back stays in the state, with an error.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(destroyKeep, destroyRestore)},
		},
		"timeouts": timeoutsAttribute(ctx),
	}
}

func (r *portResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{
		Attributes: map[string]identityschema.Attribute{
			"endpoint": identityschema.StringAttribute{
				Description:       "Base URL of the agent; the provider's when absent.",
				OptionalForImport: true,
			},
			"vm_set": identityschema.StringAttribute{
				Description:       "The testbed's vm_set.",
				RequiredForImport: true,
			},
			"port_index": identityschema.Int64Attribute{
				Description:       "The port's index in the testbed.",
				RequiredForImport: true,
			},
		},
	}
}
