package openflow

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// follow follows a bridge until the test ends, and returns what counts the calls.
func follow(t *testing.T, p *Pool, bridge string) *atomic.Int64 {
	t.Helper()
	var told atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		p.Follow(ctx, bridge, true, func(bool) { told.Add(1) })
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		wait.Receive(t, "the end of Follow", ended)
	})
	return &told
}

// tells reports whether the Open vSwitch of the tests tells of flows, as it does from 3.0 on.
func tells(t *testing.T, o *ovstest.OVS, p *Pool, bridge string) bool {
	t.Helper()
	version := o.Appctl("version")
	_, number, _ := strings.Cut(version, "(Open vSwitch) ")
	major, _, _ := strings.Cut(number, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		t.Fatalf("what version is %q?", version)
	}
	got, err := p.tells(wait.Context(t), bridge)
	if err != nil || got != (n >= 3) {
		t.Fatalf("tells = %v, error %v; this is %s", got, err, version)
	}
	return got
}

// waitMore waits until there were more calls than before, and returns how many there are then.
func waitMore(t *testing.T, what string, told *atomic.Int64, before int64) int64 {
	t.Helper()
	for ctx := wait.Context(t); ; time.Sleep(time.Millisecond) {
		if now := told.Load(); now > before {
			return now
		}
		if ctx.Err() != nil {
			t.Fatalf("nothing was told: %s", what)
		}
	}
}

func TestFollowOVS(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 0)
	flows := tells(t, o, pool, m.Bridge)
	told := follow(t, pool, m.Bridge)
	n := waitMore(t, "connected", told, 0)

	// The pool's own changes are none, whatever they do.
	u := cable.Update{Bridge: m.Bridge, Want: wanted(o, m, cable.UpperToR)}
	mustApply(t, pool, u)
	u.Have, u.Known = wanted(o, m, cable.LowerToR), true
	for range 4 {
		u.Have, u.Want = u.Want, u.Have
		mustApply(t, pool, u)
	}
	checkFlowsOf(t, pool, m.Bridge, u.Want) // answered after whatever OVS had to tell
	if got := told.Load(); got != n {
		t.Errorf("told %d times of own changes", got-n)
	}

	for _, act := range []struct {
		what  string
		flows bool // which only a newer OVS tells of
		do    func()
	}{
		{"a flow added", true, func() { o.Ofctl("add-flow", m.Bridge, "priority=7,actions=drop") }},
		{"a flow changed", true, func() { o.Ofctl("mod-flows", m.Bridge, "priority=7,actions=LOCAL") }},
		{"flows deleted", true, func() { o.Ofctl("del-flows", m.Bridge) }},
		{"a flow that ended", false, func() { o.Ofctl("add-flow", m.Bridge, "hard_timeout=1,send_flow_rem,actions=drop") }},
		{"a port added", false, func() { o.AddPort(m.Bridge, "extra") }},
		{"a port changed", false, func() { o.Ofctl("mod-port", m.Bridge, "extra", "down") }},
		{"a port told not to receive", false, func() { o.Ofctl("mod-port", m.Bridge, "extra", "no-receive") }},
		{"a port deleted", false, func() { o.Vsctl("del-port", "extra") }},
		{"OVS ended", false, o.Vswitchd.Stop},
		{"OVS is back", false, o.Vswitchd.Start},
		{"OVS crashed", false, func() { o.Vswitchd.Kill(); waitMore(t, "the end", told, n); n = told.Load(); o.Vswitchd.Start() }},
		{"a flow added after that", true, func() { o.Ofctl("add-flow", m.Bridge, "priority=8,actions=drop") }},
	} {
		if act.flows && !flows {
			continue
		}
		n = told.Load()
		act.do()
		n = waitMore(t, act.what, told, n)
		// What came with it is told before the barrier is answered.
		if c, err := pool.conn(t.Context(), m.Bridge); err == nil {
			_ = c.Barrier(wait.Context(t))
		}
	}
}

// A reader that stops reading is told of nothing while OVS has no room for it, and then that it missed something.
func TestMonitorPausesAndResumes(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMuxes("vms1", 1)[0]
	pool := newPool(t, o.RunDir, 0)
	if !tells(t, o, pool, m.Bridge) {
		return // there is no monitor to pause
	}
	c, err := pool.conn(wait.Context(t), m.Bridge)
	if err != nil {
		t.Fatal(err)
	}
	var told atomic.Int64
	reading := make(chan struct{})
	if err := c.Watch(wait.Context(t), true, func() { told.Add(1); <-reading }); err != nil {
		t.Fatal(err)
	}
	const flows = 20000 // more than a socket and OVS's own queue hold
	cmd := o.Command("ovs-ofctl", "add-flows", m.Bridge, "-")
	cmd.Stdin = manyFlows(flows)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := waitMore(t, "the first flow", &told, 0)
	if n != 1 {
		t.Fatalf("told %d times while the first call has not come back", n)
	}
	close(reading)
	if err := c.Barrier(wait.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got := told.Load(); got >= flows {
		t.Errorf("told %d times of %d flows: OVS did not pause, and nothing was tried", got, flows)
	}
	n = told.Load()
	o.Ofctl("del-flows", m.Bridge)
	waitMore(t, "flows deleted after the pause", &told, n)
}

// manyFlows lists flows as ovs-ofctl add-flows reads them.
func manyFlows(n int) io.Reader {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "priority=9,ip,nw_src=10.%d.%d.1,actions=drop\n", i/250, i%250)
	}
	return strings.NewReader(b.String())
}

