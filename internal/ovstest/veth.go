package ovstest

import (
	"fmt"
	"strings"
)

// Veths asks for Userspace with real devices: each port of a bridge is one end of a veth pair, in the switch's network
// namespace, and Send sends packets at the far ends. The switch sees system devices as on a server, which it does not own:
// they can be set down, and deleted. With DatapathVariable the kernel's datapath forwards them.
func Veths() Option {
	return func(o *OVS) {
		Userspace()(o)
		o.far, o.gone = map[string]string{}, map[string]bool{}
	}
}

// HasVeths reports whether the ports of the switch are veths, whether the test asked for that or DatapathVariable did.
func (o *OVS) HasVeths() bool { return o.far != nil }

// makeVeths makes the pairs of ports, up at both ends.
func (o *OVS) makeVeths(ports []string) {
	o.tb.Helper()
	var script strings.Builder
	for _, port := range ports {
		if _, made := o.far[port]; !made {
			o.far[port] = fmt.Sprintf("far%d", len(o.far))
		}
		// Without an address of IPv6 a device says nothing by itself.
		fmt.Fprintf(&script, "link add dev %[1]s type veth peer name %[2]s\nlink set dev %[1]s addrgenmode none\n"+
			"link set dev %[2]s addrgenmode none\nlink set dev %[1]s up\nlink set dev %[2]s up\n", port, o.far[port])
		delete(o.gone, port)
	}
	cmd := o.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(script.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		o.tb.Fatalf("make veths: %v: %s", err, out)
	}
}

// DeleteDevice deletes the device of a port, and the far end with it, as when the server's container goes. The port stays
// in the database. Without Veths Open vSwitch is told to look for a device that is not there.
func (o *OVS) DeleteDevice(port string) {
	o.tb.Helper()
	if o.far != nil {
		o.ip("link", "delete", "dev", port)
		o.gone[port] = true
		return
	}
	// ovs-vsctl complains of that.
	if out, err := o.Command("ovs-vsctl", "--timeout=60", "set", "Interface", port, `type=""`).CombinedOutput(); err != nil {
		o.tb.Fatalf("%v: %s", err, out)
	}
}

// MakeDevice makes a device that was deleted anew.
func (o *OVS) MakeDevice(port string) {
	o.tb.Helper()
	if o.far != nil {
		// Open vSwitch makes a new device promiscuous: it reads the flags, and writes them back with one more. Were the
		// device set up in between, it would be down again. So it sees the device when it is up.
		if o.Vswitchd.running() {
			o.Vswitchd.Pause()
			defer o.Vswitchd.Continue()
		}
		o.makeVeths([]string{port})
		return
	}
	o.Vsctl("set", "Interface", port, "type="+o.datapath)
}

// SetDown sets the device of a port down, as an administrator does.
func (o *OVS) SetDown(port string) { o.tb.Helper(); o.ip("link", "set", "dev", port, "down") }

// SetUp ends a SetDown.
func (o *OVS) SetUp(port string) { o.tb.Helper(); o.ip("link", "set", "dev", port, "up") }

// Unplug takes the carrier away from the device of a port.
func (o *OVS) Unplug(port string) { o.tb.Helper(); o.ip("link", "set", o.farOf(port), "down") }

// Plug ends an Unplug.
func (o *OVS) Plug(port string) { o.tb.Helper(); o.ip("link", "set", o.farOf(port), "up") }

func (o *OVS) farOf(port string) string {
	o.tb.Helper()
	far, ok := o.far[port]
	if !ok {
		o.tb.Fatalf("%s is not a device that the test made", port)
	}
	return far
}

func (o *OVS) ip(args ...string) {
	o.tb.Helper()
	if out, err := o.Command("ip", args...).CombinedOutput(); err != nil {
		o.tb.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
