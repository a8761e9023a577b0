package ovstest_test

import (
	"fmt"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// Packets are counted by where they enter and come out, and by what they are.
func TestSentPacketsAreCounted(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t, ovstest.Veths())
	m := o.AddMuxes("vms17-8", 2)[1]
	all := []ovstest.Protocol{ovstest.UDP, ovstest.EchoRequest, ovstest.EchoReply, ovstest.ARP}

	// A new bridge is an ordinary switch.
	o.CheckSent(m.Bridge, map[string][]string{m.NIC: {m.Lower, m.Upper}, m.Upper: {m.Lower, m.NIC}, m.Lower: {m.NIC, m.Upper}}, all...)

	o.SetTestbedFlows(m)
	upper := m.Ways(api.UpperToR)
	o.CheckSent(m.Bridge, upper)
	o.CheckSent(m.Bridge, upper, all...)

	// Each kind can be told from the others.
	n := o.Ports(m.Bridge)
	for kind, match := range map[ovstest.Protocol]string{
		ovstest.UDP: "udp", ovstest.EchoRequest: "icmp,icmp_type=8", ovstest.EchoReply: "icmp,icmp_type=0", ovstest.ARP: "arp",
	} {
		flow := fmt.Sprintf("priority=40000,in_port=%d,%s", n[m.Upper], match)
		o.Ofctl("add-flow", m.Bridge, flow+",actions=drop")
		got := o.Send(m.Bridge, all...)
		for _, k := range all {
			want := 20
			if k == kind {
				want = 0
			}
			if got := got[ovstest.Way{From: m.Upper, To: m.NIC, Protocol: k}]; got != want {
				t.Errorf("with a drop of %v, %d of 20 %v packets reach the NIC, want %d", kind, got, k, want)
			}
		}
		o.Ofctl("--strict", "del-flows", m.Bridge, flow)
	}
	o.CheckSent(m.Bridge, upper, all...)
}

// What a person and a container do to devices stops packets, and no flow shows it.
func TestDevicesGoAndCome(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t, ovstest.Veths())
	m := o.AddMuxes("vms17-8", 1)[0]
	o.SetTestbedFlows(m)
	whole := m.Ways(api.UpperToR)
	toLower := map[string][]string{m.NIC: {m.Lower}}
	o.CheckSent(m.Bridge, whole)

	o.SetDown(m.Upper)
	o.CheckSent(m.Bridge, toLower)
	o.SetUp(m.Upper)
	o.CheckSent(m.Bridge, whole)

	o.Unplug(m.Upper)
	o.CheckSent(m.Bridge, toLower)
	o.Plug(m.Upper)
	o.CheckSent(m.Bridge, whole)

	o.DeleteDevice(m.Upper)
	o.CheckSent(m.Bridge, toLower)
	o.MakeDevice(m.Upper)
	o.Vsctl("del-port", m.Upper)
	o.AddPort(m.Bridge, m.Upper)
	o.SetTestbedFlows(m)
	o.CheckSent(m.Bridge, whole)
}
