package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
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

// managed is what mux_port and mux_ports have in common.
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

// portModel is mux_port in configuration, plan and state.
type portModel struct {
	managed
	PortIndex types.Int64 `tfsdk:"port_index"`
	portSettings
}

func (m portModel) ref() portRef {
	return portRef{vmSet: m.VMSet.ValueString(), port: int(m.PortIndex.ValueInt64())}
}

func (m portModel) identity() portIdentity {
	return portIdentity{Endpoint: m.Endpoint, VMSet: m.VMSet, PortIndex: m.PortIndex}
}

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
func (s portSettings) desired() api.Desired {
	var want api.Desired
	if !s.ActiveSide.IsNull() {
		want.ActiveSide = s.ActiveSide.ValueStringPointer()
	}
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

// changed returns what has to be written to bring a port from the state to the plan, and no more, so that an edit of
// timeouts flips no port. A dropped that the configuration leaves out is not written.
func (s portSettings) changed(state portSettings, config portSettings) api.Desired {
	want := portSettings{ActiveSide: s.ActiveSide, Dropped: config.Dropped}.desired()
	if s.ActiveSide.Equal(state.ActiveSide) {
		want.ActiveSide = nil
	}
	if s.Dropped.Equal(state.Dropped) {
		want.Dropped = nil
	}
	return want
}

// observed returns the settings that the state shows of a port as it is now; drops that are not managed are left out.
func (s portSettings) observed(now api.Status) portSettings {
	s.ActiveSide = types.StringValue(now.ActiveSide)
	if !s.Dropped.IsNull() {
		s.Dropped = sidesValue(droppedSides(now))
	}
	return s
}

// found returns the settings of a port that is imported: all of them.
func found(now api.Status) portSettings {
	return portSettings{ActiveSide: types.StringValue(now.ActiveSide), Dropped: sidesValue(droppedSides(now))}
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

// A mismatchError is ports that the agent reports otherwise than they were just set.
type mismatchError struct {
	want map[int]api.Desired
	got  map[int]api.Status
}

func (e *mismatchError) Error() string {
	var parts []string
	for _, port := range slices.Sorted(maps.Keys(e.want)) {
		want, got := e.want[port], e.got[port]
		if want.ActiveSide != nil && *want.ActiveSide != got.ActiveSide {
			parts = append(parts, fmt.Sprintf("port %d: asked for %s, the agent reports %s", port, *want.ActiveSide, got.ActiveSide))
		}
		if dropped := droppedSides(got); want.Dropped != nil && !sameSides(*want.Dropped, dropped) {
			parts = append(parts, fmt.Sprintf("port %d: asked for dropped %q, the agent reports %q", port, *want.Dropped, dropped))
		}
		if got.Reason != "" {
			parts = append(parts, fmt.Sprintf("port %d is unhealthy: %s", port, got.Reason))
		}
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
