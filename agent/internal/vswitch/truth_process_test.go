package vswitch_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

// buildAgent builds the agent once. Other users may run it.
var buildAgent = sync.OnceValues(func() (string, error) {
	path := filepath.Join(agentDir(), "mux-agent")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/mux-agent").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return path, nil
})

// agentDir is where buildAgent puts it.
func agentDir() string { return filepath.Join(os.TempDir(), fmt.Sprintf("mux-agent-%d", os.Getpid())) }

func removeAgent() { _ = os.RemoveAll(agentDir()) }

// A process is an agent that can be treated as such.
type process struct {
	t     *testing.T
	o     *ovstest.OVS
	muxes []ovstest.Mux
	cmd   *exec.Cmd
	url   string
	ended chan error
}

// newProcess starts an agent on a switch and waits until it listens. user is who runs it; 0 is root.
func newProcess(t *testing.T, o *ovstest.OVS, muxes []ovstest.Mux, by way, user uint32) *process {
	t.Helper()
	path, err := buildAgent()
	if err != nil {
		t.Fatal(err)
	}
	watch := "auto"
	if by.poll {
		watch = "poll"
	}
	p := &process{t: t, o: o, muxes: muxes, ended: make(chan error, 1)}
	p.cmd = exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--vm-set", vmSet, "--ovs-rundir", o.RunDir, "--watch", watch)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if user != 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	var log bytes.Buffer
	p.cmd.Stderr = &log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	line := make(chan string, 1)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig is about the thread
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		first, _ := bufio.NewReader(out).ReadString('\n')
		line <- first
		p.ended <- p.cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		t.Logf("the agent ended: %v", <-p.ended)
		if t.Failed() {
			t.Logf("log of the agent:\n%s", log.Bytes())
		}
	})
	_, p.url, _ = strings.Cut(strings.TrimSpace(<-line), "listening on ")
	return p
}

// get returns the status code of a path and decodes the answer, when it is 200.
func (p *process) get(path string, into any) (code int, text string) {
	p.t.Helper()
	client := http.Client{Timeout: hangLimit}
	defer client.CloseIdleConnections()
	res, err := client.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode == http.StatusOK && into != nil {
		if err := json.Unmarshal(body.Bytes(), into); err != nil {
			p.t.Fatalf("%v: %s", err, body.Bytes())
		}
	}
	return res.StatusCode, body.String()
}

func (p *process) waitReady() {
	p.t.Helper()
	waitFor(p.t, "the agent is ready", func() bool {
		code, _ := p.get(api.PathReadyz, nil)
		return code == http.StatusOK
	})
}

// checkTruth compares the status of each mux with where packets go.
func (p *process) checkTruth() {
	p.t.Helper()
	var all api.Muxes
	if code, text := p.get(api.VMSetPath(vmSet), &all); code != http.StatusOK {
		p.t.Fatalf("%d: %s", code, text)
	}
	for _, m := range p.muxes {
		s := all[m.Bridge]
		want := goes(m, upper)
		if s.ActiveSide == api.LowerToR {
			want = goes(m, lower)
		}
		for in, out := range want {
			if got := p.o.Trace(m.Bridge, in); !s.Healthy || !slices.Equal(got, out) {
				p.t.Errorf("%s is %s, healthy %v: a packet from %s comes out at %v, want %v", m.Bridge, s.ActiveSide, s.Healthy, in, got, out)
			}
		}
	}
}

