package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

var (
	_ function.Function = otherSide{}
	_ function.Function = parsePortIDFunction{}
)

// otherSide is provider::mux::other_side.
type otherSide struct{}

func newOtherSide() function.Function { return otherSide{} }

func (otherSide) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "other_side"
}

func (otherSide) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary:             "The other ToR",
		MarkdownDescription: "Returns `lower_tor` for `upper_tor` and `upper_tor` for `lower_tor`.",
		Parameters: []function.Parameter{function.StringParameter{
			Name: "side", MarkdownDescription: "`upper_tor` or `lower_tor`.",
		}},
		Return: function.StringReturn{},
	}
}

func (otherSide) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var side string
	if resp.Error = req.Arguments.Get(ctx, &side); resp.Error != nil {
		return
	}
	switch side {
	case api.UpperToR:
		resp.Error = resp.Result.Set(ctx, api.LowerToR)
	case api.LowerToR:
		resp.Error = resp.Result.Set(ctx, api.UpperToR)
	default:
		resp.Error = function.NewArgumentFuncError(0, fmt.Sprintf("%q is not a side: write %q or %q.", side, api.UpperToR, api.LowerToR))
	}
}

// parsePortIDFunction is provider::mux::parse_port_id.
type parsePortIDFunction struct{}

func newParsePortID() function.Function { return parsePortIDFunction{} }

func (parsePortIDFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "parse_port_id"
}

func (parsePortIDFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "The parts of a port's id",
		MarkdownDescription: "Splits an id as `mux_port` is imported by: `vms17-8/3`, or the port's URL `http://10.0.0.64:8080/mux/vms17-8/3`. " +
			"Returns an object of `endpoint` (null for the short form), `vm_set` and `port_index`.",
		Parameters: []function.Parameter{function.StringParameter{
			Name: "id", MarkdownDescription: "`<vm_set>/<port_index>`, or the port's URL.",
		}},
		Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{
			"endpoint": types.StringType, "vm_set": types.StringType, "port_index": types.Int64Type,
		}},
	}
}

func (parsePortIDFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var id string
	if resp.Error = req.Arguments.Get(ctx, &id); resp.Error != nil {
		return
	}
	endpoint, ref, err := parsePortID(id)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, sentence(err))
		return
	}
	parts := portIdentity{VMSet: types.StringValue(ref.vmSet), PortIndex: types.Int64Value(int64(ref.port))}
	if endpoint != "" {
		parts.Endpoint = types.StringValue(endpoint)
	}
	resp.Error = resp.Result.Set(ctx, parts)
}
