package ovstest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
)

// A Mux is the names of a mux's bridge and of its three ports.
type Mux = cabletest.Mux

// firstVLAN makes the ToR ports of the first muxes cross from .999 to .1000, where the order of their numbers is not that
// of their text.
const firstVLAN = 989

// AddMux adds a bridge with the three ports of a mux. Its only flow is the one that Open vSwitch gives every bridge.
func (o *OVS) AddMux(bridge, nic, upper, lower string) Mux {
	o.tb.Helper()
	m := Mux{Bridge: bridge, NIC: nic, Upper: upper, Lower: lower}
	o.addMuxes(m)
	return m
}

// AddMuxes adds n muxes as a testbed names them, with the port indexes from 0 up: mbr-<vm_set>-<i> with muxy-<vm_set>-<i>
// and two VLAN sub-interfaces such as p0.989 and p0.990. Ports are added in no particular order.
func (o *OVS) AddMuxes(vmSet string, n int) []Mux {
	o.tb.Helper()
	muxes := make([]Mux, n)
	for i := range muxes {
		muxes[i] = Mux{
			Bridge: adapt("mbr", vmSet, i),
			NIC:    adapt("muxy", vmSet, i),
			Upper:  fmt.Sprintf("p0.%d", o.nextVLAN),
			Lower:  fmt.Sprintf("p0.%d", o.nextVLAN+1),
		}
		o.nextVLAN += 2
	}
	o.addMuxes(muxes...)
	return muxes
}

// adapt shortens word so that the name fits the 15 characters of an interface name.
func adapt(word, vmSet string, index int) string {
	rest := fmt.Sprintf("-%s-%d", vmSet, index)
	return word[:max(2, min(len(word), 15-len(rest)))] + rest
}

func (o *OVS) addMuxes(muxes ...Mux) {
	o.tb.Helper()
	// ovs-vsctl takes the square of what it is told.
	for some := range slices.Chunk(muxes, 125) {
		var args, ports []string
		for _, m := range some {
			ports = append(ports, m.NIC, m.Upper, m.Lower)
			args = append(args, o.addBridge(m.Bridge, m.Lower, m.NIC, m.Upper)...)
		}
		o.addDevices(ports...)
		o.Vsctl(args...)
	}
}

// addDevices makes the devices that ports are to have, where Open vSwitch does not make them itself.
func (o *OVS) addDevices(ports ...string) {
	o.tb.Helper()
	if o.far == nil {
		return
	}
	// A device outlives the port that it was of.
	o.makeVeths(slices.DeleteFunc(slices.Clone(ports), func(port string) bool {
		_, made := o.far[port]
		return made && !o.gone[port]
	}))
}

// AddBridge adds a bridge with ports. Its only flow is the one that Open vSwitch gives every bridge.
func (o *OVS) AddBridge(bridge string, ports ...string) {
	o.tb.Helper()
	o.addDevices(ports...)
	o.Vsctl(o.addBridge(bridge, ports...)...)
}

func (o *OVS) addBridge(bridge string, ports ...string) []string {
	args := []string{"--", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=" + o.datapath}
	for _, port := range ports {
		args = append(args, o.addPort(bridge, port)...)
	}
	return args
}

// AddPort adds a port to a bridge, as the datapath makes ports out of nothing. With Veths its device may be there already.
func (o *OVS) AddPort(bridge, port string) {
	o.tb.Helper()
	if !o.gone[port] {
		o.addDevices(port)
	}
	o.Vsctl(o.addPort(bridge, port)...)
}

func (o *OVS) addPort(bridge, port string) []string {
	kind := "dummy"
	switch {
	case o.far != nil:
		kind = `""`
	case o.datapath != "dummy":
		kind = "internal"
	}
	return []string{"--", "add-port", bridge, port, "--", "set", "Interface", port, "type=" + kind}
}

// SetTestbedFlows gives each mux the flows that sonic-mgmt's testbed script gives a new one, with its commands: the upper
// ToR is active.
func (o *OVS) SetTestbedFlows(muxes ...Mux) {
	o.tb.Helper()
	ports := o.bridges()
	for _, m := range muxes {
		n := func(name string) uint32 { return ports[m.Bridge][name].number }
		o.Ofctl("del-flows", m.Bridge)
		o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("table=0,in_port=%d,action=output:%d,%d", n(m.NIC), n(m.Upper), n(m.Lower)))
		o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("table=0,in_port=%d,action=output:%d", n(m.Upper), n(m.NIC)))
	}
}

