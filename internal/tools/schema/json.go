package main

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The shapes below are those of `terraform providers schema -json`, format version 1.0.

type schemasJSON struct {
	FormatVersion string                  `json:"format_version"`
	Schemas       map[string]providerJSON `json:"provider_schemas"`
}

type providerJSON struct {
	Provider    schemaJSON              `json:"provider"`
	Resources   map[string]schemaJSON   `json:"resource_schemas,omitempty"`
	DataSources map[string]schemaJSON   `json:"data_source_schemas,omitempty"`
	Ephemeral   map[string]schemaJSON   `json:"ephemeral_resource_schemas,omitempty"`
	Lists       map[string]schemaJSON   `json:"list_resource_schemas,omitempty"`
	Actions     map[string]schemaJSON   `json:"action_schemas,omitempty"`
	Functions   map[string]functionJSON `json:"functions,omitempty"`
	Identities  map[string]identityJSON `json:"resource_identity_schemas,omitempty"`
}

type schemaJSON struct {
	Version int64     `json:"version"`
	Block   blockJSON `json:"block"`
}

type blockJSON struct {
	Attributes      map[string]attributeJSON `json:"attributes,omitempty"`
	Blocks          map[string]nestedJSON    `json:"block_types,omitempty"`
	Description     string                   `json:"description,omitempty"`
	DescriptionKind string                   `json:"description_kind"`
	Deprecated      bool                     `json:"deprecated,omitempty"`
}

type nestedJSON struct {
	NestingMode string    `json:"nesting_mode"`
	Block       blockJSON `json:"block"`
	MinItems    int64     `json:"min_items,omitempty"`
	MaxItems    int64     `json:"max_items,omitempty"`
}

type attributeJSON struct {
	Type            tftypes.Type `json:"type,omitempty"`
	NestedType      *objectJSON  `json:"nested_type,omitempty"`
	Description     string       `json:"description,omitempty"`
	DescriptionKind string       `json:"description_kind"`
	Deprecated      bool         `json:"deprecated,omitempty"`
	Required        bool         `json:"required,omitempty"`
	Optional        bool         `json:"optional,omitempty"`
	Computed        bool         `json:"computed,omitempty"`
	Sensitive       bool         `json:"sensitive,omitempty"`
	WriteOnly       bool         `json:"write_only,omitempty"`
}

type objectJSON struct {
	Attributes  map[string]attributeJSON `json:"attributes"`
	NestingMode string                   `json:"nesting_mode"`
}

type functionJSON struct {
	Description        string          `json:"description,omitempty"`
	Summary            string          `json:"summary,omitempty"`
	DeprecationMessage string          `json:"deprecation_message,omitempty"`
	ReturnType         tftypes.Type    `json:"return_type"`
	Parameters         []parameterJSON `json:"parameters,omitempty"`
	VariadicParameter  *parameterJSON  `json:"variadic_parameter,omitempty"`
}

type parameterJSON struct {
	Name        string       `json:"name"`
	Description string       `json:"description,omitempty"`
	IsNullable  bool         `json:"is_nullable,omitempty"`
	Type        tftypes.Type `json:"type"`
}

type identityJSON struct {
	Version    int64                            `json:"version"`
	Attributes map[string]identityAttributeJSON `json:"attributes"`
}

type identityAttributeJSON struct {
	Type              tftypes.Type `json:"type"`
	Description       string       `json:"description,omitempty"`
	RequiredForImport bool         `json:"required_for_import,omitempty"`
	OptionalForImport bool         `json:"optional_for_import,omitempty"`
}

func newProvider(
	from *tfprotov6.GetProviderSchemaResponse, identities *tfprotov6.GetResourceIdentitySchemasResponse,
) providerJSON {
	return providerJSON{
		Provider:    newSchema(from.Provider),
		Resources:   each(from.ResourceSchemas, newSchema),
		DataSources: each(from.DataSourceSchemas, newSchema),
		Ephemeral:   each(from.EphemeralResourceSchemas, newSchema),
		Lists:       each(from.ListResourceSchemas, newSchema),
		Actions:     each(from.ActionSchemas, func(a *tfprotov6.ActionSchema) schemaJSON { return newSchema(a.Schema) }),
		Functions:   each(from.Functions, newFunction),
		Identities:  each(identities.IdentitySchemas, newIdentity),
	}
}

// each translates every value of a map.
func each[From, To any](from map[string]From, translate func(From) To) map[string]To {
	to := make(map[string]To, len(from))
	for name, value := range from {
		to[name] = translate(value)
	}
	return to
}

func newSchema(from *tfprotov6.Schema) schemaJSON {
	return schemaJSON{Version: from.Version, Block: newBlock(from.Block)}
}

func newBlock(from *tfprotov6.SchemaBlock) blockJSON {
	blocks := make(map[string]nestedJSON, len(from.BlockTypes))
	for _, nested := range from.BlockTypes {
		blocks[nested.TypeName] = nestedJSON{
			NestingMode: strings.ToLower(nested.Nesting.String()),
			Block:       newBlock(nested.Block),
			MinItems:    nested.MinItems,
			MaxItems:    nested.MaxItems,
		}
	}
	return blockJSON{
		Attributes:      newAttributes(from.Attributes),
		Blocks:          blocks,
		Description:     from.Description,
		DescriptionKind: strings.ToLower(from.DescriptionKind.String()),
		Deprecated:      from.Deprecated,
	}
}

func newAttributes(from []*tfprotov6.SchemaAttribute) map[string]attributeJSON {
	attributes := make(map[string]attributeJSON, len(from))
	for _, a := range from {
		attribute := attributeJSON{
			Type:            a.Type,
			Description:     a.Description,
			DescriptionKind: strings.ToLower(a.DescriptionKind.String()),
			Deprecated:      a.Deprecated,
			Required:        a.Required,
			Optional:        a.Optional,
			Computed:        a.Computed,
			Sensitive:       a.Sensitive,
			WriteOnly:       a.WriteOnly,
		}
		if a.NestedType != nil {
			attribute.NestedType = &objectJSON{
				Attributes:  newAttributes(a.NestedType.Attributes),
				NestingMode: strings.ToLower(a.NestedType.Nesting.String()),
			}
		}
		attributes[a.Name] = attribute
	}
	return attributes
}

func newFunction(from *tfprotov6.Function) functionJSON {
	function := functionJSON{
		Description:        from.Description,
		Summary:            from.Summary,
		DeprecationMessage: from.DeprecationMessage,
		ReturnType:         from.Return.Type,
	}
	for _, p := range from.Parameters {
		function.Parameters = append(function.Parameters, newParameter(p))
	}
	if from.VariadicParameter != nil {
		variadic := newParameter(from.VariadicParameter)
		function.VariadicParameter = &variadic
	}
	return function
}

func newParameter(from *tfprotov6.FunctionParameter) parameterJSON {
	return parameterJSON{Name: from.Name, Description: from.Description, IsNullable: from.AllowNullValue, Type: from.Type}
}

func newIdentity(from *tfprotov6.ResourceIdentitySchema) identityJSON {
	attributes := make(map[string]identityAttributeJSON, len(from.IdentityAttributes))
	for _, a := range from.IdentityAttributes {
		attributes[a.Name] = identityAttributeJSON{
			Type:              a.Type,
			Description:       a.Description,
			RequiredForImport: a.RequiredForImport,
			OptionalForImport: a.OptionalForImport,
		}
	}
	return identityJSON{Version: from.Version, Attributes: attributes}
}
