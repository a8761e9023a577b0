package cabletest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
)

var mux = cabletest.Mux{Bridge: "br", NIC: "nic", Upper: "u", Lower: "l"}

func TestWays(t *testing.T) {
	for _, tt := range []struct {
		active  string
		dropped []string
		want    map[string][]string
	}{
		{api.UpperToR, nil, map[string][]string{"nic": {"l", "u"}, "u": {"nic"}, "l": {}}},
		{api.LowerToR, nil, map[string][]string{"nic": {"l", "u"}, "u": {}, "l": {"nic"}}},
		{api.LowerToR, []string{api.NIC}, map[string][]string{"nic": {"l", "u"}, "u": {}, "l": {}}},
		{api.UpperToR, []string{api.UpperToR}, map[string][]string{"nic": {"l"}, "u": {"nic"}, "l": {}}},
		{api.UpperToR, []string{api.UpperToR, api.LowerToR, api.NIC}, map[string][]string{"nic": {}, "u": {}, "l": {}}},
	} {
		if diff := cmp.Diff(tt.want, mux.Ways(tt.active, tt.dropped...)); diff != "" {
			t.Errorf("active %s, dropped %v (-want +got):\n%s", tt.active, tt.dropped, diff)
		}
	}
}

func TestAstray(t *testing.T) {
	hub := cabletest.Switch(func(_, from string) []string {
		return map[string][]string{"nic": {"l", "u"}, "u": {"l", "nic"}, "l": {"nic", "u"}}[from]
	})
	got := hub.Astray(mux, api.UpperToR)
	if !strings.Contains(got, "from u ") || !strings.Contains(got, "from l ") || strings.Contains(got, "from nic ") {
		t.Errorf("a hub leads astray: %q", got)
	}
	cable := cabletest.Switch(func(bridge, from string) []string {
		if bridge != "br" {
			t.Errorf("a packet for bridge %s", bridge)
		}
		return mux.Ways(api.LowerToR)[from]
	})
	cable.Check(t, mux, api.LowerToR)
}
