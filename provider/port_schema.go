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

const timeoutDescription = "How long all requests of this operation may take together, as a duration. By default each of them has the provider's retry.max_elapsed."

func (r *portResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := managedAttributes(ctx)
	maps.Copy(attributes, settingsAttributes())
	attributes["port_index"] = schema.Int64Attribute{
		MarkdownDescription: "The port's index in the testbed, the last part of its bridge's name. Another index is another port: the resource is replaced.",
		Required:            true,
		Validators:          []validator.Int64{int64validator.AtLeast(0)},
		PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
	}
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
				"it had before it was taken over. An imported port has nothing to restore.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(destroyKeep, destroyRestore)},
		},
		"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
			Create: true, CreateDescription: timeoutDescription,
			Read: true, ReadDescription: timeoutDescription,
			Update: true, UpdateDescription: timeoutDescription,
			Delete: true, DeleteDescription: timeoutDescription,
		}),
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
