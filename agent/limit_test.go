package agent_test

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// The limit is the least that any program can do: frames that were built beforehand, written to all bridges and then
// read from all. It shares no code with the agent. Message layouts are those of the OpenFlow 1.4 specification.
type limit struct {
	conns  []net.Conn
	frames [2][][]byte // by the side to which they switch, 0 being the upper
	side   int
	answer []byte
}

// answerSize is that of the replies to OPEN and COMMIT, two bundle controls.
const answerSize = 2 * 16

func newLimit(b *testing.B, o *ovstest.OVS, muxes []ovstest.Mux) *limit {
	b.Helper()
	l := &limit{answer: make([]byte, answerSize), conns: make([]net.Conn, len(muxes))}
	ports := portNumbers(b, o)
	var dialing sync.WaitGroup // one after the other would take longer than OVS waits for a word on the first
	for i, m := range muxes {
		dialing.Go(func() {
			c, err := dialOpenFlow(o, m.Bridge)
			if err != nil {
				b.Error(err)
				return
			}
			l.conns[i] = c
		})
		for side, names := range [2][2]string{{m.Lower, m.Upper}, {m.Upper, m.Lower}} {
			l.frames[side] = append(l.frames[side], bundle(ports[names[0]], ports[names[1]], ports[m.NIC]))
		}
	}
	dialing.Wait()
	b.Cleanup(l.close)
	if b.Failed() {
		b.FailNow()
	}
	return l
}

// close makes the switch forget the limit. A second close does nothing.
func (l *limit) close() {
	for _, c := range l.conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// portNumbers returns the OpenFlow port numbers of all ports of all bridges.
func portNumbers(b *testing.B, o *ovstest.OVS) map[string]uint32 {
	b.Helper()
	numbers := map[string]uint32{}
	for line := range strings.Lines(o.Vsctl("--format=csv", "--no-headings", "--columns=name,ofport", "list", "Interface")) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ",")
		n, err := strconv.ParseUint(number, 10, 32)
		must(b, err)
		numbers[name] = uint32(n)
	}
	return numbers
}

// dialOpenFlow says hello in version 1.4 and reads the other hello.
func dialOpenFlow(o *ovstest.OVS, bridge string) (net.Conn, error) {
	c, err := net.Dial("unix", filepath.Join(o.RunDir, bridge+".mgmt"))
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(10 * wait.Limit)); err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{5, 0, 0, 8, 0, 0, 0, 1}); err != nil {
		return nil, err
	}
	return c, skipMessage(c)
}

func skipMessage(c net.Conn) error {
	header := make([]byte, 8)
	if _, err := io.ReadFull(c, header); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(header[2:]))-8)
	return err
}

func (l *limit) toggleAll(b *testing.B) {
	b.Helper()
	l.side = 1 - l.side
	for i := range l.conns {
		l.write(b, i)
	}
	for i := range l.conns {
		l.read(b, i)
	}
}

func (l *limit) toggleOne(b *testing.B, i int) {
	b.Helper()
	l.side = 1 - l.side
	l.write(b, i)
	l.read(b, i)
}

func (l *limit) write(b *testing.B, i int) {
	_, err := l.conns[i].Write(l.frames[l.side][i])
	must(b, err)
}

func (l *limit) read(b *testing.B, i int) {
	_, err := io.ReadFull(l.conns[i], l.answer)
	must(b, err)
	if l.answer[1] != 33 || l.answer[17] != 33 {
		b.Fatalf("the limit was refused: % x", l.answer)
	}
}

func (l *limit) barrier(b *testing.B, i int) {
	b.Helper()
	_, err := l.conns[i].Write([]byte{5, 20, 0, 8, 0, 0, 0, 9})
	must(b, err)
	_, err = io.ReadFull(l.conns[i], l.answer[:8])
	must(b, err)
}

// monitor has Open vSwitch tell every connection of the changes of flows of its bridge, and throws away what it tells.
func (l *limit) monitor(b *testing.B) {
	b.Helper()
	const anyOf = ^uint32(0)
	setConfig := message(9, be(uint16(0), uint16(0xffff)))
	request := message(18, be(uint16(16), uint16(0), uint32(0), uint32(1), anyOf, anyOf, uint16(0x1f), byte(0xff), byte(0),
		uint16(1), uint16(4), uint32(0)))
	for _, c := range l.conns {
		_, err := c.Write(slices.Concat(setConfig, request))
		must(b, err)
		header := make([]byte, 8)
		_, err = io.ReadFull(c, header)
		must(b, err)
		if header[1] != 19 {
			b.Fatalf("no flow monitor: message of type %d", header[1])
		}
		go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
	}
}

// bundle deletes the flow from one port and adds one from another to the NIC: OPEN, two ADDs, COMMIT.
func bundle(from, to, nic uint32) []byte {
	frames := bundleControl(0)
	frames = append(frames, bundleAdd(flowMod(4, from))...) // delete strict
	frames = append(frames, bundleAdd(flowMod(0, to, nic))...)
	return append(frames, bundleControl(4)...)
}

func message(kind byte, parts ...[]byte) []byte {
	m := []byte{5, kind, 0, 0, 0, 0, 0, 2}
	for _, p := range parts {
		m = append(m, p...)
	}
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}

func be(values ...any) []byte {
	var out []byte
	for _, v := range values {
		var err error
		if out, err = binary.Append(out, binary.BigEndian, v); err != nil {
			panic(err)
		}
	}
	return out
}

// bundleControl has the flags atomic and ordered.
func bundleControl(kind uint16) []byte { return message(33, be(uint32(1), kind, uint16(3))) }

func bundleAdd(inner []byte) []byte {
	return message(34, be(uint32(1), uint16(0), uint16(3)), inner)
}

// flowMod matches an in-port and outputs to the others; it has the priority and cookie of a mux's flows.
func flowMod(command byte, inPort uint32, out ...uint32) []byte {
	const anyOf = ^uint32(0)
	m := be(uint64(0), uint64(0), byte(0), command, uint16(0), uint16(0), uint16(32768), anyOf, anyOf, anyOf, uint16(0), uint16(0),
		uint16(1), uint16(12), uint32(0x80000004), inPort, uint32(0))
	if len(out) == 0 {
		return message(14, m)
	}
	m = append(m, be(uint16(4), uint16(8+16*len(out)), uint32(0))...)
	for _, port := range out {
		m = append(m, be(uint16(0), uint16(16), port, uint16(0xffff), [6]byte{})...)
	}
	return message(14, m)
}

// dialReadWrite is the least that a start needs: on all bridges at once dial, read the flows, and write two.
func dialReadWrite(b *testing.B, o *ovstest.OVS, muxes []ovstest.Mux) {
	b.Helper()
	flowStats := message(18, be(uint16(1), uint16(0), uint32(0), byte(0xff), [3]byte{}, ^uint32(0), ^uint32(0), uint32(0), uint64(0), uint64(0),
		uint16(1), uint16(4), uint32(0)))
	two := slices.Concat(bundleControl(0), bundleAdd(flowMod(0, 1, 2, 3)), bundleAdd(flowMod(0, 2, 1)), bundleControl(4))
	var dialing sync.WaitGroup
	for _, m := range muxes {
		dialing.Go(func() {
			c, err := dialOpenFlow(o, m.Bridge)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			for _, step := range []struct {
				send    []byte
				answers int
			}{{flowStats, 1}, {two, 2}} {
				if _, err := c.Write(step.send); err != nil {
					b.Error(err)
					return
				}
				for range step.answers {
					if err := skipMessage(c); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	dialing.Wait()
}
