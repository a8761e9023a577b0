package openflow

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// wanted returns the flows of a mux on a real switch, with one side active.
func wanted(o *ovstest.OVS, m ovstest.Mux, side cable.Side) [2]cable.Flow {
	n := o.Ports(m.Bridge)
	return cable.Ports{{Number: n[m.NIC]}, {Number: n[m.Upper]}, {Number: n[m.Lower]}}.Want(cable.State{Active: side})
}

func mustApply(t *testing.T, p *Pool, updates ...cable.Update) {
	t.Helper()
	for i, err := range apply(t, p, updates...) {
		if err != nil {
			t.Fatalf("update %d: %v", i, err)
		}
	}
}

// checkFlowsOf compares what the pool reads with want.
func checkFlowsOf(t *testing.T, p *Pool, bridge string, want [2]cable.Flow) {
	t.Helper()
	got, err := p.Flows(t.Context(), bridge)
	if err != nil {
		t.Fatal(err)
	}
	checkFlows(t, got, [2]cable.Flow{want[0], want[1]})
}

func TestToggleOnOVS(t *testing.T) {
	o := ovstest.Start(t)
	muxes := o.AddMuxes("vms1", 3)
	pool := newPool(t, o.RunDir, 0)

	var first, second []cable.Update
	for _, m := range muxes {
		upper, lower := wanted(o, m, cable.UpperToR), wanted(o, m, cable.LowerToR)
		first = append(first, cable.Update{Bridge: m.Bridge, Want: upper})
		second = append(second, cable.Update{Bridge: m.Bridge, Have: upper, Want: lower, Known: true})
	}
	mustApply(t, pool, first...)
	for i, m := range muxes {
		checkFlowsOf(t, pool, m.Bridge, first[i].Want)
		cabletest.Switch(o.Trace).Check(t, m, api.UpperToR)
	}
	mustApply(t, pool, second...)
	for i, m := range muxes {
		checkFlowsOf(t, pool, m.Bridge, second[i].Want)
		cabletest.Switch(o.Trace).Check(t, m, api.LowerToR)
	}
	// The bundle of a change that changes nothing is empty.
	mustApply(t, pool, cable.Update{Bridge: muxes[0].Bridge, Have: second[0].Want, Want: second[0].Want, Known: true})
	checkFlowsOf(t, pool, muxes[0].Bridge, second[0].Want)
}

// OVS finds at the commit that a table is full, and rolls back.
func TestOVSRefusesACommit(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 0)
	upper, lower := wanted(o, m, cable.UpperToR), wanted(o, m, cable.LowerToR)
	mustApply(t, pool, cable.Update{Bridge: m.Bridge, Want: upper})
	o.Vsctl("--", "--id=@t", "create", "Flow_Table", "flow_limit=1", "overflow_policy=refuse", "--", "set", "Bridge", m.Bridge, "flow_tables:0=@t")

	toggle := cable.Update{Bridge: m.Bridge, Have: upper, Want: lower, Known: true}
	failed := switchError(t, apply(t, pool, toggle)[0])
	if refused, ok := errors.AsType[*Error](failed); !ok || refused.Name() != "OFPFMFC_TABLE_FULL" || failed.Unknown || failed.Retryable {
		t.Errorf("%#v, want OFPFMFC_TABLE_FULL, not Unknown and not Retryable", failed)
	}
	checkFlowsOf(t, pool, m.Bridge, upper)
	cabletest.Switch(o.Trace).Check(t, m, api.UpperToR)

	o.Vsctl("clear", "Bridge", m.Bridge, "flow_tables")
	mustApply(t, pool, toggle)
	checkFlowsOf(t, pool, m.Bridge, lower)
}

