package ovstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A Protocol is a kind of packet, by which Open vSwitch's flows can tell them apart.
type Protocol uint8

// The kinds of packets that Send makes.
const (
	UDP Protocol = iota
	EchoRequest
	EchoReply
	ARP
)

func (p Protocol) String() string {
	return [...]string{"udp", "icmp echo request", "icmp echo reply", "arp"}[p]
}

// A Way is that of packets of one kind: the ports of a bridge where they enter and where they come out.
type Way struct {
	From, To string
	Protocol Protocol
}

// perPort is how many packets of a kind Send sends into each port.
const perPort = 20

// Send sends 20 packets of each kind into each port of a bridge, and returns how many came out where; a way that none took
// is not there. Without a kind it sends UDP. It needs a switch with Veths. A port whose device is gone or down sends and
// receives nothing.
//
// It returns when the datapath has looked at every packet that could be sent and nothing has come for a while.
func (o *OVS) Send(bridge string, kinds ...Protocol) map[Way]int {
	o.tb.Helper()
	if kinds == nil {
		kinds = []Protocol{UDP}
	}
	ports := strings.Fields(o.Vsctl("list-ports", bridge))
	far := o.openFar(ports)
	defer func() {
		for _, fd := range far {
			_ = unix.Close(fd)
		}
	}()
	o.runs++
	seen, sent := o.lookups(), 0
	for i, from := range ports {
		if far[from] == 0 {
			continue
		}
		for _, kind := range kinds {
			for range perPort {
				_, err := unix.Write(far[from], frame(kind, tag{run: o.runs, port: uint16(i), kind: kind}))
				if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOBUFS) {
					continue // the device is down, gone, or has no carrier any more
				}
				if err != nil {
					o.tb.Fatalf("send into %s: %v", from, err)
				}
				sent++
			}
		}
	}

	arrived := map[Way]int{}
	// A port that is down on the switch's side takes packets that no lookup follows, so that all of them is only what is
	// waited for a little longer.
	for quiet := time.Now(); time.Since(quiet) < quietAfterAll || time.Since(quiet) < quietOtherwise && o.lookups() < seen+sent; {
		if got := receive(far, ports, o.runs, arrived); got {
			quiet = time.Now()
		}
	}
	return arrived
}

const (
	// quietAfterAll ends Send when the datapath has seen all packets, and quietOtherwise when it has not.
	quietAfterAll  = 60 * time.Millisecond
	quietOtherwise = 500 * time.Millisecond
)

// CheckSent sends packets as Send does, and compares where they come out with ways, the ports where they come out by the
// port where they enter, as Mux.Ways has them: all of them there, and none elsewhere.
func (o *OVS) CheckSent(bridge string, ways map[string][]string, kinds ...Protocol) {
	o.tb.Helper()
	want := map[Way]int{}
	if kinds == nil {
		kinds = []Protocol{UDP}
	}
	for from, outs := range ways {
		for _, to := range outs {
			for _, kind := range kinds {
				want[Way{from, to, kind}] = perPort
			}
		}
	}
	got := o.Send(bridge, kinds...)
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, w := range slices.SortedFunc(maps.Keys(all), func(a, b Way) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if got[w] != want[w] {
			o.tb.Errorf("%s: %d of %d %v packets from %s came out at %s, want %d", bridge, got[w], perPort, w.Protocol, w.From, w.To, want[w])
		}
	}
}

// openFar opens packet sockets on the far ends of ports, by name of the port. A port without a device has none.
func (o *OVS) openFar(ports []string) map[string]int {
	o.tb.Helper()
	far := map[string]int{}
	for _, port := range ports {
		end, ok := o.far[port]
		if !ok {
			o.tb.Fatalf("%s is not a device that the test made: start the switch with ovstest.Veths()", port)
		}
		fd, err := o.PacketSocket(end, unix.ETH_P_ALL)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			o.tb.Fatal(err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			o.tb.Fatal(err)
		}
		far[port] = fd
	}
	return far
}

