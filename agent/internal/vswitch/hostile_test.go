package vswitch_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// serveEndless listens at path and has everybody who comes be sent something without end, until stop.
func serveEndless(t *testing.T, path, start, more string) (stop func()) {
	t.Helper()
	return ovstest.Serve(t, path, func(c net.Conn) {
		_, err := c.Write([]byte(start))
		for err == nil && more != "" {
			_, err = c.Write([]byte(more))
		}
		_, _ = c.Read(make([]byte, 1<<20)) // what it asks
		_, _ = c.Read(make([]byte, 1))
	})
}

// cost is what the process has used so far: the most memory in MB, and time of a core.
func (p *process) cost() (megabytes int, cpu time.Duration) {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kilobytes, _ := strconv.Atoi(string(bytes.Fields(value)[0]))
			megabytes = kilobytes >> 10
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return megabytes, time.Duration(user+system) * 10 * time.Millisecond
}

// TestTruthWithHostilePeers: a program that is not a database listens at db.sock. The agent says so, takes little for it, serves again
// when the database is back, and ends when it is told to.
func TestTruthWithHostilePeers(t *testing.T) {
	t.Parallel()
	for name, peer := range map[string]struct{ start, more string }{
		"garbage":           {"", strings.Repeat("\xfegarbage", 1000)},
		"an endless string": {`{"id":1,"error":null,"result":"`, strings.Repeat("a", 1<<16)},
		"a null id":         {`{"id":null}`, ""},
		"a bare number":     {"5\n", ""},
		"no rows":           {`{"id":1,"error":null,"result":{}}`, ""},
		"silence":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ovstest.Start(t)
			muxes := o.AddMuxes(vmSet, 2)
			p := newProcess(t, o, muxes, way{}, 0)
			p.WaitReady()
			o.Server.Stop()
			socket := filepath.Join(o.RunDir, "db.sock")
			stop := serveEndless(t, socket, peer.start, peer.more)
			wait.For(t, "the agent says that it can't read", func() bool { return !p.Status(0).Healthy })
			_, before := p.cost()
			watched := 3 * time.Second
			time.Sleep(watched) // the agent's cost in this time is what is measured
			megabytes, after := p.cost()
			if megabytes > 150 {
				t.Errorf("the agent took %d MB", megabytes)
			}
			if used := after - before; used > watched/2 {
				t.Errorf("the agent used %v of a core in %v", used, watched)
			}
			t.Logf("%d MB, %v of a core in %v", megabytes, after-before, watched)
			stop()
			o.Server.Start()
			wait.For(t, "the agent serves again", func() bool { return p.Status(0).Healthy && p.Status(1).Healthy })
			p.checkTruth()

			o.Server.Stop()
			defer serveEndless(t, socket, peer.start, peer.more)()
			time.Sleep(100 * time.Millisecond) // the agent may be anywhere in its attempts by now; nothing waits for a certain one
			told := time.Now()
			p.Stop()
			if took := time.Since(told); took > 5*time.Second {
				t.Errorf("it took the agent %v to end", took)
			}
		})
	}
}
