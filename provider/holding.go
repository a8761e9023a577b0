package provider

import (
	"context"
	"fmt"
	"slices"

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

// A holding is the ports that one resource holds, whatever its schema looks like.
type holding struct {
	managed
	ports    map[int]portSettings
	original map[int]types.Object // how a port was found; nothing for one that was imported
	healthy  map[int]types.Bool   // unknown in a plan just where the port will be written

	imported bool // an import has named it, and nothing was read yet
	creation bool // in a plan: nothing of it is in the state, so that original and healthy are unknown as a whole
	open     bool // in a plan: it is not known yet which ports there are
	unread   types.Map
}

// managed is what does not depend on the port.
type managed struct {
	Endpoint    types.String   `tfsdk:"endpoint"`
	VMSet       types.String   `tfsdk:"vm_set"`
	DriftPolicy types.String   `tfsdk:"drift_policy"`
	OnDestroy   types.String   `tfsdk:"on_destroy"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

// restores reports whether a port that is no longer managed is put back as it was found.
func (m managed) restores() bool { return m.OnDestroy.ValueString() == destroyRestore }

// portSettings is what a port shall be.
type portSettings struct {
	ActiveSide types.String `tfsdk:"active_side"`
	Dropped    types.Set    `tfsdk:"dropped"`
}

// settingsType is portSettings in a schema, and original too.
var settingsType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"active_side": types.StringType,
	"dropped":     types.SetType{ElemType: types.StringType},
}}

func (s portSettings) object() types.Object {
	if s.Dropped.IsNull() {
		s.Dropped = types.SetNull(types.StringType)
	}
	return types.ObjectValueMust(settingsType.AttrTypes, map[string]attr.Value{"active_side": s.ActiveSide, "dropped": s.Dropped})
}

func settingsOf(ctx context.Context, v attr.Value) (portSettings, diag.Diagnostics) {
	var s portSettings
	object, ok := v.(types.Object)
	if !ok {
		return s, diag.Diagnostics{diag.NewErrorDiagnostic("Bug in the provider", fmt.Sprintf("The settings of a port are a %T.", v))}
	}
	diags := object.As(ctx, &s, objectOptions)
	return s, diags
}

func (s portSettings) equal(other portSettings) bool {
	return s.ActiveSide.Equal(other.ActiveSide) && s.Dropped.Equal(other.Dropped)
}

// desired returns what the API is asked for; a null value is left alone.
func (s portSettings) desired() api.Desired {
	want := api.Desired{ActiveSide: s.ActiveSide.ValueStringPointer()}
	if !s.Dropped.IsNull() {
		sides := make([]string, 0, len(s.Dropped.Elements()))
		for _, v := range s.Dropped.Elements() {
			if side, ok := v.(types.String); ok {
				sides = append(sides, side.ValueString())
			}
		}
		slices.Sort(sides)
		want.Dropped = &sides
	}
	return want
}

// configured returns all that is written to a port: a dropped that the configuration leaves out is not.
func (s portSettings) configured(config portSettings) api.Desired {
	return portSettings{ActiveSide: s.ActiveSide, Dropped: config.Dropped}.desired()
}

// changed returns what has to be written to bring a port from known to the plan, and no more, so that an edit of timeouts
// flips no port.
func (s portSettings) changed(known, config portSettings) api.Desired {
	want := s.configured(config)
	if s.ActiveSide.Equal(known.ActiveSide) {
		want.ActiveSide = nil
	}
	if s.Dropped.Equal(known.Dropped) {
		want.Dropped = nil
	}
	return want
}

func isNothing(d api.Desired) bool { return d.ActiveSide == nil && d.Dropped == nil }

// observed returns the settings that the state shows of a port as it is now; drops that are not managed are left out.
func (s portSettings) observed(now api.Status) portSettings {
	s.ActiveSide = types.StringValue(now.ActiveSide)
	if !s.Dropped.IsNull() {
		s.Dropped = sidesValue(droppedSides(now))
	}
	return s
}

// found returns all settings of a port, as those of one that is imported.
func found(now api.Status) portSettings {
	return portSettings{ActiveSide: types.StringValue(now.ActiveSide), Dropped: sidesValue(droppedSides(now))}
}

// sidesValue makes a set of sides.
func sidesValue(sides []string) types.Set {
	values := make([]attr.Value, len(sides))
	for i, s := range sides {
		values[i] = types.StringValue(s)
	}
	return types.SetValueMust(types.StringType, values)
}

// droppedSides returns the sides of a port to which nothing passes, in order: as the service tells, or by the flows where it
// doesn't. It is never nil, which the service would read as null.
func droppedSides(s api.Status) []string {
	dropped := append([]string{}, s.DroppedSides()...)
	slices.Sort(dropped)
	return dropped
}

func sameSides(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// satisfies reports whether a port is as it was asked to be.
func satisfies(got api.Status, want api.Desired) bool {
	return (want.ActiveSide == nil || *want.ActiveSide == got.ActiveSide) &&
		(want.Dropped == nil || sameSides(*want.Dropped, droppedSides(got)))
}

// A portRef names a port of a testbed.
type portRef struct {
	vmSet string
	port  int
}

func (r portRef) String() string { return fmt.Sprintf("port %d of %s", r.port, r.vmSet) }

// noTimeouts is a timeouts that is not in the configuration.
func noTimeouts() timeouts.Value {
	text := types.StringType
	return timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{"create": text, "read": text, "update": text, "delete": text})}
}
