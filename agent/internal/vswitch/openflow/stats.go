package openflow

import (
	"fmt"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// flowStatsLen is the length of a flow's statistics before its match (ofp_flow_stats).
const flowStatsLen = 48

// parseFlows appends the flows described in the entries of a multipart reply. Fields and actions that the package does
// not know become text; an error means that the lengths inside do not fit each other.
func parseFlows(flows []cable.Entry, b []byte) ([]cable.Entry, error) {
	for len(b) > 0 {
		if len(b) < flowStatsLen {
			return flows, fmt.Errorf("flow statistics of %d bytes are too short", len(b))
		}
		n := int(be.Uint16(b))
		if n < flowStatsLen || n > len(b) {
			return flows, fmt.Errorf("flow statistics claim %d of %d bytes", n, len(b))
		}
		e := cable.Entry{
			Flow: cable.Flow{
				Table: b[2], Priority: be.Uint16(b[12:]), IdleTimeout: be.Uint16(b[14:]), HardTimeout: be.Uint16(b[16:]), Flags: be.Uint16(b[18:]) & cable.Flags,
			},
			Cookie:  cable.Cookie(be.Uint64(b[24:])),
			Age:     time.Duration(be.Uint32(b[4:]))*time.Second + time.Duration(be.Uint32(b[8:])),
			Packets: be.Uint64(b[32:]),
		}
		rest, err := parseMatch(&e.Flow, b[flowStatsLen:n])
		if err != nil {
			return flows, err
		}
		if err := parseInstructions(&e.Flow, rest); err != nil {
			return flows, err
		}
		flows = append(flows, e)
		b = b[n:]
	}
	return flows, nil
}

// tlv cuts an element off b that begins with a 16-bit type and a 16-bit length which counts all of it.
func tlv(what string, b []byte) (kind uint16, element, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, nil, fmt.Errorf("%s of %d bytes is too short", what, len(b))
	}
	n := int(be.Uint16(b[2:]))
	if n < 4 || n > len(b) {
		return 0, nil, nil, fmt.Errorf("%s claims %d of %d bytes", what, n, len(b))
	}
	return be.Uint16(b), b[:n], b[n:], nil
}

// parseInstructions reads what the flow does to a packet (ofp_instruction).
func parseInstructions(f *cable.Flow, b []byte) error {
	if out, ok := plainOutputs(b); ok {
		f.Out = out
		return nil
	}
	var words []string
	for len(b) > 0 {
		kind, instruction, rest, err := tlv("instruction", b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case kind == instrApplyActions && len(instruction) >= 8:
			applied, err := actionWords(instruction[8:])
			if err != nil {
				return err
			}
			words = append(words, applied...)
		case kind == instrWriteActions && len(instruction) >= 8:
			written, err := actionWords(instruction[8:])
			if err != nil {
				return err
			}
			words = append(words, "write_actions("+strings.Join(written, ",")+")")
		default:
			words = append(words, instructionWord(kind, instruction[4:]))
		}
	}
	f.Action = strings.Join(words, ",")
	return nil
}

// plainOutputs returns the ports, in ascending order, when b does no more than to output to at most two of them.
func plainOutputs(b []byte) (out [2]uint32, ok bool) {
	if len(b) == 0 {
		return out, true
	}
	kind, instruction, rest, err := tlv("instruction", b)
	if err != nil || kind != instrApplyActions || len(instruction) < 8 || len(rest) > 0 {
		return out, false
	}
	actions := instruction[8:]
	if len(actions)%outputLen != 0 || len(actions) > len(out)*outputLen {
		return out, false
	}
	for i := range len(actions) / outputLen {
		a := actions[i*outputLen:]
		port := be.Uint32(a[4:])
		if be.Uint16(a) != actionOutput || be.Uint16(a[2:]) != outputLen || port == 0 || port > lastPort {
			return [2]uint32{}, false
		}
		out[i] = port
	}
	if out[1] != 0 && out[0] > out[1] {
		out[0], out[1] = out[1], out[0]
	}
	return out, out[0] == 0 || out[0] != out[1] // a second copy for the same port is nothing plain
}

