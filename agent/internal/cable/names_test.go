package cable_test

import (
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

func TestNamesMatchTheirVMSetExactly(t *testing.T) {
	tests := []struct {
		vmSet, bridge string
		want          int // -1: no bridge of the vm_set
	}{
		{"vms21-1", "mbr-vms21-1-121", 121},
		{"vms121-1", "mb-vms121-1-121", 121},
		{"vms17-8", "mbr-vms17-8-0", 0},
		{"vms17-8", "mbr-vms17-8-007", 7},
		{"vms1", "mbr-vms1-1-0", -1},  // a bridge of vms1-1
		{"vms1-1", "mbr-vms1-1-0", 0}, // … as it should be
		{"vms.1", "mbr-vms11-0", -1},  // a vm_set is no pattern
		{"vms17-8", "mbr-vms17-8-", -1},
		{"vms17-8", "mbr-vms17-8-1x", -1},
		{"vms17-8", "xmbr-vms17-8-1", -1},
		{"vms17-8", "mbr-vms17-80-1", -1},
		{"vms17-8", "br-vms17-8-1", -1},
		{"vms17-8", "mbr-vms17-8-99999999999999999999", -1},
	}
	for _, tt := range tests {
		names, err := cable.NewNames(tt.vmSet)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := names.Index(tt.bridge)
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s in vm_set %s: index %d, want %d", tt.bridge, tt.vmSet, got, tt.want)
		}
	}
}

func TestNamesFitAnInterface(t *testing.T) {
	for vmSet, want := range map[string][2]string{
		"vms17-8":  {"mbr-vms17-8-3", "muxy-vms17-8-3"},
		"vms121-1": {"mbr-vms121-1-3", "muxy-vms121-1-3"},
	} {
		names, _ := cable.NewNames(vmSet)
		if got := [2]string{names.Bridge(3), names.NIC(3)}; got != want {
			t.Errorf("%s: %v, want %v", vmSet, got, want)
		}
	}
	names, _ := cable.NewNames("vms121-1")
	if got, want := names.Bridge(121)+" "+names.NIC(121), "mb-vms121-1-121 mu-vms121-1-121"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNewNamesRefusesWhatNoTestbedIsCalled(t *testing.T) {
	for _, vmSet := range []string{"", "vms 1", "vms1/2", "-vms", "vms17-8-too-long", "vms\n"} {
		if _, err := cable.NewNames(vmSet); err == nil || !strings.Contains(err.Error(), `such as "vms17-8"`) {
			t.Errorf("vm_set %q: err = %v, want one that shows a good name", vmSet, err)
		}
	}
}

func TestIdentify(t *testing.T) {
	port := func(name string, side ...string) cable.Candidate {
		return cable.Candidate{Port: cable.Port{Name: name, Number: 1}, Side: strings.Join(side, "")}
	}
	tests := []struct {
		name              string
		ports             []cable.Candidate
		nic, upper, lower string
		err               string
	}{
		{"by name", []cable.Candidate{port("enp59s0f1.3272"), port("muxy-vms17-8-0"), port("enp59s0f1.3216")}, "muxy-vms17-8-0", "enp59s0f1.3216", "enp59s0f1.3272", ""},
		{"natural order of VLANs", []cable.Candidate{port("p0.1000"), port("p0.999"), port("mux-x-0")}, "mux-x-0", "p0.999", "p0.1000", ""},
		{"natural order of taps", []cable.Candidate{port("vlab-10-1"), port("vlab-9-1"), port("mu-x-0")}, "mu-x-0", "vlab-9-1", "vlab-10-1", ""},
		{"equal but for zeros", []cable.Candidate{port("p07"), port("p7"), port("muxy")}, "muxy", "p07", "p7", ""},
		{"mapping wins", []cable.Candidate{port("p0.1", "lower_tor"), port("p0.2"), port("muxy")}, "muxy", "p0.2", "p0.1", ""},
		{"mapping of all", []cable.Candidate{port("a", "upper_tor"), port("b", "nic"), port("c", "lower_tor")}, "b", "a", "c", ""},
		{"mapped NIC beside a ToR port named mu", []cable.Candidate{port("mu1"), port("eth0", "nic"), port("mu2")}, "eth0", "mu1", "mu2", ""},
		{"two ports", []cable.Candidate{port("a"), port("muxy")}, "", "", "", "it has 2 ports (a, muxy), a mux has 3"},
		{"four ports", []cable.Candidate{port("a"), port("b"), port("c"), port("muxy")}, "", "", "", "it has 4 ports"},
		{"no NIC", []cable.Candidate{port("a"), port("b"), port("c")}, "", "", "", `no NIC: none of its ports (a, b, c) has a name that starts with "mu"`},
		{"two NICs", []cable.Candidate{port("muxy"), port("mux"), port("c")}, "", "", "", "ports muxy and mux both are nic"},
		{"two upper ToRs", []cable.Candidate{port("a", "upper_tor"), port("b", "upper_tor"), port("muxy")}, "", "", "", "ports a and b both are upper_tor"},
		{"bad mapping", []cable.Candidate{port("a", "upper"), port("b"), port("muxy")}, "", "", "", `port a: external_ids:mux-side: unknown port "upper": want "nic", "upper_tor" or "lower_tor"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cable.Identify(tt.ports, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("err = %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got[cable.NIC].Name != tt.nic || got[cable.Upper].Name != tt.upper || got[cable.Lower].Name != tt.lower {
				t.Errorf("got %+v, want %s, %s, %s", got, tt.nic, tt.upper, tt.lower)
			}
		})
	}
}
