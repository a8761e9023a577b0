package openflow

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// parseMatch reads the match at the start of b, section 7.2.3, and returns what follows its padding.
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

// An oxm is one field of a match, section 7.2.3.2.
type oxm struct {
	class       uint16
	number      uint8
	value, mask []byte // mask is nil when all of the value counts
}

// nextOXM reads the field at the start of b and returns its length in bytes.
func nextOXM(b []byte) (oxm, int, error) {
	if len(b) < 4 {
		return oxm{}, 0, fmt.Errorf("match field of %d bytes is too short", len(b))
	}
	n := 4 + int(b[3])
	if n > len(b) {
		return oxm{}, 0, fmt.Errorf("match field claims %d of %d bytes", n, len(b))
	}
	x := oxm{class: be.Uint16(b), number: b[2] >> 1, value: b[4:n]}
	if b[2]&1 != 0 {
		half := len(x.value) / 2
		x.value, x.mask = x.value[:half], x.value[half:]
	}
	return x, n, nil
}

// Classes of fields.
const (
	classNXM1  = 0x0001 // Nicira's own fields; the first 16 are registers
	classBasic = 0x8000
	registers  = 16
)

// A form is how the value of a field is written.
type form uint8

const (
	formHex form = iota
	formDecimal
	formMAC
	formIP
	formVLAN
	formDSCP
)

// basic returns ovs-ofctl's name of a field of the basic class, and the length and form of its value. Section 7.2.3.7.
func basic(number uint8) (name string, length int, f form) {
	fields := [...]struct {
		name   string
		length int
		form   form
	}{
		{"in_port", 4, formDecimal},
		{"in_phy_port", 4, formDecimal},
		{"metadata", 8, formHex},
		{"dl_dst", 6, formMAC},
		{"dl_src", 6, formMAC},
		{"dl_type", 2, formHex},
		{"dl_vlan", 2, formVLAN},
		{"dl_vlan_pcp", 1, formDecimal},
		{"nw_tos", 1, formDSCP},
		{"nw_ecn", 1, formDecimal},
		{"nw_proto", 1, formDecimal},
		{"nw_src", 4, formIP},
		{"nw_dst", 4, formIP},
		{"tp_src", 2, formDecimal},
		{"tp_dst", 2, formDecimal},
		{"tp_src", 2, formDecimal},
		{"tp_dst", 2, formDecimal},
		{"tp_src", 2, formDecimal},
		{"tp_dst", 2, formDecimal},
		{"icmp_type", 1, formDecimal},
		{"icmp_code", 1, formDecimal},
		{"arp_op", 2, formDecimal},
		{"arp_spa", 4, formIP},
		{"arp_tpa", 4, formIP},
		{"arp_sha", 6, formMAC},
		{"arp_tha", 6, formMAC},
		{"ipv6_src", 16, formIP},
		{"ipv6_dst", 16, formIP},
		{"ipv6_label", 4, formHex},
		{"icmp_type", 1, formDecimal},
		{"icmp_code", 1, formDecimal},
		{"nd_target", 16, formIP},
		{"nd_sll", 6, formMAC},
		{"nd_tll", 6, formMAC},
		{"mpls_label", 4, formDecimal},
		{"mpls_tc", 1, formDecimal},
		{"mpls_bos", 1, formDecimal},
		{"pbb_isid", 3, formHex},
		{"tun_id", 8, formHex},
		{"ipv6_exthdr", 2, formHex},
	}
	if int(number) >= len(fields) {
		return "", 0, formHex
	}
	return fields[number].name, fields[number].length, fields[number].form
}

const (
	fieldInPort  = 0
	fieldEthType = 5
	fieldIPProto = 10
)

// inPort returns the port when the field is an in-port that cable.Flow can hold.
func (x oxm) inPort() (uint32, bool) {
	if x.class != classBasic || x.number != fieldInPort || x.mask != nil || len(x.value) != 4 {
		return 0, false
	}
	port := be.Uint32(x.value)
	return port, port != 0
}

// known returns the name and form of a field whose length is right, "" for others.
func (x oxm) known() (name string, f form) {
	switch {
	case x.class == classBasic:
		if name, n, f := basic(x.number); n == len(x.value) {
			return name, f
		}
	case x.class == classNXM1 && x.number < registers && len(x.value) == 4:
		return fmt.Sprintf("reg%d", x.number), formHex
	}
	return "", formHex
}

func (x oxm) name() string {
	if name, _ := x.known(); name != "" {
		return name
	}
	return fmt.Sprintf("oxm_%#04x_%d", x.class, x.number)
}

// valueWord writes the value, and the mask when there is one.
func (x oxm) valueWord() string {
	name, f := x.known()
	if name == "" {
		if x.mask == nil {
			return fmt.Sprintf("0x%x", x.value)
		}
		return fmt.Sprintf("0x%x/0x%x", x.value, x.mask)
	}
	switch f {
	case formMAC:
		if x.mask == nil {
			return net.HardwareAddr(x.value).String()
		}
		return net.HardwareAddr(x.value).String() + "/" + net.HardwareAddr(x.mask).String()
	case formIP:
		return x.addressWord()
	case formVLAN:
		return fmt.Sprint(number(x.value) & vlanID)
	case formDSCP:
		return fmt.Sprint(number(x.value) << 2)
	case formDecimal:
		if x.mask == nil {
			return fmt.Sprint(number(x.value))
		}
	}
	if x.mask == nil {
		return fmt.Sprintf("%#x", number(x.value))
	}
	return fmt.Sprintf("%#x/%#x", number(x.value), number(x.mask))
}

// addressWord writes an address of IPv4 or IPv6, with a prefix length where the mask is a prefix.
func (x oxm) addressWord() string {
	addr, _ := netip.AddrFromSlice(x.value)
	if x.mask == nil {
		return addr.String()
	}
	if ones, bits := net.IPMask(x.mask).Size(); bits != 0 {
		return fmt.Sprintf("%s/%d", addr, ones)
	}
	mask, _ := netip.AddrFromSlice(x.mask)
	return addr.String() + "/" + mask.String()
}

// number reads up to 8 bytes as an unsigned number.
func number(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

// Bits of the VLAN field: 12 of the number, and one that says that there is a tag.
const (
	vlanID      = 0xfff
	vlanPresent = 0x1000
)

// word writes the field as ovs-ofctl does in a match.
func (x oxm) word() string {
	name, f := x.known()
	if f == formVLAN && name != "" && (x.mask != nil || number(x.value)&vlanPresent == 0) {
		if x.mask == nil {
			return fmt.Sprintf("vlan_tci=%#04x/0x1fff", number(x.value))
		}
		return fmt.Sprintf("vlan_tci=%#04x/%#04x", number(x.value), number(x.mask))
	}
	return x.name() + "=" + x.valueWord()
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
