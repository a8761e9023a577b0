// Package agenttest runs a real agent on the simulated switch, in process, for everybody's tests.
//
// It offers what a person or a fault does to a testbed, as verbs, and no types of the agent's inside.
package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// An Agent is a running agent with its simulated switch. Its methods fail the test when something goes wrong.
type Agent struct {
	URL   string // such as "http://127.0.0.1:43215"; the same after Restart
	Auth  string // address of Config.ListenAuth, where there is one
	VMSet string

	t         testing.TB
	names     *cable.Names
	sw        *simswitch.Switch
	configure func(*agent.Config)
	stop      func()

	client http.Client
}

type options struct {
	vmSet     string
	ports     int
	configure func(*agent.Config)
}

// An Option changes what Start makes.
type Option func(*options)

// VMSet names the testbed; the default is "vms17-8".
func VMSet(name string) Option { return func(o *options) { o.vmSet = name } }

// Ports sets the number of ports; the default is 12.
func Ports(n int) Option { return func(o *options) { o.ports = n } }

// Config changes what the agent is told, at each of its starts.
func Config(change func(*agent.Config)) Option { return func(o *options) { o.configure = change } }

// Start runs an agent until the test ends, and returns when it is ready.
func Start(t testing.TB, opts ...Option) *Agent {
	t.Helper()
	o := options{vmSet: "vms17-8", ports: 12, configure: func(*agent.Config) {}}
	for _, opt := range opts {
		opt(&o)
	}
	names, err := cable.NewNames(o.vmSet)
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{VMSet: o.vmSet, t: t, names: names, sw: simswitch.New(names, o.ports), stop: func() {}, configure: o.configure}
	a.client.Transport = &http.Transport{}
	a.start("127.0.0.1:0")
	t.Cleanup(func() {
		a.stop()
		a.client.CloseIdleConnections()
	})
	a.waitFor("/readyz", http.StatusOK)
	return a
}

// start runs an agent. An address that it had before may for a moment be that of somebody's connection.
func (a *Agent) start(listen string) {
	a.t.Helper()
	err := a.tryStart(listen)
	for deadline := time.Now().Add(wait.Limit); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
		err = a.tryStart(listen)
	}
	if err != nil {
		a.t.Fatalf("agent did not start: %v", err)
	}
}

func (a *Agent) tryStart(listen string) error {
	ctx, cancel := context.WithCancel(context.Background())
	address, authAddress := make(chan net.Addr, 1), make(chan net.Addr, 1)
	ended := make(chan error, 1)
	cfg := agent.Config{
		Listen: listen, VMSets: []string{a.VMSet}, Driver: agent.DriverSimulated, Version: "test",
		Log:           slog.New(slog.DiscardHandler),
		Listening:     func(addr net.Addr) { address <- addr },
		ListeningAuth: func(addr net.Addr) { authAddress <- addr },
		NewSwitch:     func(*cable.Names) (engine.Switch, func(), error) { return a.sw, func() {}, nil },
	}
	a.configure(&cfg)
	go func() { ended <- agent.Run(ctx, cfg) }()
	select {
	case addr := <-address:
		a.URL = "http://" + addr.String()
		if cfg.ListenAuth != "" {
			a.Auth = (<-authAddress).String()
		}
	case err := <-ended:
		cancel()
		return err
	}
	a.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			a.t.Errorf("agent: %v", err)
		}
		a.stop = func() {}
	}
	return nil
}

// waitFor polls a path until it answers with a status.
func (a *Agent) waitFor(path string, status int) {
	a.t.Helper()
	wait.For(a.t, fmt.Sprintf("the agent answers %d on %s", status, path), func() bool {
		res, err := a.client.Get(a.URL + path)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == status
	})
}

// waitSays polls a path until the answer has words in it.
func (a *Agent) waitSays(path, words string) {
	a.t.Helper()
	wait.For(a.t, fmt.Sprintf("the agent says %q on %s", words, path), func() bool {
		res, err := a.client.Get(a.URL + path)
		if err != nil {
			a.t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return err == nil && strings.Contains(string(body), words)
	})
}

// port is the path of a port.
func (a *Agent) port(port int) string { return fmt.Sprintf("/mux/%s/%d", a.VMSet, port) }

// Restart stops the agent and starts it on the same address and switch, as systemctl restart does.
func (a *Agent) Restart() {
	a.t.Helper()
	a.Stop()
	a.Resume()
}

// Stop ends the agent; the switch stays as it is.
func (a *Agent) Stop() { a.stop() }

// Resume starts a stopped agent on the address that it had, and returns when it is ready.
func (a *Agent) Resume() {
	a.t.Helper()
	a.ResumeUnready()
	a.waitFor("/readyz", http.StatusOK)
}

// ResumeUnready is Resume for a switch that can't be read.
func (a *Agent) ResumeUnready() {
	a.t.Helper()
	a.start(strings.TrimPrefix(a.URL, "http://"))
}

// Flip switches the active side of a port through the API, as somebody else's toggle does.
func (a *Agent) Flip(port int) {
	a.t.Helper()
	a.toggle(a.port(port))
}

// FlipAll is Flip for all ports, in one call.
func (a *Agent) FlipAll() {
	a.t.Helper()
	a.toggle("/mux/" + a.VMSet)
}

func (a *Agent) toggle(path string) {
	a.t.Helper()
	res, err := a.client.Post(a.URL+path, "application/json", strings.NewReader(`{"active_side":"toggle"}`))
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		a.t.Fatalf("POST %s: %s: %s", path, res.Status, body)
	}
}

// RemoveBridge deletes the bridge of a port from the switch, and returns when the agent no longer serves it.
func (a *Agent) RemoveBridge(port int) {
	a.t.Helper()
	a.sw.RemoveBridge(a.names.Bridge(port))
	a.waitFor(a.port(port), http.StatusNotFound)
}

// AddBridge makes a bridge for a port, without flows, and returns when the agent lists it as rejected, as it does
// unless there are three ports. With three, WaitServed returns when it is served.
func (a *Agent) AddBridge(port int, ports ...string) {
	a.t.Helper()
	a.sw.AddBridge(a.names.Bridge(port), ports...)
	if len(ports) != 3 {
		a.waitSays("/mux", a.names.Bridge(port))
	}
}

// WaitServed returns when a port is served.
func (a *Agent) WaitServed(port int) {
	a.t.Helper()
	a.waitFor(a.port(port), http.StatusOK)
}

// Stall makes the switch hang until the returned function is called.
func (a *Agent) Stall() (resume func()) { return a.sw.Stall() }

// WaitAsked returns when the agent has asked a stalled switch for a change.
func (a *Agent) WaitAsked() {
	a.t.Helper()
	wait.For(a.t, "the switch is asked for a change", func() bool { return a.sw.Waiting() > 0 })
}

// FailNext makes the switch refuse the next change of a port with these words.
func (a *Agent) FailNext(port int, words string) { a.sw.FailNext(a.names.Bridge(port), words) }

// Inject sends a packet into an OVS port of a mux and returns the names of the ports where it comes out, sorted.
func (a *Agent) Inject(port int, from string) []string {
	return a.sw.Inject(a.names.Bridge(port), from)
}

// AddForeignFlow adds a flow to the bridge of a port that is not one of a mux, and returns when the agent has seen it.
func (a *Agent) AddForeignFlow(port int) {
	a.t.Helper()
	a.sw.AddRawFlow(a.names.Bridge(port), cable.Entry{Flow: cable.Flow{Priority: 100, Match: "arp", Action: "CONTROLLER:65535"}})
	a.waitSays(a.port(port), "foreign flow")
}
