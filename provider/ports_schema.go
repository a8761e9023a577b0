package provider

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func (r *portsResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := managedAttributes(ctx)
	attributes["ports"] = schema.MapNestedAttribute{
		MarkdownDescription: "The ports by index, such as `\"0\"`. Ports that are not here are left alone. A port that is taken out again is left as it is, " +
			"or put back as it was found with `on_destroy = \"restore\"`.",
		Required:     true,
		NestedObject: schema.NestedAttributeObject{Attributes: settingsAttributes()},
		Validators: []validator.Map{mapvalidator.KeysAre(
			stringvalidator.RegexMatches(regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`), `must be a port index, such as "0" or "12"`),
		)},
	}
	attributes["original"] = schema.MapNestedAttribute{
		MarkdownDescription: "How each port was, by index, " + originalDescription,
		Computed:            true,
		NestedObject:        schema.NestedAttributeObject{Attributes: originalAttributes()},
	}
	attributes["healthy"] = schema.MapAttribute{
		MarkdownDescription: "Whether for each port, by index, " + healthyDescription,
		Computed:            true,
		ElementType:         types.BoolType,
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Many ports of a dual-ToR testbed, read and set by one request: the resource for testbeds of hundreds of ports, and for those that " +
			"treat their ports alike. `mux_port` shows each port on its own in the plan instead. Manage a port by one resource only.",
		Attributes: attributes,
	}
}

func (r *portsResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
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
		},
	}
}
