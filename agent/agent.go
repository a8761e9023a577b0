// Package agent wires one mux-agent together: switches, engines and the HTTP server, and runs them until told to stop.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/metrics"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Drivers that Config.Driver names.
const (
	DriverOpenFlow  = "openflow"  // OpenFlow on the bridges' management sockets
	DriverOfctl     = "ovs-ofctl" // an ovs-ofctl process for each change
	DriverSimulated = "simulated" // a switch in memory
)

// The ways of seeing changes of the switch that Config.Watch names.
const (
	WatchAuto = "auto" // be told by Open vSwitch where it can, poll where it cannot
	WatchPoll = "poll" // look at all bridges each second
)

// DefaultOVSRunDir is where Open vSwitch's packages put its sockets.
const DefaultOVSRunDir = "/var/run/openvswitch"

// Config is what one agent is told.
type Config struct {
	Listen  string   // TCP address of the HTTP API; port 0 takes a free one, "" needs ListenAuth
	VMSets  []string // the testbeds to serve, at least one
	Driver  string   // one of the drivers above
	Version string   // what GET /version answers

	Watch         string        // one of the ways above; "" means auto
	OVSRunDir     string        // where db.sock and <bridge>.mgmt are; "" means DefaultOVSRunDir
	SimulatePorts int           // ports of each vm_set of the simulated switch
	ChangeTimeout time.Duration // how long the switch may take for one change; 0 means 3 s
	KeepDrops     bool          // leave dropped ports dropped at the start
	KeepFailMode  bool          // don't set fail_mode=secure on the bridges
	Verbose       bool          // add the chain of errors to error bodies

	AllowCIDRs []string // networks whose clients may connect, on both addresses; none means all
	AllowHosts []string // names by which browsers may call the agent, besides addresses, localhost and the server's own name
	ListenAuth string   // TCP address for those who bring a token, a client certificate, or both; "" means none
	TokenFile  string   // tokens for ListenAuth, as api.ParseTokens reads them
	ClientCA   string   // PEM file of the authorities of client certificates for ListenAuth
	TLSCert    string   // PEM files of ListenAuth's certificate and key
	TLSKey     string

	Log *slog.Logger
	// Reload, when not nil, has the files above read again at each value that it brings, whether they have changed or not.
	Reload <-chan struct{}
	// Listening and ListeningAuth, when not nil, are called with the addresses once requests are taken.
	Listening     func(net.Addr)
	ListeningAuth func(net.Addr)
	// NewSwitch, when not nil, makes the switches instead of Driver, and what ends each.
	NewSwitch func(*cable.Names) (sw engine.Switch, closeSwitch func(), err error)
}

// shutdownTimeout is how long requests under way may take at the end; a change takes 3 seconds at most.
const shutdownTimeout = 5 * time.Second

// A SettingError says that a setting is wrong: to start again with it is of no use.
type SettingError struct{ error }

func (e SettingError) Unwrap() error { return e.error }

// Run serves until ctx ends, and then finishes the requests and changes under way. An error says what to do about it.
func Run(ctx context.Context, cfg Config) error {
	cfg.OVSRunDir = cmp.Or(cfg.OVSRunDir, DefaultOVSRunDir)
	if cfg.NewSwitch == nil {
		cfg.NewSwitch = cfg.newSwitch
	}
	engines, switches, closeSwitches, err := newEngines(cfg)
	defer closeSwitches()
	if err != nil {
		return SettingError{err}
	}
	allowed, err := parseCIDRs(cfg.AllowCIDRs)
	if err != nil {
		return SettingError{err}
	}
	secrets, err := cfg.secrets()
	if err != nil {
		return SettingError{err}
	}
	gate := newGate(allowed, fit(cfg.ListenAuth != "", cfg.Listen != ""), cfg.Log)
	measured := metrics.New(metrics.Config{
		Registry: prometheus.NewRegistry(), Engines: engines, Version: cfg.Version, Connections: gate.open, Stale: secrets.stale,
	})
	gate.refused = measured.Refused
	handler := httpapi.New(httpapi.Config{
		Engines: engines, Log: cfg.Log, Verbose: cfg.Verbose, AllowHosts: append(ownNames(), cfg.AllowHosts...),
		Version: api.Version{Version: cfg.Version, Go: runtime.Version(), Driver: cfg.Driver},
		Alive:   func() error { return alive(engines, switches) },
		Metrics: measured.Handler(),
		Observe: func(r httpapi.Observed) { measured.Observe(metrics.Request(r)) },
	})
	for path, method := range handler.Routes() {
		measured.Expect(path, method)
	}
	addresses, err := cfg.open(ctx, handler, gate, secrets)
	if err != nil {
		return err
	}
	var silent silentConns
	for _, a := range addresses {
		a.server.ConnState = func(c net.Conn, state http.ConnState) {
			silent.follow(c, state)
			followHeads(c, state)
		}
		a.server.RegisterOnShutdown(func() {
			handler.EndStreams()
			silent.close()
		})
	}

	// The engines stop after the server, so that requests under way get their answers.
	engineCtx, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	for _, e := range engines {
		group.Go(func() error { return e.Run(engineCtx) })
	}
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-cfg.Reload:
				secrets.reload()
			}
		}
	})
	group.Go(func() error { supervise(ctx, engines, switches, handler, cfg.Log); return nil })
	var open sync.WaitGroup // with one member for each address that is served
	for _, a := range addresses {
		open.Add(1)
		group.Go(a.serve)
		group.Go(func() error {
			defer open.Done()
			<-ctx.Done()
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			if err := a.server.Shutdown(late); err != nil {
				return errors.Join(fmt.Errorf("requests were still open after %v: %w", shutdownTimeout, err), a.server.Close())
			}
			return nil
		})
	}
	group.Go(func() error {
		open.Wait()
		stopEngines()
		return nil
	})
	cfg.announce(addresses)
	err = group.Wait()
	cfg.Log.Info("stopped")
	return err
}

