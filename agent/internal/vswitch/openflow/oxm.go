package openflow

import (
	"fmt"
	"net"
	"net/netip"
)

// An oxm is one field of a match (OXM TLV).
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

// basic returns ovs-ofctl's name of a field of the basic class, and the length and form of its value (oxm_ofb_match_fields).
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
