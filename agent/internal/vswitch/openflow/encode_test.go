package openflow

import (
	"encoding/hex"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
)

// ofpPrint returns what Open vSwitch's own decoder reads in a message.
func ofpPrint(t *testing.T, b []byte) string {
	t.Helper()
	path := lack.Program(t, "ovs-ofctl", "apt-get install openvswitch-switch")
	out, err := exec.CommandContext(t.Context(), path, "ofp-print", hex.EncodeToString(b)).CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-ofctl ofp-print: %v\n%s", err, out)
	}
	return string(out)
}

func TestMessagesReadByOVS(t *testing.T) {
	bundled := func(command uint8, f cable.Flow) []byte { return appendBundled(nil, 14, 5, command, f) }
	const inBundle = "OFPT_BUNDLE_ADD_MESSAGE (OF1.4) (xid=0xe):\n bundle_id=0x5 flags=atomic ordered\nOFPT_FLOW_MOD (OF1.4) (xid=0xe): "
	for name, c := range map[string]struct {
		message []byte
		want    string
	}{
		"hello":                   {appendHello(nil, 7), "OFPT_HELLO (OF1.4) (xid=0x7):\n version bitmap: 0x05"},
		"echo reply":              {appendEchoReply(nil, message{xid: 9, body: []byte("abc")}), "OFPT_ECHO_REPLY (OF1.4) (xid=0x9): 3 bytes of payload"},
		"barrier":                 {appendEmpty(nil, typeBarrierReq, 8), "OFPT_BARRIER_REQUEST (OF1.4) (xid=0x8):"},
		"set config":              {appendAsync(nil, 10)[:12], "OFPT_SET_CONFIG (OF1.4) (xid=0xa): frags=normal miss_send_len=128"},
		"set async":               {appendAsync(nil, 10)[12:], "OFPT_SET_ASYNC (OF1.4) (xid=0xa):\n primary:\n       PACKET_IN: (off)\n     PORT_STATUS: add delete modify\n    FLOW_REMOVED: idle hard delete group_delete\n"},
		"ports":                   {appendPortsRequest(nil, 11), "OFPST_PORT_DESC request (OF1.4) (xid=0xb): port=ANY"},
		"flows":                   {appendFlowsRequest(nil, 12), "OFPST_FLOW request (OF1.4) (xid=0xc):\n"},
		"monitor":                 {appendMonitorRequest(nil, 12, allChanges), "OFPST_FLOW_MONITOR request (OF1.4) (xid=0xc):\n id=1 flags=add,delete,modify"},
		"open":                    {appendBundleControl(nil, 13, 5, bundleOpen), "OFPT_BUNDLE_CONTROL (OF1.4) (xid=0xd):\n bundle_id=0x5 type=OPEN_REQUEST flags=atomic ordered"},
		"commit":                  {appendBundleControl(nil, 13, 5, bundleCommit), "OFPT_BUNDLE_CONTROL (OF1.4) (xid=0xd):\n bundle_id=0x5 type=COMMIT_REQUEST flags=atomic ordered"},
		"discard":                 {appendBundleControl(nil, 13, 5, bundleDiscard), "OFPT_BUNDLE_CONTROL (OF1.4) (xid=0xd):\n bundle_id=0x5 type=DISCARD_REQUEST flags=atomic ordered"},
		"flush":                   {bundled(flowDelete, everything), inBundle + "DEL table:255 priority=0 actions=drop"},
		"delete":                  {bundled(flowDeleteStrict, cable.NewFlow(3)), inBundle + "DEL_STRICT in_port=3 actions=drop"},
		"delete any":              {bundled(flowDeleteStrict, cable.Flow{Table: 3, Priority: 9}), inBundle + "DEL_STRICT table:3 priority=9 actions=drop"},
		"add a drop":              {bundled(flowAdd, cable.NewFlow(3)), inBundle + "ADD in_port=3 actions=drop"},
		"add":                     {bundled(flowAdd, cable.NewFlow(3, 1)), inBundle + "ADD in_port=3 actions=output:1"},
		"add two":                 {bundled(flowAdd, cable.NewFlow(3, 65279, 1)), inBundle + "ADD in_port=3 actions=output:1,output:65279"},
		"delete keeps no outputs": {bundled(flowDeleteStrict, cable.NewFlow(3, 1)), inBundle + "DEL_STRICT in_port=3 actions=drop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ofpPrint(t, c.message)
			if strings.Contains(got, "NXST_FLOW_MONITOR has bad flags") {
				return // it is older than 3.0, and takes this for another request
			}
			if !strings.HasPrefix(strings.TrimRight(got, "\n")+"\n", c.want) {
				t.Errorf("OVS reads\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// messages splits b, and checks that nothing is left over. It also returns what OVS reads in them.
func messages(t *testing.T, b []byte) (all []message, printed string) {
	t.Helper()
	for len(b) > 0 {
		m, n, err := next(b)
		if err != nil || n == 0 {
			t.Fatalf("next: %d bytes, error %v, of %x", n, err, b)
		}
		all = append(all, m)
		printed += ofpPrint(t, b[:n])
		b = b[n:]
	}
	return all, printed
}

func TestUpdateIsOneBundle(t *testing.T) {
	up := cable.NewFlow(1, 2, 3)
	upperActive := [2]cable.Flow{up, cable.NewFlow(2, 1)}
	lowerActive := [2]cable.Flow{up, cable.NewFlow(3, 1)}
	nicDropped := [2]cable.Flow{up, cable.NewFlow(2)}
	foreign := cable.Flow{InPort: 2, Match: "tcp", Out: [2]uint32{1}}

	for name, c := range map[string]struct {
		update cable.Update
		want   []string
	}{
		"toggle": {
			cable.Update{Want: lowerActive, Have: upperActive, Known: true},
			[]string{"DEL_STRICT in_port=2 actions=drop", "ADD in_port=3 actions=output:1"},
		},
		"drop": {
			cable.Update{Want: nicDropped, Have: upperActive, Known: true},
			[]string{"ADD in_port=2 actions=drop"},
		},
		"nobody knows what stands there": {
			cable.Update{Want: upperActive},
			[]string{"DEL table:255 priority=0 actions=drop", "ADD in_port=1 actions=output:2,output:3", "ADD in_port=2 actions=output:1"},
		},
		"a flow that cannot be named": {
			cable.Update{Want: upperActive, Have: [2]cable.Flow{up, foreign}, Known: true},
			[]string{"DEL table:255 priority=0 actions=drop", "ADD in_port=1 actions=output:2,output:3", "ADD in_port=2 actions=output:1"},
		},
		"nothing to do": {cable.Update{Want: upperActive, Have: upperActive, Known: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frames, last, err := appendUpdate(nil, 40, c.update)
			if err != nil {
				t.Fatal(err)
			}
			all, printed := messages(t, frames)
			for i, m := range all {
				if want := 40 + uint32(i); m.xid != want {
					t.Errorf("message %d has xid %d, want %d", i, m.xid, want)
				}
				if id := be.Uint32(m.body); id != 40 {
					t.Errorf("message %d is of bundle %d, want 40", i, id)
				}
			}
			if got := all[len(all)-1].xid; got != last {
				t.Errorf("last xid is %d, said to be %d", got, last)
			}

			mods := regexp.MustCompile(`OFPT_FLOW_MOD .*: (.*)`).FindAllStringSubmatch(printed, -1)
			var got []string
			for _, m := range mods {
				got = append(got, m[1])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("flow mods (-want +got):\n%s", diff)
			}
			kinds := regexp.MustCompile(`type=(\w+)`).FindAllString(printed, -1)
			if want := []string{"type=OPEN_REQUEST", "type=COMMIT_REQUEST"}; !slices.Equal(kinds, want) {
				t.Errorf("bundle controls are %q, want %q", kinds, want)
			}
		})
	}
}

// A flow without an in-port would take every packet of the bridge, and a port that OVS does not know is refused only when
// the rest of the bundle can no longer be stopped.
func TestUpdateRefusesWhatNoMuxHas(t *testing.T) {
	good := cable.NewFlow(1, 2)
	for name, bad := range map[string]cable.Flow{
		"no in-port":            cable.NewFlow(0, 1),
		"reserved in-port":      cable.NewFlow(portLocal, 1),
		"reserved output":       cable.NewFlow(1, portNormal),
		"second output alone":   {InPort: 1, Out: [2]uint32{0, 2}},
		"more in the match":     {InPort: 1, Match: "tcp"},
		"more than an output":   {InPort: 1, Action: cable.Normal},
		"a table that is all":   {InPort: 1, Table: allTables},
		"number above the last": cable.NewFlow(1, lastPort+1),
	} {
		frames, _, err := appendUpdate(nil, 1, cable.Update{Want: [2]cable.Flow{good, bad}})
		if err == nil || len(frames) > 0 {
			t.Errorf("%s: error %v, %d bytes to send, want an error and nothing", name, err, len(frames))
		}
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 512)
	f := cable.NewFlow(1, 2, 3)
	if n := testing.AllocsPerRun(100, func() {
		b := appendBundleControl(buf, 1, 1, bundleOpen)
		b = appendBundled(b, 2, 1, flowDeleteStrict, f)
		b = appendBundled(b, 3, 1, flowAdd, f)
		_ = appendBundleControl(b, 4, 1, bundleCommit)
	}); n != 0 {
		t.Errorf("a bundle takes %v allocations, want none", n)
	}
}

func TestErrorNamesAreThoseOfOVS(t *testing.T) {
	check := func(e Error) {
		b := appendHeader(nil, typeError, 7)
		b = be.AppendUint16(b, e.Type)
		b = be.AppendUint16(b, e.Code)
		if e.Type == errExperimenter {
			b = be.AppendUint32(b, e.Experimenter)
		}
		b = patchLength(b, 0)
		got := parseError(b[headerLen:])
		if diff := cmp.Diff(&e, got); diff != "" {
			t.Errorf("parseError (-want +got):\n%s", diff)
		}
		printed, _, _ := strings.Cut(ofpPrint(t, b), "\n") // then OVS misses the message that the error is about
		want, ok := strings.CutPrefix(printed, "OFPT_ERROR (OF1.4) (xid=0x7): ")
		if strings.HasPrefix(want, "***decode error") {
			want = "a fallback"
			ok = strings.HasPrefix(got.Error(), "OpenFlow error")
		} else {
			ok = ok && got.Error() == want
		}
		if !ok {
			t.Errorf("error %d/%d is %q, want %s", e.Type, e.Code, got.Error(), want)
		}
	}
	for _, kind := range []uint16{0, 1, 2, 3, 4, 5, 10, 15, 17} {
		for code := range len(strings.Fields(errorFamily(kind).codes)) + 1 {
			check(Error{Type: kind, Code: uint16(code)})
		}
	}
	for code := range len(strings.Fields(niciraErrors)) {
		check(Error{Type: errExperimenter, Code: uint16(code), Experimenter: nicira})
	}
}
