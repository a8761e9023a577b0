package provider

import (
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// statusModel is the status of a port in a data source.
type statusModel struct {
	PortIndex   int                 `tfsdk:"port_index"`
	ActivePort  string              `tfsdk:"active_port"`
	ActiveSide  string              `tfsdk:"active_side"`
	Bridge      string              `tfsdk:"bridge"`
	Conditions  []conditionModel    `tfsdk:"conditions"`
	Dropped     []string            `tfsdk:"dropped"`
	FlapCounter int                 `tfsdk:"flap_counter"`
	Flows       map[string][]string `tfsdk:"flows"`
	Healthy     bool                `tfsdk:"healthy"`
	PortNames   portNames           `tfsdk:"port_names"`
	Reason      string              `tfsdk:"reason"`
	ReasonCode  string              `tfsdk:"reason_code"`
	StandbyPort string              `tfsdk:"standby_port"`
	StandbySide string              `tfsdk:"standby_side"`
}

type conditionModel struct {
	Code   string `tfsdk:"code"`
	Reason string `tfsdk:"reason"`
	Cure   string `tfsdk:"cure"`
}

type portNames struct {
	NIC      string `tfsdk:"nic"`
	UpperToR string `tfsdk:"upper_tor"`
	LowerToR string `tfsdk:"lower_tor"`
}

func statusOf(s api.Status) statusModel {
	flows := map[string][]string{}
	for from, actions := range s.Flows {
		flows[from] = []string{}
		for _, a := range actions {
			flows[from] = append(flows[from], a.OutPort)
		}
	}
	conditions := []conditionModel{}
	for _, c := range s.Conditions {
		conditions = append(conditions, conditionModel{Code: c.Code, Reason: c.Reason, Cure: c.Cure})
	}
	return statusModel{
		PortIndex: s.PortIndex, Bridge: s.Bridge,
		ActivePort: s.ActivePort, ActiveSide: s.ActiveSide,
		StandbyPort: s.StandbyPort, StandbySide: s.StandbySide,
		Dropped: droppedSides(s), FlapCounter: s.FlapCounter, Flows: flows,
		Healthy: s.Healthy, Reason: s.Reason, ReasonCode: s.ReasonCode, Conditions: conditions,
		PortNames: portNames{NIC: s.Ports.NIC, UpperToR: s.Ports.UpperToR, LowerToR: s.Ports.LowerToR},
	}
}

// targetAttributes are those that say whom a data source asks.
func targetAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"endpoint": schema.StringAttribute{
			MarkdownDescription: endpointDescription,
			Optional:            true,
			Validators:          []validator.String{endpointValidator{}},
		},
		"vm_set": schema.StringAttribute{
			MarkdownDescription: vmSetDescription,
			Optional:            true,
			Computed:            true,
			Validators:          []validator.String{vmSetValidator()},
		},
	}
}

// statusAttributes are those of a port's status.
func statusAttributes() map[string]schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true}
	}
	names := map[string]schema.Attribute{
		"nic":       text("Of the server's port."),
		"upper_tor": text("Of the upper ToR's port."),
		"lower_tor": text("Of the lower ToR's port."),
	}
	return map[string]schema.Attribute{
		"port_index":  schema.Int64Attribute{MarkdownDescription: "The port's index in the testbed.", Computed: true},
		"active_port": text("Name of the OVS port of the active ToR."),
		"active_side": text("The ToR whose packets reach the server: `upper_tor` or `lower_tor`."),
		"bridge":      text("Name of the OVS bridge that is the mux."),
		"conditions": schema.ListNestedAttribute{
			MarkdownDescription: "What should be known of the port beside its side and its requested drops, worst first. Always empty where `mux_simulator.py` or an agent before 0.2.0 answers.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"code":   text("For decisions: " + conditionCodes() + "."),
				"reason": text("For people."),
				"cure":   text("What helps; empty where nothing is to be done."),
			}},
		},
		"dropped":      schema.SetAttribute{MarkdownDescription: "The sides to which no packets pass: of `nic`, `upper_tor` and `lower_tor`.", Computed: true, ElementType: types.StringType},
		"flap_counter": schema.Int64Attribute{MarkdownDescription: "Changes of side through the API since the agent started or the counter was cleared.", Computed: true},
		"flows": schema.MapAttribute{
			MarkdownDescription: "To which OVS ports packets pass from an OVS port: from the server's, and from the active ToR's.",
			Computed:            true, ElementType: types.ListType{ElemType: types.StringType},
		},
		"healthy": schema.BoolAttribute{
			MarkdownDescription: "Whether packets pass to the server from the active ToR alone, and from the server to both. A port with a dropped side is not healthy.",
			Computed:            true,
		},
		"port_names":   schema.SingleNestedAttribute{MarkdownDescription: "Names of the three OVS ports.", Computed: true, Attributes: names},
		"reason":       text("The reason of the first of the conditions; empty where there is none. An agent before 0.2.0 says here why the port is not healthy."),
		"reason_code":  text("The code of the first of the conditions; empty where there is none."),
		"standby_port": text("Name of the OVS port of the other ToR."),
		"standby_side": text("The other ToR."),
	}
}

// conditionCodes lists the codes of conditions.
func conditionCodes() string {
	var codes []string
	for _, kind := range api.Conditions() {
		codes = append(codes, "`"+kind.Code+"`")
	}
	return strings.Join(codes, ", ")
}

// attributesOf joins attributes.
func attributesOf(sets ...map[string]schema.Attribute) map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}