// receive waits a moment for packets at far ends, counts those of a run, and reports whether there were any.
func receive(far map[string]int, ports []string, run uint32, arrived map[Way]int) bool {
	var waiting []unix.PollFd
	for _, fd := range far {
		waiting = append(waiting, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	_, _ = unix.Poll(waiting, 10)
	some := false
	buf := make([]byte, 2048)
	for to, fd := range far {
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				break // EAGAIN, or the device went down
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			if t, ok := readTag(buf[:n]); ok && t.run == run {
				some = true
				arrived[Way{ports[t.port], to, t.kind}]++
			}
		}
	}
	return some
}

// lookups is how many packets the switch's datapath has looked at (ovs-dpctl(8), show).
func (o *OVS) lookups() int {
	o.tb.Helper()
	_, line, _ := strings.Cut(o.Appctl("dpctl/show"), "lookups: ")
	var hit, missed, lost int
	if _, err := fmt.Sscanf(line, "hit:%d missed:%d lost:%d", &hit, &missed, &lost); err != nil {
		o.tb.Fatalf("dpctl/show: %v in %q", err, line)
	}
	return hit + missed
}

// PacketSocket opens a packet socket on a device in the switch's network namespace (packet(7)), and returns its file, which
// the caller closes. With protocol 0 it only sends. A device that does not appear is unix.ENODEV.
func (o *OVS) PacketSocket(dev string, protocol uint16) (fd int, err error) {
	o.tb.Helper()
	type opened struct {
		fd  int
		err error
	}
	answer := make(chan opened)
	go func() { // the thread may end with it
		var fd int
		err := inNetNS(o.netns, func() (err error) {
			fd, err = openPacket(dev, protocol)
			return err
		})
		answer <- opened{fd, err}
	}()
	got := wait.Receive(o.tb, "a packet socket", answer)
	if got.err != nil {
		return 0, fmt.Errorf("packet socket on %s: %w", dev, got.err)
	}
	return got.fd, nil
}

// inNetNS calls f in a network namespace, in a goroutine that ends then.
func inNetNS(path string, f func() error) error {
	// Never unlocked: the thread is in the wrong namespace afterwards, and ends with the goroutine.
	runtime.LockOSThread()
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	return f()
}

func openPacket(dev string, protocol uint16) (int, error) {
	order := protocol<<8 | protocol>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	request, err := unix.NewIfreq(dev)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
	}
	if err == nil {
		// Nothing arrives before it is bound, of other devices either.
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: order, Ifindex: int(request.Uint32())})
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// A tag is at the end of a packet and tells where it is from.
type tag struct {
	run  uint32 // of Send, of this switch
	port uint16
	kind Protocol
}

const (
	tagMagic = "mux!"
	tagLen   = 12
)

func (t tag) append(b []byte) []byte {
	b = append(b, tagMagic...)
	b = binary.BigEndian.AppendUint32(b, t.run)
	b = binary.BigEndian.AppendUint16(b, t.port)
	return append(b, byte(t.kind), 0)
}

func readTag(frame []byte) (tag, bool) {
	if len(frame) < tagLen {
		return tag{}, false
	}
	end := frame[len(frame)-tagLen:]
	return tag{binary.BigEndian.Uint32(end[4:]), binary.BigEndian.Uint16(end[8:]), Protocol(end[10])}, string(end[:4]) == tagMagic
}

// frame is an Ethernet frame of 64 bytes between two stations that nobody knows, the one at the port and one elsewhere.
func frame(kind Protocol, t tag) []byte {
	port := byte(t.port)
	here, there := []byte{0x52, 0x54, 0, 0, 1, port}, []byte{0x52, 0x54, 0, 0, 2, 1}
	const ip, arp = 0x0800, 0x0806
	var dst []byte
	var etherType uint16 = ip
	var payload []byte
	switch kind {
	case UDP:
		dst, payload = there, ipv4(17, port, []byte{0x30, 0x39, 0x30, 0x39, 0, 30, 0, 0}, t) // port 12345 to 12345, 30 bytes, no checksum
	case EchoRequest:
		dst, payload = there, ipv4(1, port, []byte{8, 0, 0, 0, 0, port, 0, 1}, t)
	case EchoReply:
		dst, payload = there, ipv4(1, port, []byte{0, 0, 0, 0, 0, port, 0, 1}, t)
	case ARP: // who has 10.0.0.254
		dst, etherType = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, arp
		payload = slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, here, []byte{10, 0, 0, port, 0, 0, 0, 0, 0, 0, 10, 0, 0, 254}, make([]byte, 10))
		payload = t.append(payload)
	}
	return append(binary.BigEndian.AppendUint16(slices.Concat(dst, here), etherType), payload...)
}

// ipv4 is a packet of 50 bytes from 10.0.0.<port> to 10.0.1.1 (RFC 791), whose last are the tag.
func ipv4(protocol, port byte, header []byte, t tag) []byte {
	body := t.append(slices.Concat(header, make([]byte, 10)))
	if protocol == 1 {
		binary.BigEndian.PutUint16(body[2:], checksum(body))
	}
	head := []byte{0x45, 0, 0, byte(20 + len(body)), 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, port, 10, 0, 1, 1}
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	return append(head, body...)
}

// checksum is that of RFC 1071, for an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