func (cfg Config) announce(addresses []listening) {
	for _, a := range addresses {
		addr, told := a.listener.Addr(), cfg.Listening
		if a.auth {
			told = cfg.ListeningAuth
		}
		cfg.Log.Info("listening", "address", addr.String(), "auth", a.auth, "tls", a.tls, "vm_sets", cfg.VMSets, "driver", cfg.Driver, "version", cfg.Version)
		if told != nil {
			told(addr)
		}
	}
}

// silentConns are the connections on which no request has come yet. Shutdown waits for them as if one were under way, and
// clients leave such connections behind.
type silentConns struct{ conns sync.Map }

func (s *silentConns) follow(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.conns.Store(c, nil)
		return
	}
	s.conns.Delete(c)
}

func (s *silentConns) close() {
	s.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close()
		return true
	})
}

// newEngines makes an engine for each vm_set. closeSwitches is to be called in any case.
func newEngines(cfg Config) (engines []*engine.Engine, switches []engine.Switch, closeSwitches func(), err error) {
	var closers []func()
	closeSwitches = func() {
		for _, c := range closers {
			c()
		}
	}
	if len(cfg.VMSets) == 0 {
		return nil, nil, closeSwitches, errors.New("no vm_set: name the testbed to serve, such as --vm-set vms17-8")
	}
	seen := map[string]bool{}
	for _, vmSet := range cfg.VMSets {
		if seen[vmSet] {
			return nil, nil, closeSwitches, fmt.Errorf("vm_set %q is named twice", vmSet)
		}
		seen[vmSet] = true
		names, err := cable.NewNames(vmSet)
		if err != nil {
			return nil, nil, closeSwitches, err
		}
		sw, closeSwitch, err := cfg.NewSwitch(names)
		if err != nil {
			return nil, nil, closeSwitches, err
		}
		closers = append(closers, closeSwitch)
		switches = append(switches, sw)
		engines = append(engines, engine.New(engine.Config{
			Names: names, Switch: sw, Log: cfg.Log.With("vm_set", vmSet), KeepDrops: cfg.KeepDrops, Timeout: cfg.ChangeTimeout,
			MaxHistory: maxHistory / len(cfg.VMSets),
		}))
	}
	return engines, switches, closeSwitches, nil
}

// maxHistory is what the history of all vm_sets may cost together, in bytes.
const maxHistory = 16 << 20

// ownNames are the server's own, by which a browser may know the agent too.
func ownNames() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	short, _, _ := strings.Cut(name, ".")
	return []string{name, short}
}

// listen says what to do about an address that can't be had.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4" // 0.0.0.0 would be all addresses of IPv6 as well
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: another program has the port (ss -ltnp tells which); stop it or choose another %s", err, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%w: ports below 1024 need root; choose another %s", err, flag)
	case err != nil:
		return nil, fmt.Errorf("%w: want %s host:port, such as 127.0.0.1:8080", err, flag)
	}
	return listener, nil
}
