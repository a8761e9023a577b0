package ofctl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

func TestParseDump(t *testing.T) {
	const stats = " cookie=0x0, duration=3.59s, table=0, n_packets=7, n_bytes=420, "
	for _, tt := range []struct {
		name string
		line string
		want cable.Flow
	}{
		{"upstream", stats + "in_port=1 actions=output:3,output:2", cable.NewFlow(1, 2, 3)},
		{"downstream", stats + "in_port=3 actions=output:1", cable.NewFlow(3, 1)},
		{"drop", stats + "reset_counts in_port=3 actions=drop", cable.NewFlow(3)},
		{"everything", stats + "actions=drop", cable.Flow{Priority: 32768}},
		{"a real priority 0", stats + "priority=0 actions=NORMAL", cable.Flow{Action: cable.Normal}},
		{"a real priority 0 of our shape", stats + "priority=0,in_port=3 actions=output:1", cable.Flow{InPort: 3, Out: [2]uint32{1}}},
		{"local port", stats + "in_port=LOCAL actions=LOCAL", cable.Flow{Priority: 32768, InPort: 0xfffffffe, Action: "LOCAL"}},
		{
			"other table", "cookie=0x5, duration=1s, table=4, n_packets=0, n_bytes=0, send_flow_rem priority=5 actions=write_actions(output:2),goto_table:5",
			cable.Flow{Table: 4, Priority: 5, Flags: cable.FlagSendFlowRem, Action: "write_actions(output:2),goto_table:5"},
		},
		{
			"timeouts and flags", stats + "idle_timeout=60, hard_timeout=90, idle_age=3, hard_age=4, importance=2, send_flow_rem check_overlap in_port=3 actions=output:1",
			cable.Flow{Priority: 32768, InPort: 3, Out: [2]uint32{1}, IdleTimeout: 60, HardTimeout: 90, Flags: cable.FlagSendFlowRem},
		},
		{
			"protocol", stats + "priority=5,ip,in_port=3 actions=output:1",
			cable.Flow{Priority: 5, InPort: 3, Match: "ip", Out: [2]uint32{1}},
		},
		{
			"match that go-openvswitch does not know", stats + "in_port=3,nw_frag=later,pkt_mark=0x1/0x1 actions=output:1",
			cable.Flow{Priority: 32768, InPort: 3, Match: "nw_frag=later,pkt_mark=0x1/0x1", Out: [2]uint32{1}},
		},
		{"action that go-openvswitch does not know", stats + "in_port=3 actions=group:7", cable.Flow{Priority: 32768, InPort: 3, Action: "group:7"}},
		{
			"actions with commas inside", stats + "in_port=3 actions=learn(table=1,NXM_OF_VLAN_TCI[0..11],output:NXM_OF_IN_PORT[]),output:1",
			cable.Flow{Priority: 32768, InPort: 3, Action: "learn(table=1,NXM_OF_VLAN_TCI[0..11],output:NXM_OF_IN_PORT[]),output:1"},
		},
		{
			"three outputs", stats + "in_port=3 actions=output:1,output:2,output:4",
			cable.Flow{Priority: 32768, InPort: 3, Action: "output:1,output:2,output:4"},
		},
		{
			"the same output twice", stats + "in_port=3 actions=output:1,output:1",
			cable.Flow{Priority: 32768, InPort: 3, Action: "output:1,output:1"},
		},
		{
			"output and more", stats + "in_port=3 actions=output:1,CONTROLLER:65535",
			cable.Flow{Priority: 32768, InPort: 3, Action: "output:1,CONTROLLER:65535"},
		},
		{
			"output to what a field says", stats + "in_port=3 actions=output:NXM_NX_REG0[]",
			cable.Flow{Priority: 32768, InPort: 3, Action: "output:NXM_NX_REG0[]"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "OFPST_FLOW reply (OF1.4) (xid=0x2):\n" + tt.line + "\nOFPST_FLOW reply (OF1.4) (xid=0x2):\n"
			got, err := parseDump([]byte(text))
			if diff := cmp.Diff([]cable.Flow{tt.want}, flows(got)); diff != "" || err != nil {
				t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
			}
		})
	}
}

func flows(entries []cable.Entry) []cable.Flow {
	var flows []cable.Flow
	for _, e := range entries {
		flows = append(flows, e.Flow)
	}
	return flows
}

func TestParseDumpReadsWhatChanges(t *testing.T) {
	got, err := parseDump([]byte(" cookie=0x6d75000000000abc, duration=3.59s, table=0, n_packets=7, n_bytes=420, in_port=3 actions=output:1"))
	want := []cable.Entry{{Flow: cable.NewFlow(3, 1), Cookie: cable.NewCookie(cable.Base, 0xabc), Age: 3590 * time.Millisecond, Packets: 7}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
	}
}

func TestParseDumpRefusesWhatItCannotRead(t *testing.T) {
	for _, line := range []string{
		"ovs-ofctl: something went wrong",
		"table=256, actions=drop",
		"priority=high actions=drop",
		"in_port=p0.3216 actions=drop",
	} {
		if flows, err := parseDump([]byte(line)); err == nil {
			t.Errorf("%q is read as %v, want an error", line, flows)
		}
	}
}

// Whatever ovs-ofctl prints is an error or flows that say which they are: of a line that has more than a mux's flow has, the
// rest is kept in words.
func FuzzParseDump(f *testing.F) {
	f.Add("NXST_FLOW reply (xid=0x4):\n cookie=0x0, duration=3.59s, table=0, n_packets=7, n_bytes=420, in_port=1 actions=output:3,output:2\n")
	f.Add(" cookie=0x6d75000000000000, duration=1s, table=4, idle_timeout=60, send_flow_rem priority=5,ip,in_port=LOCAL actions=drop")
	f.Add("duration=1s priority=0 actions=write_actions(output:2),goto_table:5")
	f.Fuzz(func(t *testing.T, text string) {
		flows, err := parseDump([]byte(text))
		if lines := strings.Count(text, "\n") + 1; len(flows) > lines {
			t.Errorf("%d flows of %d lines", len(flows), lines)
		}
		if err == nil && strings.Contains(text, "actions=") && !strings.Contains(text, "ST_FLOW reply") && len(flows) == 0 {
			t.Error("no flow, and no error")
		}
		for _, flow := range flows {
			if proper := slices.Contains([]cable.Flow{cable.NewFlow(1, 2, 3), cable.NewFlow(3, 1)}, flow.Flow); proper && strings.Count(text, "\n") == 0 {
				if again, err := parseFlow(strings.TrimSpace(text) + ",nw_frag=later"); err == nil && again.Flow == flow.Flow {
					t.Errorf("more in the action made no difference: %q", text)
				}
			}
		}
	})
}
