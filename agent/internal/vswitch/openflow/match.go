package openflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// parseMatch reads the match at the start of b (ofp_match) and returns what follows its padding.
func parseMatch(f *cable.Flow, b []byte) (rest []byte, err error) {
	kind, match, _, err := tlv("match", b)
	if err != nil {
		return nil, err
	}
	if pad(len(match)) > len(b) {
		return nil, fmt.Errorf("match of %d bytes lacks its padding", len(match))
	}
	rest = b[pad(len(match)):]
	if kind != matchOXM {
		f.Match = fmt.Sprintf("match(%#x,%x)", kind, match[4:])
		return rest, nil
	}
	var fields []oxm
	for b := match[4:]; len(b) > 0; {
		field, n, err := nextOXM(b)
		if err != nil {
			return nil, err
		}
		b = b[n:]
		if port, ok := field.inPort(); ok {
			f.InPort = port
			continue
		}
		fields = append(fields, field)
	}
	if fields != nil {
		f.Match = matchWords(fields)
	}
	return rest, nil
}

// matchWords writes the fields of a match, with the protocol's name in place of its numbers where ovs-ofctl has one.
func matchWords(fields []oxm) string {
	var words []string
	named := protocol(fields)
	if named.word != "" {
		words = append(words, named.word)
	}
	for _, x := range fields {
		if x.class == classBasic && x.mask == nil && (named.ethType && x.number == fieldEthType || named.proto && x.number == fieldIPProto) {
			continue
		}
		words = append(words, x.word())
	}
	return strings.Join(words, ",")
}

// A naming is a protocol's name, and the fields whose values it stands for.
type naming struct {
	word           string
	ethType, proto bool
}

func protocol(fields []oxm) naming {
	exact := func(n uint8) uint64 {
		i := slices.IndexFunc(fields, func(x oxm) bool { return x.class == classBasic && x.number == n && x.mask == nil })
		if i < 0 {
			return 0
		}
		return number(fields[i].value)
	}
	ethType, proto := exact(fieldEthType), exact(fieldIPProto)
	word := map[[2]uint64]string{
		{0x0800, 1}:   "icmp",
		{0x0800, 6}:   "tcp",
		{0x0800, 17}:  "udp",
		{0x0800, 132}: "sctp",
		{0x86dd, 58}:  "icmp6",
		{0x86dd, 6}:   "tcp6",
		{0x86dd, 17}:  "udp6",
		{0x86dd, 132}: "sctp6",
	}[[2]uint64{ethType, proto}]
	if word != "" {
		return naming{word, true, true}
	}
	word = map[uint64]string{0x0800: "ip", 0x0806: "arp", 0x86dd: "ipv6", 0x8847: "mpls", 0x8848: "mplsm"}[ethType]
	return naming{word, word != "", false}
}