// Ports returns the OpenFlow port numbers of a bridge's ports, without its local one.
func (o *OVS) Ports(bridge string) map[string]uint32 {
	o.tb.Helper()
	numbers := map[string]uint32{}
	for name, p := range o.ports(bridge) {
		if name != bridge {
			numbers[name] = p.number
		}
	}
	return numbers
}

// Trace returns the names of the ports where a packet comes out that enters a bridge at inPort, in the order of the names.
// The packet is a plain one between two stations that the bridge never saw. No packet is sent.
func (o *OVS) Trace(bridge, inPort string) []string {
	o.tb.Helper()
	ports := o.ports(bridge)
	in, ok := ports[inPort]
	if !ok {
		o.tb.Fatalf("trace: %s has no port %s", bridge, inPort)
	}
	out := o.Appctl("ofproto/trace", bridge,
		fmt.Sprintf("in_port=%d,dl_src=52:54:00:00:00:01,dl_dst=52:54:00:00:00:02", in.number))
	_, actions, ok := strings.Cut(out, "\nDatapath actions: ")
	if !ok {
		o.tb.Fatalf("trace of %s: no datapath actions in\n%s", bridge, out)
	}
	actions, _, _ = strings.Cut(actions, "\n")

	// A packet that meets no flow goes to the controllers, of which there are none: each connection to the bridge that has not
	// said which OpenFlow it speaks makes Open vSwitch think of that.
	actions = toController.ReplaceAllString(actions, "")
	names := []string{}
	for action := range strings.SplitSeq(actions, ",") {
		if action == "" || action == "drop" {
			continue
		}
		name, ok := nameOf(ports, action)
		if !ok {
			o.tb.Fatalf("trace of %s: %q is not a port of it: datapath actions %q", bridge, action, actions)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var toController = regexp.MustCompile(`userspace\(pid=\d+,controller\([^()]*\)\)`)

// A port is a row of dpif/show: a port's OpenFlow number, and its number in the datapath that all bridges share.
type port struct {
	number   uint32
	datapath string
}

func nameOf(ports map[string]port, datapath string) (string, bool) {
	for name, p := range ports {
		if p.datapath == datapath {
			return name, true
		}
	}
	return "", false
}

func (o *OVS) ports(bridge string) map[string]port {
	o.tb.Helper()
	ports, ok := o.bridges()[bridge]
	if !ok {
		o.tb.Fatalf("there is no bridge %s", bridge)
	}
	return ports
}

var (
	bridgeLine = regexp.MustCompile(`^  (\S+):$`)
	portLine   = regexp.MustCompile(`^ {4,}(\S+) (\d+)/(\S+): `)
)

// bridges returns the ports of all bridges, by bridge and port name. Ports that ovs-vswitchd could not open are not there.
func (o *OVS) bridges() map[string]map[string]port {
	o.tb.Helper()
	found := map[string]map[string]port{}
	var current map[string]port
	for line := range strings.Lines(o.Appctl("dpif/show")) {
		line = strings.TrimRight(line, "\n")
		if m := bridgeLine.FindStringSubmatch(line); m != nil {
			current = map[string]port{}
			found[m[1]] = current
		}
		if m := portLine.FindStringSubmatch(line); m != nil {
			n, err := strconv.ParseUint(m[2], 10, 32)
			if err != nil {
				o.tb.Fatal(err)
			}
			current[m[1]] = port{number: uint32(n), datapath: m[3]}
		}
	}
	return found
}
