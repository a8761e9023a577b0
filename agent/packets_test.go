package agent_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
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
		wait.For(b, dev+" is there", func() bool { // which it is shortly after ovs-vsctl has returned
			return o.Command("ip", "link", "set", dev, "up").Run() == nil
		})
	}
	w := &wire{arrived: map[uint64]int{}}
	for dev, socket := range map[string]*int{m.Upper: &w.tors[0], m.Lower: &w.tors[1]} {
		*socket = packetSocket(b, o, dev, 0)
	}
	w.nic = packetSocket(b, o, m.NIC, etherType)
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

// packetSocket opens a packet socket on a device, reads from which end after a while with EAGAIN.
func packetSocket(b *testing.B, o *ovstest.OVS, dev string, protocol uint16) int {
	b.Helper()
	fd, err := o.PacketSocket(dev, protocol)
	must(b, err)
	must(b, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	return fd
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