// Instructions beside apply-actions.
const (
	instrGotoTable     = 1
	instrWriteMetadata = 2
	instrWriteActions  = 3
	instrClearActions  = 5
	instrMeter         = 6
)

func instructionWord(kind uint16, v []byte) string {
	switch {
	case kind == instrGotoTable && len(v) >= 1:
		return fmt.Sprintf("goto_table:%d", v[0])
	case kind == instrWriteMetadata && len(v) >= 20:
		return fmt.Sprintf("write_metadata:%#x/%#x", be.Uint64(v[4:]), be.Uint64(v[12:]))
	case kind == instrClearActions:
		return "clear_actions"
	case kind == instrMeter && len(v) >= 4:
		return fmt.Sprintf("meter:%d", be.Uint32(v))
	}
	return fmt.Sprintf("instruction(%#x,%x)", kind, v)
}

// Actions beside output (ofp_action_type).
const (
	actionSetMPLSTTL   = 15
	actionDecMPLSTTL   = 16
	actionPushVLAN     = 17
	actionPopVLAN      = 18
	actionPushMPLS     = 19
	actionPopMPLS      = 20
	actionSetQueue     = 21
	actionGroup        = 22
	actionSetNwTTL     = 23
	actionDecNwTTL     = 24
	actionSetField     = 25
	actionExperimenter = 0xffff
)

func actionWords(b []byte) ([]string, error) {
	var words []string
	for len(b) > 0 {
		kind, action, rest, err := tlv("action", b)
		if err != nil {
			return nil, err
		}
		words = append(words, actionWord(kind, action[4:]))
		b = rest
	}
	return words, nil
}

// actionWord writes an action much as ovs-ofctl does. v is what follows its type and length.
func actionWord(kind uint16, v []byte) string {
	if len(v) >= 4 {
		n := be.Uint32(v)
		switch kind {
		case actionOutput:
			return outputWord(v)
		case actionSetMPLSTTL:
			return fmt.Sprintf("set_mpls_ttl(%d)", v[0])
		case actionDecMPLSTTL:
			return "dec_mpls_ttl"
		case actionPushVLAN:
			return fmt.Sprintf("push_vlan:%#04x", be.Uint16(v))
		case actionPopVLAN:
			return "pop_vlan"
		case actionPushMPLS:
			return fmt.Sprintf("push_mpls:%#04x", be.Uint16(v))
		case actionPopMPLS:
			return fmt.Sprintf("pop_mpls:%#04x", be.Uint16(v))
		case actionSetQueue:
			return fmt.Sprintf("set_queue:%d", n)
		case actionGroup:
			return fmt.Sprintf("group:%d", n)
		case actionSetNwTTL:
			return fmt.Sprintf("mod_nw_ttl:%d", v[0])
		case actionDecNwTTL:
			return "dec_ttl"
		case actionSetField:
			if field, _, err := nextOXM(v); err == nil {
				return "set_field:" + field.valueWord() + "->" + field.name()
			}
		case actionExperimenter:
			return fmt.Sprintf("experimenter(%#x,%x)", n, v[4:])
		}
	}
	return fmt.Sprintf("action(%#x,%x)", kind, v)
}

// Reserved ports (ofp_port_no).
const (
	portInPort     = 0xfffffff8
	portTable      = 0xfffffff9
	portNormal     = 0xfffffffa
	portFlood      = 0xfffffffb
	portAll        = 0xfffffffc
	portController = 0xfffffffd
	portLocal      = 0xfffffffe
)

func outputWord(v []byte) string {
	switch port := be.Uint32(v); port {
	case portInPort:
		return "IN_PORT"
	case portTable:
		return "TABLE"
	case portNormal:
		return cable.Normal
	case portFlood:
		return "FLOOD"
	case portAll:
		return "ALL"
	case portController:
		if len(v) >= 6 {
			return fmt.Sprintf("CONTROLLER:%d", be.Uint16(v[4:]))
		}
		return "CONTROLLER"
	case portLocal:
		return "LOCAL"
	default:
		return fmt.Sprintf("output:%d", port)
	}
}
