package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

const (
	vmSet    = "vms17-8"
	numPorts = 120
)

// A testbed is a real switch whose ports a running agent serves.
type testbed struct {
	t     *testing.T
	ovs   *ovstest.OVS
	muxes []ovstest.Mux
}

// TestTestbed is one night of a testbed in short: Terraform sets the sides of 120 ports on a real Open vSwitch, the agent
// is restarted, somebody flips a port, Terraform sees it, and destroy leaves the testbed working. Between the steps the
// switch is asked where packets go.
func TestTestbed(t *testing.T) {
	terraform := lookTerraform(t)
	ovs := ovstest.Start(t)
	bed := &testbed{t: t, ovs: ovs, muxes: ovs.AddMuxes(vmSet, numPorts)}
	ovs.SetTestbedFlows(bed.muxes...)
	agent := agentproc.StartReady(t, agentproc.Config{VMSet: vmSet, RunDir: ovs.RunDir})
	tf := newWorkspace(t, terraform, buildProvider(t), agent.URL)
	tf.run("init", "-input=false")

	// The quickstart puts even ports on the upper ToR and odd ones on the lower; all of them start on the upper.
	want := make([]string, numPorts)
	for i := range want {
		want[i] = []string{api.UpperToR, api.LowerToR}[i%2]
	}
	tf.run("apply", "-input=false", "-auto-approve", "-var=ports="+strconv.Itoa(numPorts))
	bed.checkPackets(want)
	bed.checkStatus(agent, want)
	tf.wantPlan(planEmpty)

	agent.Stop()
	agent = agentproc.StartReady(t, agentproc.Config{VMSet: vmSet, RunDir: ovs.RunDir, Listen: agent.Address()})
	bed.checkStatus(agent, want)
	bed.checkPackets(want)
	tf.wantPlan(planEmpty)

	agent.Toggle(2)
	want[2] = api.LowerToR
	bed.checkPort(2, want[2])
	bed.checkCounters(2, want[2])
	bed.checkStatus(agent, want)
	tf.wantPlan(planChanges)

	tf.run("destroy", "-input=false", "-auto-approve", "-var=ports="+strconv.Itoa(numPorts))
	bed.checkPackets(want)
	bed.checkStatus(agent, want)
}

// checkPackets asks for every port where packets from its server and from both of its ToRs come out.
func (b *testbed) checkPackets(want []string) {
	b.t.Helper()
	for i, side := range want {
		b.checkPort(i, side)
	}
}

// checkPort: what the server sends reaches both ToRs, what the active ToR sends reaches the server, and what the standby
// ToR sends goes nowhere.
func (b *testbed) checkPort(i int, side string) {
	b.t.Helper()
	cabletest.Switch(b.ovs.Trace).Check(b.t, b.muxes[i], side)
}

// checkCounters sends packets into both ToR ports and counts how many the switch sent to the server.
func (b *testbed) checkCounters(i int, side string) {
	b.t.Helper()
	mux := b.muxes[i]
	if b.ovs.HasVeths() {
		b.ovs.CheckSent(mux.Bridge, mux.Ways(side))
		return
	}
	active, standby := mux.Upper, mux.Lower
	if side == api.LowerToR {
		active, standby = standby, active
	}
	const packets = 10
	for from, want := range map[string]int{active: packets, standby: 0} {
		before := b.sentTo(mux.Bridge, mux.NIC)
		for range packets {
			b.ovs.Appctl("netdev-dummy/receive", from,
				"in_port(1),eth(src=52:54:00:00:00:01,dst=52:54:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17)")
		}
		if got := b.sentTo(mux.Bridge, mux.NIC) - before; got != want {
			b.t.Errorf("%s, active side %s: %d of %d packets from %s reached the server, want %d",
				mux.Bridge, side, got, packets, from, want)
		}
	}
}

// sentTo is the number of packets that the switch has sent out of a port.
func (b *testbed) sentTo(bridge, port string) int {
	b.t.Helper()
	number := b.ovs.Ports(bridge)[port]
	out := b.ovs.Ofctl("dump-ports", bridge, strconv.Itoa(int(number)))
	_, sent, found := strings.Cut(out, "tx pkts=")
	sent, _, _ = strings.Cut(sent, ",")
	n, err := strconv.Atoi(sent)
	if !found || err != nil {
		b.t.Fatalf("no count of sent packets in %q", out)
	}
	return n
}

// checkStatus compares what the agent reports of every port: the wanted side, healthy.
func (b *testbed) checkStatus(agent *agentproc.Agent, want []string) {
	b.t.Helper()
	muxes := agent.Statuses()
	if len(muxes) != len(want) {
		b.t.Errorf("the agent reports %d muxes, want %d", len(muxes), len(want))
	}
	for i, side := range want {
		status := muxes[b.muxes[i].Bridge]
		if status.ActiveSide != side || !status.Healthy || status.PortIndex != i {
			b.t.Errorf("the agent reports %+v for port %d, want it healthy with active side %s", status, i, side)
		}
	}
}
