package agent

import (
	"net/netip"
	"testing"
)

// A network that is taken holds its own address, and no client of the other kind of addresses.
func FuzzParseCIDRs(f *testing.F) {
	for _, text := range []string{"10.0.0.0/8", "127.0.0.1", "::1", "fd00::/8", "::ffff:10.0.0.0/104", "::ffff:0:0/64", "0.0.0.0/0", "fe80::1%eth0", "10.0.0.0/33"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseCIDRs([]string{text})
		if err != nil {
			return
		}
		g := &gate{allowed: list}
		addr := list[0].Addr()
		if len(list) != 1 || !g.allows(addr, true) || addr.Is4In6() || g.allows(addr, false) {
			t.Errorf("%q: %v", text, list)
		}
		if other := netip.MustParseAddr("2001:db8::1"); addr.Is4() && g.allows(other, true) {
			t.Errorf("%q lets %s in", text, other)
		}
	})
}

// Headers are counted alike however they are cut into pieces.
func FuzzHeads(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\nbody\n\n"), 5)
	f.Add([]byte("\n\n\r\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		cut = max(0, min(cut, len(text)))
		whole, parts := &headConn{gate: newGate(nil, limits{}, nil)}, &headConn{gate: newGate(nil, limits{}, nil)}
		one := whole.count(text, 4096)
		two := parts.count(text[:cut], 4096) && parts.count(text[cut:], 4096)
		if one != two || one && (whole.lines != parts.lines || whole.ended != parts.ended || whole.taken.Load() != parts.taken.Load()) {
			t.Errorf("%q cut at %d: %v %+v, %v %+v", text, cut, one, whole, two, parts)
		}
	})
}
