package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Values of drift_policy and on_destroy.
const (
	driftCorrect   = "correct"
	driftIgnore    = "ignore"
	destroyKeep    = "keep"
	destroyRestore = "restore"
)

// portModel is mux_port in configuration, plan and state.
type portModel struct {
	Endpoint    types.String   `tfsdk:"endpoint"`
	VMSet       types.String   `tfsdk:"vm_set"`
	PortIndex   types.Int64    `tfsdk:"port_index"`
	ActiveSide  types.String   `tfsdk:"active_side"`
	Dropped     types.Set      `tfsdk:"dropped"`
	DriftPolicy types.String   `tfsdk:"drift_policy"`
	OnDestroy   types.String   `tfsdk:"on_destroy"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

func (m portModel) ref() portRef {
	return portRef{vmSet: m.VMSet.ValueString(), port: int(m.PortIndex.ValueInt64())}
}

func (m portModel) identity() portIdentity {
	return portIdentity{Endpoint: m.Endpoint, VMSet: m.VMSet, PortIndex: m.PortIndex}
}

// restores reports whether destroying the resource puts the port back as it was found.
func (m portModel) restores() bool { return m.OnDestroy.ValueString() == destroyRestore }

// portIdentity is what tells one mux_port from every other.
type portIdentity struct {
	Endpoint  types.String `tfsdk:"endpoint"`
	VMSet     types.String `tfsdk:"vm_set"`
	PortIndex types.Int64  `tfsdk:"port_index"`
}

// A portRef names a port of a testbed.
type portRef struct {
	vmSet string
	port  int
}

func (r portRef) String() string { return fmt.Sprintf("port %d of %s", r.port, r.vmSet) }

// desired returns what the API is asked for; a null value is left alone.
func desired(side types.String, dropped types.Set) api.Desired {
	var want api.Desired
	if !side.IsNull() {
		want.ActiveSide = side.ValueStringPointer()
	}
	if !dropped.IsNull() {
		sides := make([]string, 0, len(dropped.Elements()))
		for _, v := range dropped.Elements() {
			if s, ok := v.(types.String); ok {
				sides = append(sides, s.ValueString())
			}
		}
		slices.Sort(sides)
		want.Dropped = &sides
	}
	return want
}

// droppedSides returns the sides of a port to which nothing passes.
func droppedSides(s api.Status) []string {
	passes := func(from, to string) bool {
		return slices.ContainsFunc(s.Flows[from], func(a api.Action) bool { return a.OutPort == to })
	}
	dropped := []string{}
	for _, way := range []struct{ side, from, to string }{
		{api.NIC, s.ActivePort, s.Ports.NIC},
		{api.UpperToR, s.Ports.NIC, s.Ports.UpperToR},
		{api.LowerToR, s.Ports.NIC, s.Ports.LowerToR},
	} {
		if !passes(way.from, way.to) {
			dropped = append(dropped, way.side)
		}
	}
	return dropped
}

// sidesValue makes a set of sides.
func sidesValue(sides []string) types.Set {
	values := make([]attr.Value, len(sides))
	for i, s := range sides {
		values[i] = types.StringValue(s)
	}
	return types.SetValueMust(types.StringType, values)
}

// Keys of the private state.
const (
	// keyOriginal holds the port as it was before the resource's first write, for on_destroy.
	keyOriginal = "original"
	// keyImported is there when the drops in the state come from an import: then nobody has said yet whether they are
	// managed, and a configuration without them must plan nothing.
	keyImported = "imported"
)

// private is the private state of a resource.
type private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// original is a port before Terraform touched it.
type original struct {
	ActiveSide string   `json:"active_side"`
	Dropped    []string `json:"dropped"`
}

func saveOriginal(ctx context.Context, p private, s api.Status) diag.Diagnostics {
	b, err := json.Marshal(original{ActiveSide: s.ActiveSide, Dropped: droppedSides(s)})
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot keep the port's original state", sentence(err))}
	}
	return p.SetKey(ctx, keyOriginal, b)
}

// loadOriginal returns nil for a port that was imported.
func loadOriginal(ctx context.Context, p private) (*original, diag.Diagnostics) {
	b, diags := p.GetKey(ctx, keyOriginal)
	if b == nil || diags.HasError() {
		return nil, diags
	}
	var o original
	if err := json.Unmarshal(b, &o); err != nil {
		diags.AddError("Cannot read the port's original state", sentence(err))
		return nil, diags
	}
	return &o, diags
}

// A mismatchError is a port that the agent reports otherwise than it was just set.
type mismatchError struct {
	want api.Desired
	got  api.Status
}

func (e *mismatchError) Error() string {
	var parts []string
	if e.want.ActiveSide != nil && *e.want.ActiveSide != e.got.ActiveSide {
		parts = append(parts, fmt.Sprintf("asked for %s, the agent reports %s", *e.want.ActiveSide, e.got.ActiveSide))
	}
	if got := droppedSides(e.got); e.want.Dropped != nil && !sameSides(*e.want.Dropped, got) {
		parts = append(parts, fmt.Sprintf("asked for dropped %q, the agent reports %q", *e.want.Dropped, got))
	}
	if e.got.Reason != "" {
		parts = append(parts, "the mux is unhealthy: "+e.got.Reason)
	}
	return strings.Join(parts, "; ")
}

// satisfies reports whether a port is as it was asked to be.
func satisfies(got api.Status, want api.Desired) bool {
	return (want.ActiveSide == nil || *want.ActiveSide == got.ActiveSide) &&
		(want.Dropped == nil || sameSides(*want.Dropped, droppedSides(got)))
}

func sameSides(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
