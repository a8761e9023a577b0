package ofctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
)

// portLocal is OFPP_LOCAL, the bridge's own port (OpenFlow 1.4, 7.2.1).
const portLocal = 0xfffffffe

// parseDump reads what `ovs-ofctl --no-names dump-flows` prints (ovs-ofctl(8)). Whatever a mux's flow does not have is kept
// in words, so that no flow passes for another.
func parseDump(text []byte) ([]cable.Flow, error) {
	var flows []cable.Flow
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.Contains(line, "ST_FLOW reply") { // one for each message of a long answer
			continue
		}
		f, err := parseFlow(line)
		if err != nil {
			return nil, err
		}
		flows = append(flows, f)
	}
	return flows, nil
}

// notMatch are the fields of a line, and the flags, which say nothing about what a packet meets.
var notMatch = map[string]bool{
	"cookie": true, "duration": true, "n_packets": true, "n_bytes": true, "idle_age": true, "hard_age": true,
	"idle_timeout": true, "hard_timeout": true, "importance": true, "send_flow_rem": true, "check_overlap": true,
	"reset_counts": true, "no_packet_counts": true, "no_byte_counts": true,
}

func parseFlow(line string) (cable.Flow, error) {
	f := cable.Flow{Priority: cable.Priority} // which OVS doesn't print
	fields, actions, ok := strings.Cut(line, "actions=")
	if !ok {
		return f, fmt.Errorf("ovs-ofctl printed a flow without actions: %q", line)
	}
	var match []string
	isSeparator := func(r rune) bool { return r == ' ' || r == ',' }
	for _, field := range strings.FieldsFunc(fields, isSeparator) {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch {
		case key == "table":
			f.Table, err = parseUint[uint8](value, 8)
		case key == "priority":
			f.Priority, err = parseUint[uint16](value, 16)
		case key == "in_port" && value == "LOCAL":
			f.InPort = portLocal
		case key == "in_port":
			f.InPort, err = parseUint[uint32](value, 32)
		case !notMatch[key]:
			match = append(match, field)
		}
		if err != nil {
			return f, fmt.Errorf("ovs-ofctl printed a flow with a bad %s: %q", key, line)
		}
	}
	f.Match = strings.Join(match, ",")

	outputs, ok := parseOutputs(actions)
	if !ok {
		f.Action = actions
		return f, nil
	}
	shaped := cable.NewFlow(f.InPort, outputs...)
	f.Out = shaped.Out
	return f, nil
}

// parseOutputs reads actions that are at most two plain outputs to different ports. ok is false when they are anything else.
func parseOutputs(actions string) (ports []uint32, ok bool) {
	if actions == "drop" {
		return nil, true
	}
	for action := range strings.SplitSeq(actions, ",") {
		number, isOutput := strings.CutPrefix(action, "output:")
		port, err := parseUint[uint32](number, 32)
		if !isOutput || err != nil {
			return nil, false
		}
		ports = append(ports, port)
	}
	return ports, len(ports) == 1 || len(ports) == 2 && ports[0] != ports[1]
}

func parseUint[T uint8 | uint16 | uint32](s string, bits int) (T, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	return T(n), err
}

// parsePorts reads what `ovs-ofctl dump-ports-desc` prints of each port: a line " 1(p0): addr:…", and below it its "config:" and
// "state:", as words.
func parsePorts(text []byte) ([]openflow.Port, error) {
	var ports []openflow.Port
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "ST_PORT_DESC reply") { // one for each message of a long answer
			continue
		}
		key, words, _ := strings.Cut(line, ":")
		number, name, isPort := strings.Cut(strings.TrimSuffix(key, ")"), "(")
		switch {
		case isPort && strings.HasSuffix(key, ")"):
			p := openflow.Port{Name: name, Number: portLocal}
			if number != "LOCAL" {
				n, err := parseUint[uint32](number, 32)
				if err != nil {
					return nil, fmt.Errorf("ovs-ofctl printed a port with a bad number: %q", line)
				}
				p.Number = n
			}
			ports = append(ports, p)
		case len(ports) == 0:
		case key == "config":
			p, has := &ports[len(ports)-1], strings.Fields(words)
			p.Down = slices.Contains(has, "PORT_DOWN")
			p.NoReceive, p.NoForward = slices.Contains(has, "NO_RECV"), slices.Contains(has, "NO_FWD")
		case key == "state":
			ports[len(ports)-1].NoLink = slices.Contains(strings.Fields(words), "LINK_DOWN")
		}
	}
	return ports, nil
}