func TestFollowEndsWithThePool(t *testing.T) {
	pool := newPool(t, t.TempDir(), 0)
	ended := make(chan bool)
	go func() {
		pool.Follow(t.Context(), "br0", true, func(bool) {})
		close(ended)
	}()
	pool.Close()
	wait.Receive(t, "the end of Follow", ended)
}

// TestOtherMonitors: whatever an OVS without a flow monitor for OpenFlow 1.4 makes of the request, it is not believed to tell.
func TestOtherMonitors(t *testing.T) {
	for name, answer := range map[string]func(c net.Conn, m message){
		"refuses": func(c net.Conn, m message) { c.Write(errorReply(m.xid, &Error{Type: 1, Code: 2})) },
		"ignores": func(net.Conn, message) {},
		"answers in another version": func(c net.Conn, m message) {
			b := multipartReply(m.xid, multipartFlowMonitor, false)
			b[0] = 1
			c.Write(patchLength(b, 0))
		},
		"answers something else": func(c net.Conn, m message) {
			c.Write(patchLength(multipartReply(m.xid, multipartPortDesc, false), 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := (&peer{hears: func(c net.Conn, m message) bool {
				if m.kind != typeMultipartReq || be.Uint16(m.body) != multipartFlowMonitor {
					return false
				}
				answer(c, m)
				return true
			}}).start(t)
			pool := newPool(t, p.dir(), 0)
			if got, err := pool.tells(wait.Context(t), "br0"); got || err != nil {
				t.Errorf("tells = %v, error %v", got, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			changed := make(chan bool, 100)
			var following sync.WaitGroup
			following.Go(func() { pool.Follow(ctx, "br0", true, func(told bool) { changed <- told }) })
			if wait.Receive(t, "a change", changed) {
				t.Error("Follow says that flows are told")
			}
			cancel()
			following.Wait()
		})
	}
}

// TestFollowPausesBetweenConnections: a peer that takes connections, and ends each, is not called without a pause.
func TestFollowPausesBetweenConnections(t *testing.T) {
	var dials atomic.Int64
	p := (&peer{hears: func(c net.Conn, m message) bool {
		if m.kind == typeMultipartReq && be.Uint16(m.body) == multipartFlowMonitor {
			c.Write(patchLength(multipartReply(m.xid, multipartFlowMonitor, false), 0))
			c.Write(appendEmpty(nil, typeBarrierRep, m.xid+1))
			time.AfterFunc(time.Millisecond, func() { c.Close() })
			dials.Add(1)
			return true
		}
		return false
	}}).start(t)
	pool := newPool(t, p.dir(), 0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	pool.Follow(ctx, "br0", true, func(bool) {})
	// 5, 10, 20, … 640 ms and 1 s, at least half of each, and a trial for each: it was 190 a second.
	if got := dials.Load(); got > 40 || got < 4 {
		t.Errorf("%d monitors were asked for in two seconds", got)
	}
}

func TestForeign(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"nothing":              {nil, false},
		"our own":              {[]byte{0, 8, 0, eventAbbrev, 0, 0, 0, 7}, false},
		"a pause":              {[]byte{0, 8, 0, eventPaused, 0, 0, 0, 0}, false},
		"the end of a pause":   {[]byte{0, 8, 0, 6, 0, 0, 0, 0}, true},
		"our own, then other":  {[]byte{0, 8, 0, eventAbbrev, 0, 0, 0, 7, 0, 8, 0, 1, 0, 0, 0, 0}, true},
		"our own, then a rest": {[]byte{0, 8, 0, eventAbbrev, 0, 0, 0, 7, 0}, true},
		"longer than it is":    {[]byte{0, 9, 0, eventAbbrev, 0, 0, 0, 7}, true},
		"no length":            {[]byte{0, 0, 0, eventAbbrev}, true},
	} {
		if got := foreign(c.b); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// FuzzForeign: a message is taken for no change of somebody else's only when every part of it says so.
func FuzzForeign(f *testing.F) {
	f.Add([]byte{0, 8, 0, eventAbbrev, 0, 0, 0, 7, 0, 8, 0, eventPaused, 0, 0, 0, 0})
	f.Fuzz(checkForeign)
}

func checkForeign(t *testing.T, b []byte) {
	if foreign(b) {
		return
	}
	for len(b) > 0 {
		n, event := int(b[0])<<8|int(b[1]), int(b[2])<<8|int(b[3])
		if event != eventAbbrev && event != eventPaused {
			t.Fatalf("an event %d was taken for no change", event)
		}
		b = b[n:]
	}
}
