package agent_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

const (
	// etherType is one that IEEE 802 leaves for experiments.
	etherType = 0x88b5
	// packetGap is the pause between two numbers, 5,000 a second.
	packetGap = 200 * time.Microsecond
	// toggleGap is the time from one toggle to the next, by which every packet has arrived.
	toggleGap = 150 * time.Millisecond
)

// A wire sends numbered packets into both ToR ports of a mux and counts what comes out at its NIC.
type wire struct {
	tors [2]int // sockets
	nic  int

	mu      sync.Mutex
	arrived map[uint64]int
}

// newWire opens packet sockets on the devices of a mux, in the switch's network namespace.
func newWire(b *testing.B, o *ovstest.OVS, m ovstest.Mux) *wire {
	b.Helper()
	for _, dev := range []string{m.Upper, m.Lower, m.NIC} {
		if out, err := o.Command("ip", "link", "set", dev, "up").CombinedOutput(); err != nil {
			b.Fatalf("ip link set %s up: %v: %s", dev, err, out)
		}
	}
	w := &wire{arrived: map[uint64]int{}}
	opened := make(chan error)
	go func() {
		opened <- inNetNS(o.NetNS(), func() (err error) {
			for i, dev := range []string{m.Upper, m.Lower} {
				if w.tors[i], err = openPacket(dev, 0); err != nil {
					return err
				}
			}
			w.nic, err = openPacket(m.NIC, etherType)
			return err
		})
	}()
	if err := <-opened; err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.receive()
	}()
	b.Cleanup(func() {
		_ = unix.Shutdown(w.nic, unix.SHUT_RDWR)
		_ = unix.Close(w.nic)
		<-ended
		_ = unix.Close(w.tors[0])
		_ = unix.Close(w.tors[1])
	})
	return w
}

// inNetNS calls f in a network namespace.
func inNetNS(path string, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	failed := f()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns back: %w", err) // the thread stays locked, and ends with the goroutine
	}
	runtime.UnlockOSThread()
	return failed
}

// openPacket opens a packet socket on a device (packet(7)); with protocol 0 it only sends.
func openPacket(dev string, protocol uint16) (int, error) {
	var index int
	for range 100 { // the device appears shortly after ovs-vsctl has returned
		text, err := os.ReadFile("/proc/thread-self/net/dev_snmp6/" + dev)
		if err == nil {
			if _, err = fmt.Sscanf(string(text), "ifIndex %d", &index); err == nil {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if index == 0 {
		return 0, fmt.Errorf("no device %s", dev)
	}
	order := protocol<<8 | protocol>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(order))
	if err != nil {
		return 0, fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: order, Ifindex: index}); err != nil {
		return 0, fmt.Errorf("bind to %s: %w", dev, err)
	}
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000})
}

func (w *wire) receive() {
	buf := make([]byte, 128)
	for {
		n, from, err := unix.Recvfrom(w.nic, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); n < 22 || ok && ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		w.mu.Lock()
		w.arrived[binary.BigEndian.Uint64(buf[14:])]++
		w.mu.Unlock()
	}
}

// losses sends numbers while toggle is called n times, and returns for each time how many numbers were lost and how many
// arrived twice.
func (w *wire) losses(b *testing.B, n int, toggle func()) (lost, doubled []int) {
	b.Helper()
	frame := make([]byte, 60)
	copy(frame, []byte{0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, etherType >> 8, etherType & 0xff})
	w.mu.Lock()
	clear(w.arrived)
	w.mu.Unlock()

	var next uint64 // of the number to send; read by the loop below only after a toggle's gap
	var mu sync.Mutex
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		started := time.Now()
		for k := uint64(0); ; k++ {
			select {
			case <-stop:
				return
			default:
			}
			if ahead := time.Duration(k)*packetGap - time.Since(started); ahead > 0 {
				time.Sleep(ahead)
			}
			binary.BigEndian.PutUint64(frame[14:], k)
			for _, tor := range w.tors {
				if _, err := unix.Write(tor, frame); err != nil {
					b.Errorf("send: %v", err)
					return
				}
			}
			mu.Lock()
			next = k + 1
			mu.Unlock()
		}
	})
	time.Sleep(2 * toggleGap) // the datapath has learnt its flows by then
	sent := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return next
	}
	marks := []uint64{sent()}
	for range n {
		toggle()
		time.Sleep(toggleGap)
		marks = append(marks, sent())
	}
	close(stop)
	sending.Wait()
	time.Sleep(toggleGap)

	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		var l, d int
		for k := marks[i]; k < marks[i+1]; k++ {
			switch w.arrived[k] {
			case 0:
				l++
			case 1:
			default:
				d++
			}
		}
		lost, doubled = append(lost, l), append(doubled, d)
	}
	slices.Sort(lost)
	slices.Sort(doubled)
	return lost, doubled
}

// BenchmarkPackets: packets lost and doubled by a toggle of all ports, with both ToRs sending 5,000 numbered packets a
// second, against no toggle at all and against the exec way.
func BenchmarkPackets(b *testing.B) {
	for _, n := range []int{8, 120} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := ovstest.Start(b, ovstest.Userspace())
			muxes := o.AddMuxes(vmSet, n)
			a := startAgent(b, o)
			w := newWire(b, o, muxes[7])
			ex := newExecSwitch(o, muxes)
			for b.Loop() {
				metrics := map[string]float64{}
				add := func(name string, times int, toggle func()) {
					lost, doubled := w.losses(b, times, toggle)
					metrics["lost-"+name] = float64(lost[times/2])
					metrics["lost-max-"+name] = float64(lost[times-1])
					metrics["doubled-"+name] = float64(doubled[times/2])
				}
				add("none", 9, func() {})
				add("agent", 9, func() { a.ToggleAll() })
				a.Stop() // or it would see the other as a person who changes flows
				add("exec", 5, func() { ex.toggleAll(b, 4) })
				report(b, metrics)
			}
		})
	}
}
