package ofctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
)

// parseDump reads what `ovs-ofctl --no-names dump-flows` prints (ovs-ofctl(8)). Whatever a mux's flow does not have is kept
// in words, so that no flow passes for another.
func parseDump(text []byte) ([]cable.Entry, error) {
	var flows []cable.Entry
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

// notMatch are the fields of a line which say nothing about a flow that a mux cares for.
var notMatch = map[string]bool{"n_bytes": true, "idle_age": true, "hard_age": true, "importance": true, "check_overlap": true, "reset_counts": true}

// flags are the words for ofp_flow_mod_flags (OpenFlow 1.4, 7.3.4.1).
var flags = map[string]uint16{
	"send_flow_rem": cable.FlagSendFlowRem, "no_packet_counts": cable.FlagNoPktCounts, "no_byte_counts": cable.FlagNoByteCounts,
}

func parseFlow(line string) (cable.Entry, error) {
	f := cable.Entry{Flow: cable.Flow{Priority: cable.Priority}} // which OVS doesn't print
	fields, actions, ok := strings.Cut(line, "actions=")
	if !ok {
		return f, fmt.Errorf("ovs-ofctl printed a flow without actions: %q", line)
	}
	var match []string
	isSeparator := func(r rune) bool { return r == ' ' || r == ',' }
	for _, field := range strings.FieldsFunc(fields, isSeparator) {
		known, err := parseField(&f, field)
		if err != nil {
			return f, fmt.Errorf("ovs-ofctl printed a flow with a bad field %q: %q", field, line)
		}
		if !known {
			match = append(match, field)
		}
	}
	f.Match = strings.Join(match, ",")

	outputs, ok := parseOutputs(actions)
	if !ok {
		f.Action = actions
		return f, nil
	}
	f.Out = cable.NewFlow(f.InPort, outputs...).Out
	return f, nil
}

// parseField reads a field of a line. known is false when it is a match beyond table, priority and in-port.
func parseField(f *cable.Entry, field string) (known bool, err error) {
	key, value, _ := strings.Cut(field, "=")
	switch key {
	case "table":
		f.Table, err = parseUint[uint8](value, 8)
	case "priority":
		f.Priority, err = parseUint[uint16](value, 16)
	case "in_port":
		if f.InPort = cable.Local; value != "LOCAL" {
			f.InPort, err = parseUint[uint32](value, 32)
		}
	case "idle_timeout":
		f.IdleTimeout, err = parseUint[uint16](value, 16)
	case "hard_timeout":
		f.HardTimeout, err = parseUint[uint16](value, 16)
	case "cookie":
		var cookie uint64
		cookie, err = strconv.ParseUint(value, 0, 64)
		f.Cookie = cable.Cookie(cookie)
	case "duration":
		f.Age, err = time.ParseDuration(value)
	case "n_packets":
		f.Packets, err = strconv.ParseUint(value, 10, 64)
	default:
		f.Flags |= flags[key]
		return notMatch[key] || flags[key] != 0, nil
	}
	return true, err
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
			p := openflow.Port{Name: name, Number: cable.Local}
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
