package main

import (
	"encoding/json"
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

func newProvider(from *tfprotov6.GetProviderSchemaResponse, identities *tfprotov6.GetResourceIdentitySchemasResponse) *tfjson.ProviderSchema {
	return &tfjson.ProviderSchema{
		ConfigSchema:             newSchema(from.Provider),
		ResourceSchemas:          each(from.ResourceSchemas, newSchema),
		DataSourceSchemas:        each(from.DataSourceSchemas, newSchema),
		EphemeralResourceSchemas: each(from.EphemeralResourceSchemas, newSchema),
		ListResourceSchemas:      each(from.ListResourceSchemas, newSchema),
		ActionSchemas: each(from.ActionSchemas, func(a *tfprotov6.ActionSchema) *tfjson.ActionSchema {
			return &tfjson.ActionSchema{Block: newBlock(a.Schema.Block)}
		}),
		Functions:               each(from.Functions, newFunction),
		ResourceIdentitySchemas: each(identities.IdentitySchemas, newIdentity),
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

func newSchema(from *tfprotov6.Schema) *tfjson.Schema {
	return &tfjson.Schema{Version: uint64(from.Version), Block: newBlock(from.Block)} //nolint:gosec // no schema has a negative version
}

func newBlock(from *tfprotov6.SchemaBlock) *tfjson.SchemaBlock {
	blocks := make(map[string]*tfjson.SchemaBlockType, len(from.BlockTypes))
	for _, nested := range from.BlockTypes {
		blocks[nested.TypeName] = &tfjson.SchemaBlockType{
			NestingMode: tfjson.SchemaNestingMode(strings.ToLower(nested.Nesting.String())),
			Block:       newBlock(nested.Block),
		}
	}
	return &tfjson.SchemaBlock{
		Attributes:      newAttributes(from.Attributes),
		NestedBlocks:    blocks,
		Description:     from.Description,
		DescriptionKind: kind(from.DescriptionKind),
		Deprecated:      from.Deprecated,
	}
}

func kind(from tfprotov6.StringKind) tfjson.SchemaDescriptionKind {
	return tfjson.SchemaDescriptionKind(strings.ToLower(from.String()))
}

func newAttributes(from []*tfprotov6.SchemaAttribute) map[string]*tfjson.SchemaAttribute {
	attributes := make(map[string]*tfjson.SchemaAttribute, len(from))
	for _, a := range from {
		attribute := &tfjson.SchemaAttribute{
			Description:     a.Description,
			DescriptionKind: kind(a.DescriptionKind),
			Deprecated:      a.Deprecated,
			Required:        a.Required,
			Optional:        a.Optional,
			Computed:        a.Computed,
			Sensitive:       a.Sensitive,
			WriteOnly:       a.WriteOnly,
		}
		if a.NestedType == nil {
			attribute.AttributeType = newType(a.Type)
		} else {
			attribute.AttributeNestedType = &tfjson.SchemaNestedAttributeType{
				Attributes:  newAttributes(a.NestedType.Attributes),
				NestingMode: tfjson.SchemaNestingMode(strings.ToLower(a.NestedType.Nesting.String())),
			}
		}
		attributes[a.Name] = attribute
	}
	return attributes
}

// newType translates a type through JSON, which both libraries write alike.
func newType(from tftypes.Type) (to cty.Type) {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, &to)
	}
	if err != nil {
		panic(fmt.Sprintf("type %s: %v", from, err))
	}
	return to
}

func newFunction(from *tfprotov6.Function) *tfjson.FunctionSignature {
	function := &tfjson.FunctionSignature{
		Description:        from.Description,
		Summary:            from.Summary,
		DeprecationMessage: from.DeprecationMessage,
		ReturnType:         newType(from.Return.Type),
	}
	for _, p := range from.Parameters {
		function.Parameters = append(function.Parameters, newParameter(p))
	}
	if from.VariadicParameter != nil {
		function.VariadicParameter = newParameter(from.VariadicParameter)
	}
	return function
}

func newParameter(from *tfprotov6.FunctionParameter) *tfjson.FunctionParameter {
	return &tfjson.FunctionParameter{Name: from.Name, Description: from.Description, IsNullable: from.AllowNullValue, Type: newType(from.Type)}
}

func newIdentity(from *tfprotov6.ResourceIdentitySchema) *tfjson.IdentitySchema {
	attributes := make(map[string]*tfjson.IdentityAttribute, len(from.IdentityAttributes))
	for _, a := range from.IdentityAttributes {
		attributes[a.Name] = &tfjson.IdentityAttribute{
			IdentityType:      newType(a.Type),
			Description:       a.Description,
			RequiredForImport: a.RequiredForImport,
			OptionalForImport: a.OptionalForImport,
		}
	}
	return &tfjson.IdentitySchema{Version: uint64(from.Version), Attributes: attributes} //nolint:gosec // as above
}
