package ovstest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

func TestTraceFollowsTheFlows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts []ovstest.Option
	}{
		{"dummy", nil},
		{"userspace", []ovstest.Option{ovstest.Userspace()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := ovstest.Start(t, tt.opts...)
			m := o.AddMuxes("vms17-8", 2)[1]

			// Open vSwitch bridges all ports of a new bridge, its local one as well.
			checkTrace(t, o, m, m.Upper, m.Bridge, m.NIC, m.Lower)

			o.SetTestbedFlows(m)
			checkTrace(t, o, m, m.Upper, m.NIC)
			checkTrace(t, o, m, m.Lower)
			checkTrace(t, o, m, m.NIC, m.Lower, m.Upper)

			p := o.Ports(m.Bridge)
			o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", p[m.Lower], p[m.Upper]))
			checkTrace(t, o, m, m.Lower, m.Upper)
		})
	}
}

func checkTrace(t *testing.T, o *ovstest.OVS, m ovstest.Mux, in string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, o.Trace(m.Bridge, in), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: a packet from %s comes out (-want +got):\n%s", m.Bridge, in, diff)
	}
}

func TestAddMuxes(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	muxes := o.AddMuxes("vms21-1", 122)
	if got, want := muxes[121].Bridge+" "+muxes[121].NIC, "mbr-vms21-1-121 mux-vms21-1-121"; got != want {
		t.Errorf("names of mux 121: got %q, want %q", got, want)
	}
	for _, m := range muxes {
		got := o.Ports(m.Bridge)
		if got[m.NIC] == 0 || got[m.Upper] == 0 || got[m.Lower] == 0 || len(got) != 3 {
			t.Errorf("%s has the ports %v, want %s, %s and %s", m.Bridge, got, m.NIC, m.Upper, m.Lower)
		}
	}
}

func TestDaemonsStopAndStart(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1-1", 1)[0]
	o.SetTestbedFlows(m)
	checkTrace(t, o, m, m.Lower)

	o.Vswitchd.Kill()
	o.Vswitchd.Start()
	checkTrace(t, o, m, m.Lower, m.Bridge, m.NIC, m.Upper)

	o.SetTestbedFlows(m)
	o.Server.Pause()
	o.Server.Continue()
	o.Server.Stop()
	o.Server.Start()
	o.Vswitchd.Pause()
	o.Vswitchd.Continue()
	checkTrace(t, o, m, m.Lower)

	o.Vswitchd.Stop()
	o.Vswitchd.Start()
	checkTrace(t, o, m, m.Lower, m.Bridge, m.NIC, m.Upper)
}