// TestTruthOfAnAgentThatEnds ends the agent in the midst of changes of all ports. Each mux is a proper cable afterwards, and
// the next agent finds it so.
func TestTruthOfAnAgentThatEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		o := ovstest.Start(t)
		muxes := o.AddMuxes(vmSet, 40)
		o.SetTestbedFlows(muxes[:1]...)
		newProcess(t, o, muxes, by, 0).waitReady() // has set fail_mode, and runs beside the others
		for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
			p := newProcess(t, o, muxes, by, 0)
			p.waitReady()
			var toggling sync.WaitGroup
			begun := make(chan bool, 1)
			toggling.Go(func() {
				client := http.Client{Timeout: hangLimit, Transport: &http.Transport{DisableKeepAlives: true}}
				for {
					res, err := client.Post(p.url+api.VMSetPath(vmSet), "application/json", strings.NewReader(`{"active_side":"toggle"}`))
					if err != nil {
						return // it has ended
					}
					res.Body.Close()
					select {
					case begun <- true:
					default:
					}
				}
			})
			<-begun
			time.Sleep(time.Duration(i) * 7 * time.Millisecond) // somewhere in a change
			_ = p.cmd.Process.Signal(sig)
			err := <-p.ended
			toggling.Wait()
			if sig == syscall.SIGTERM && err != nil {
				t.Errorf("after SIGTERM the agent ended with %v", err)
			}
			for _, m := range muxes {
				up, low := o.Trace(m.Bridge, m.Upper), o.Trace(m.Bridge, m.Lower)
				if len(up)+len(low) != 1 || len(o.Trace(m.Bridge, m.NIC)) != 2 {
					t.Errorf("after %v, %s: from the upper ToR to %v, from the lower to %v; want exactly one of them to reach the NIC", sig, m.Bridge, up, low)
				}
			}
		}
		p := newProcess(t, o, muxes, by, 0)
		p.waitReady()
		p.checkTruth()
	})
}

// TestTruthAfterAPause stops the agent while somebody changes more than Open vSwitch keeps for a reader that does not read.
func TestTruthAfterAPause(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		o := ovstest.Start(t)
		muxes := o.AddMuxes(vmSet, 2)
		p := newProcess(t, o, muxes, by, 0)
		p.waitReady()
		p.checkTruth()
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		m, n := muxes[0], o.Ports(muxes[0].Bridge)
		var many strings.Builder
		for i := range 20000 {
			fmt.Fprintf(&many, "priority=9,ip,nw_src=10.%d.%d.1,actions=drop\n", i/250, i%250)
		}
		cmd := o.Command("ovs-ofctl", "add-flows", m.Bridge, "-")
		cmd.Stdin = strings.NewReader(many.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.Ofctl("del-flows", m.Bridge)
		o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d,%d", n[m.NIC], n[m.Upper], n[m.Lower]))
		o.Ofctl("add-flow", m.Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", n[m.Lower], n[m.NIC]))
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		waitFor(t, "what was done meanwhile is adopted", func() bool {
			var s api.Status
			p.get(api.PortPath(vmSet, 0), &s)
			return s.Healthy && s.ActiveSide == api.LowerToR
		})
		p.checkTruth()
	})
}

// TestTruthWithoutPermission runs the agent as a user who may not open Open vSwitch's sockets, and then may.
func TestTruthWithoutPermission(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		if os.Geteuid() != 0 {
			if os.Getenv("CI") == "true" {
				t.Fatal("another user's rights can be tried by root only")
			}
			t.Skip("another user's rights can be tried by root only")
		}
		const nobody = 65534
		o := ovstest.Start(t)
		muxes := o.AddMuxes(vmSet, 2)
		if err := os.Chmod(o.RunDir, 0o755); err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, o, muxes, by, nobody)
		for _, step := range []struct{ words, sockets string }{
			{"no permission to open " + o.RunDir + "/db.sock", "db.sock"},
			{"permission denied", "*.mgmt"},
		} {
			waitFor(t, "the agent says: "+step.words, func() bool {
				code, text := p.get(api.VMSetPath(vmSet), nil)
				return code == http.StatusServiceUnavailable && strings.Contains(text, step.words)
			})
			sockets, err := filepath.Glob(filepath.Join(o.RunDir, step.sockets))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range sockets {
				if err := os.Chown(path, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.waitReady()
		p.checkTruth()
	})
}
