package openflow

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// What no Open vSwitch at hand sends, and what it never should.
func TestUnknownPartsBecomeText(t *testing.T) {
	for name, c := range map[string]struct {
		match, instructions string // in hex
		want                cable.Flow
	}{
		"plain drop":            {"0001000c 80000004 00000007 00000000", "", cable.Flow{InPort: 7}},
		"outputs in order":      {"00010004 00000000", "0004002800000000 0000001000000003 0000000000000000 0000001000000002 0000000000000000", cable.Flow{Out: [2]uint32{2, 3}}},
		"field of no class":     {"0001000b 1234560 3aabbcc 0000000000", "", cable.Flow{Match: "oxm_0x1234_43=0xaabbcc"}},
		"field with a mask":     {"0001000a 12345702 aabb 000000000000", "", cable.Flow{Match: "oxm_0x1234_43=0xaa/0xbb"}},
		"field of a bad length": {"00010009 80000001 07 00000000000000", "", cable.Flow{Match: "oxm_0x8000_0=0x07"}},
		"in-port with a mask":   {"00010010 80000108 00000007 0000000f", "", cable.Flow{Match: "in_port=0x7/0xf"}},
		"in-port of none":       {"0001000c 80000004 00000000 00000000", "", cable.Flow{Match: "in_port=0"}},
		"an odd mask":           {"00010010 80001908 0a000001 ff0000ff", "", cable.Flow{Match: "nw_dst=10.0.0.1/255.0.0.255"}},
		"standard match":        {"00000008 deadbeef", "", cable.Flow{Match: "match(0x0,deadbeef)"}},
		"unknown instruction":   {"00010004 00000000", "00630008 deadbeef", cable.Flow{Action: "instruction(0x63,deadbeef)"}},
		"meter":                 {"00010004 00000000", "00060008 00000005", cable.Flow{Action: "meter:5"}},
		"cut instruction":       {"00010004 00000000", "00040004", cable.Flow{Action: "instruction(0x4,)"}},
		"unknown action":        {"00010004 00000000", "0004001000000000 00630008 deadbeef", cable.Flow{Action: "action(0x63,deadbeef)"}},
		"cut action":            {"00010004 00000000", "0004000c00000000 00000004", cable.Flow{Action: "action(0x0,)"}},
		"experimenter":          {"00010004 00000000", "0004001000000000 ffff0008 00002320", cable.Flow{Action: "experimenter(0x2320,)"}},
		"three outputs": {
			"00010004 00000000",
			"0004003800000000 0000001000000003 0000000000000000 0000001000000002 0000000000000000 0000001000000001 0000000000000000",
			cable.Flow{Action: "output:3,output:2,output:1"},
		},
		"the same output twice": {
			"00010004 00000000", "0004002800000000 0000001000000003 0000000000000000 0000001000000003 0000000000000000",
			cable.Flow{Action: "output:3,output:3"},
		},
	} {
		stats := flowStats(t, c.match+c.instructions)
		got, err := parseFlows(nil, stats)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: flows %v, error %v", name, got, err)
			continue
		}
		if diff := cmp.Diff(c.want, got[0].Flow); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// flowStats returns the statistics of a flow, with the given match and instructions in hex.
func flowStats(t *testing.T, text string) []byte {
	t.Helper()
	var digits []byte
	for _, c := range []byte(text) {
		if c != ' ' {
			digits = append(digits, c)
		}
	}
	rest, err := hex.DecodeString(string(digits))
	if err != nil {
		t.Fatal(err)
	}
	b := append(make([]byte, flowStatsLen), rest...)
	be.PutUint16(b, uint16(len(b)))
	return b
}

func TestBrokenFlowsAreErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no match":                    "",
		"match too long":              "00010040 00000000",
		"match without its padding":   "0001000c 80000004 00000007",
		"match shorter than itself":   "00010003 00000000",
		"field too long":              "0001000c 80000008 00000007 00000000",
		"half a field":                "00010006 8000 0000",
		"instruction too long":        "00010004 00000000 00040020 00000000",
		"half an instruction":         "00010004 00000000 0004",
		"action too long":             "00010004 00000000 0004001000000000 00000020 00000000",
		"action of no length":         "00010004 00000000 0004001000000000 00000000 00000000",
		"written action of no length": "00010004 00000000 0003001000000000 00000000 00000000",
	} {
		if flows, err := parseFlows(nil, flowStats(t, text)); err == nil {
			t.Errorf("%s: read as %v, want an error", name, flows)
		}
	}
	long := flowStats(t, "00010004 00000000")
	be.PutUint16(long, uint16(len(long)+1))
	for _, b := range [][]byte{long, long[:10]} {
		if flows, err := parseFlows(nil, b); err == nil {
			t.Errorf("statistics cut short: read as %v, want an error", flows)
		}
	}
}

func TestBrokenPortsAreErrors(t *testing.T) {
	port := make([]byte, portLen)
	be.PutUint16(port[4:], portLen)
	if ports, err := parsePorts(nil, port); err != nil || len(ports) != 1 {
		t.Fatalf("ports %v, error %v", ports, err)
	}
	for name, b := range map[string][]byte{
		"cut":       port[:portLen-1],
		"too long":  append([]byte{0, 0, 0, 1, 0, 80}, port[6:]...),
		"too short": append([]byte{0, 0, 0, 1, 0, 8}, port[6:]...),
	} {
		if ports, err := parsePorts(nil, b); err == nil {
			t.Errorf("%s: read as %v, want an error", name, ports)
		}
	}
}

// FuzzDecode feeds a stream, as a switch might send it, to all that reads one. Nothing may panic, nor read a flow as one
// of a mux's that it would be written as differently.
func FuzzDecode(f *testing.F) {
	f.Add(appendHello(nil, 1))
	f.Add(errorReply(7, &Error{Type: 5, Code: 1}))
	f.Fuzz(func(t *testing.T, stream []byte) {
		for len(stream) > 0 {
			m, n, err := next(stream)
			if err != nil || n == 0 {
				return
			}
			if n < headerLen || len(m.body) != n-headerLen {
				t.Fatalf("message of %d bytes with a body of %d", n, len(m.body))
			}
			stream = stream[n:]
			decode(t, m)
		}
	})
}

func decode(t *testing.T, m message) {
	switch m.kind {
	case typeHello:
		speaksOurs(m)
	case typeError:
		if parseError(m.body).Error() == "" {
			t.Error("an error without words")
		}
	case typeMultipartRep:
		kind, entries, _, err := multipart(m)
		if err != nil {
			return
		}
		if kind == multipartPortDesc {
			_, _ = parsePorts(nil, entries)
		}
		checkForeign(t, entries)
		flows, _ := parseFlows(nil, entries)
		for _, flow := range flows {
			if addable(&flow.Flow) != nil {
				continue
			}
			again, err := parseFlows(nil, appendEntryStats(nil, &flow))
			if err != nil || len(again) != 1 || again[0] != flow {
				t.Errorf("%v is written and read as %v, error %v", flow, again, err)
			}
		}
	}
}