func TestOVSExcludesTheVersion(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 0)
	for _, protocols := range []string{"OpenFlow10", "OpenFlow13", "OpenFlow15", "OpenFlow10,OpenFlow15"} {
		o.Vsctl("set", "Bridge", m.Bridge, "protocols="+protocols)
		_, err := Dial(wait.Context(t), filepath.Join(o.RunDir, m.Bridge+".mgmt"))
		if _, ok := errors.AsType[*VersionError](err); !ok {
			t.Errorf("%s: error %v, want a *VersionError", protocols, err)
			continue
		}
		// Do what it says.
		command := regexp.MustCompile(`ovs-vsctl (clear bridge \S+ protocols)`).FindStringSubmatch(err.Error())
		if command == nil {
			t.Fatalf("%q has no command", err)
		}
		o.Vsctl(strings.Fields(command[1])...)
		if _, err := pool.Flows(t.Context(), m.Bridge); err != nil {
			t.Errorf("%s: after %q: %v", protocols, command[0], err)
		}
	}
}

func TestVswitchdRestarts(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 0)
	u := cable.Update{Bridge: m.Bridge, Want: wanted(o, m, cable.UpperToR)}
	mustApply(t, pool, u)

	o.Vswitchd.Stop()
	if _, err := pool.Flows(t.Context(), m.Bridge); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
	o.Vswitchd.Start()
	got, err := pool.Flows(t.Context(), m.Bridge)
	if diff := gocmp.Diff([]cable.Flow{{Action: cable.Normal}}, got); diff != "" || err != nil {
		t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
	}
	mustApply(t, pool, u)
	checkFlowsOf(t, pool, m.Bridge, u.Want)
}

// A switch that does not answer in time may do the change later.
func TestVswitchdHangs(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 300*time.Millisecond)
	u := cable.Update{Bridge: m.Bridge, Want: wanted(o, m, cable.UpperToR)}
	for { // the first one dials, which takes its time on a busy machine
		if err := apply(t, pool, u)[0]; err == nil {
			break
		}
	}
	u.Have, u.Want, u.Known = u.Want, wanted(o, m, cable.LowerToR), true
	o.Vswitchd.Pause()
	if failed := switchError(t, apply(t, pool, u)[0]); !failed.Unknown || !failed.Retryable {
		t.Errorf("%#v, want it Unknown and Retryable", failed)
	}
	o.Vswitchd.Continue()
	// The same connection: OVS reads what came first, first.
	for {
		got, err := pool.Flows(t.Context(), m.Bridge)
		if errors.Is(err, errNoAnswer) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checkFlows(t, got, u.Want)
		break
	}
}

