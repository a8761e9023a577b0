package agent

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/metrics"
)

// One client does not take all connections, and those of the open address don't take those of the other.
func TestConnectionsAreShared(t *testing.T) {
	g := newGate(nil, limits{all: 10, reserved: 3, client: 4}, slog.New(slog.DiscardHandler))
	one, other, here := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("127.0.0.1")
	enter := func(addr netip.Addr, auth bool, n int, then string) {
		t.Helper()
		for range n {
			if reason := g.enter(addr, true, auth); reason != "" {
				t.Fatalf("%s: %s", addr, reason)
			}
		}
		if reason := g.enter(addr, true, auth); reason != then {
			t.Errorf("%s, one more than %d: %q, want %q", addr, n, reason, then)
		}
	}
	enter(one, false, 4, metrics.RefusedClient)
	enter(here, false, 3, metrics.RefusedLimit)
	enter(other, true, 3, metrics.RefusedLimit)
	g.leave(one)
	enter(other, true, 1, metrics.RefusedLimit)
	if g.open() != 10 {
		t.Errorf("%d are open", g.open())
	}
}

func TestConnectionsFitTheOpenFiles(t *testing.T) {
	for files, want := range map[uint64]int{64: 32, 1024: 512, 4096: 3584, 4608: 4096, 65536: 4096, ^uint64(0): 4096} {
		if got := fitTo(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}