func TestPortsOfOVS(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	c, err := Dial(wait.Context(t), filepath.Join(o.RunDir, m.Bridge+".mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ports, err := c.Ports(wait.Context(t), false)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint32{}
	for _, port := range ports {
		if port.Number != portLocal {
			got[port.Name] = port.Number
		} else if port.Name != m.Bridge {
			t.Errorf("local port is %q", port.Name)
		}
	}
	if diff := gocmp.Diff(o.Ports(m.Bridge), got); diff != "" {
		t.Errorf("ports (-ovs +got):\n%s", diff)
	}
}

// TestForeignFlows reads flows that people write, and compares the words with those of ovs-ofctl.
func TestForeignFlows(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 0)
	for flow, want := range map[string]cable.Flow{
		"in_port=1,actions=output:3,output:2": {Priority: 32768, InPort: 1, Out: [2]uint32{2, 3}},
		"priority=0,actions=NORMAL":           {Action: cable.Normal},
		"table=3,priority=7,actions=LOCAL":    {Table: 3, Priority: 7, Action: "LOCAL"},
		"in_port=1,actions=1,2,3":             {Priority: 32768, InPort: 1, Action: "output:1,output:2,output:3"},
		"priority=3,in_port=LOCAL,tcp,tp_dst=0x50/0xfff0,actions=controller:100": {
			Priority: 3, InPort: portLocal, Match: "tcp,tp_dst=0x50/0xfff0", Action: "CONTROLLER:100",
		},
		"priority=4,ip,nw_src=10.0.0.0/8,nw_dst=1.2.3.4,nw_tos=32,actions=drop": {
			Priority: 4, Match: "ip,nw_src=10.0.0.0/8,nw_dst=1.2.3.4,nw_tos=32",
		},
		"priority=5,dl_vlan=7,dl_vlan_pcp=3,actions=strip_vlan,output:1": {
			Priority: 5, Match: "dl_vlan=7,dl_vlan_pcp=3", Action: "pop_vlan,output:1",
		},
		"priority=6,vlan_tci=0x1000/0x1000,actions=flood": {Priority: 6, Match: "vlan_tci=0x1000/0x1000", Action: "FLOOD"},
		"priority=7,vlan_tci=0/0x1fff,actions=all":        {Priority: 7, Match: "vlan_tci=0x0000/0x1fff", Action: "ALL"},
		"priority=8,dl_src=00:11:22:33:44:55,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=in_port": {
			Priority: 8, Match: "dl_src=00:11:22:33:44:55,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", Action: "IN_PORT",
		},
		"priority=9,icmp6,icmp_type=135,nd_target=fe80::1,actions=drop": {Priority: 9, Match: "icmp6,icmp_type=135,nd_target=fe80::1"},
		"priority=10,udp6,ipv6_src=2001:db8::/32,tp_src=53,actions=mod_nw_ttl:3,dec_ttl,output:1": {
			Priority: 10, Match: "udp6,ipv6_src=2001:db8::/32,tp_src=53", Action: "mod_nw_ttl:3,dec_ttl,output:1",
		},
		"priority=11,metadata=0x12,reg3=0x5/0xff,actions=drop": {Priority: 11, Match: "reg3=0x5/0xff,metadata=0x12"},
		"priority=12,mpls,mpls_label=5,actions=pop_mpls:0x0800,output:1": {
			Priority: 12, Match: "mpls,mpls_label=5", Action: "pop_mpls:0x0800,output:1",
		},
		"priority=13,dl_type=0x88cc,actions=set_queue:4,push_vlan:0x8100,output:1": {
			Priority: 13, Match: "dl_type=0x88cc", Action: "set_queue:4,push_vlan:0x8100,output:1",
		},
		"priority=14,in_port=1,actions=write_metadata:0x5/0xff,goto_table:4": {
			Priority: 14, InPort: 1, Action: "write_metadata:0x5/0xff,goto_table:4",
		},
		"priority=15,in_port=1,actions=set_field:10->reg2,clear_actions,write_actions(output:1)": {
			Priority: 15, InPort: 1, Action: "set_field:0xa->reg2,clear_actions,write_actions(output:1)",
		},
	} {
		o.Ofctl("del-flows", m.Bridge)
		o.Ofctl("-OOpenFlow14", "add-flow", m.Bridge, flow)
		got, err := pool.Flows(t.Context(), m.Bridge)
		if diff := gocmp.Diff([]cable.Flow{want}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, flows (-want +got):\n%s", flow, err, diff)
		}
		if want.Action == "" {
			continue // ports in ascending order, which is not always that of the text
		}
		printed := sortedWords(o.Ofctl("-OOpenFlow14", "--no-names", "--no-stats", "dump-flows", m.Bridge))
		if diff := gocmp.Diff(printed, sortedWords(strings.ReplaceAll(want.String(), "in_port=4294967294", "in_port=LOCAL"))); diff != "" {
			t.Errorf("words (-ovs-ofctl +ours):\n%s", diff)
		}
	}

	// What has no words here is told in full nevertheless.
	o.Ofctl("del-flows", m.Bridge)
	o.Ofctl("-OOpenFlow14", "add-flow", m.Bridge, "ct_state=+trk+est,actions=resubmit(,3)")
	got, err := pool.Flows(t.Context(), m.Bridge)
	want := []cable.Flow{{Priority: 32768, Match: "oxm_0x0001_105=0x00000022/0x00000022", Action: "experimenter(0x2320,000efff803000000)"}}
	if diff := gocmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
	}
}

// sortedWords splits a flow at blanks and commas.
func sortedWords(flow string) []string {
	words := strings.FieldsFunc(flow, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	slices.Sort(words)
	return words
}
