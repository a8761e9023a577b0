// Package agent wires one mux-agent together: switches, engines and the HTTP server, and runs them until told to stop.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Drivers that Config.Driver names.
const (
	DriverOpenFlow  = "openflow"  // OpenFlow on the bridges' management sockets
	DriverOfctl     = "ovs-ofctl" // an ovs-ofctl process for each change
	DriverSimulated = "simulated" // a switch in memory
)

// Config is what one agent is told.
type Config struct {
	Listen  string   // TCP address of the HTTP API; port 0 takes a free one
	VMSets  []string // the testbeds to serve, at least one
	Driver  string   // one of the drivers above
	Version string   // what GET /version answers

	OVSRunDir     string        // where db.sock and <bridge>.mgmt are; "" means /var/run/openvswitch
	SimulatePorts int           // ports of each vm_set of the simulated switch
	ChangeTimeout time.Duration // how long the switch may take for one change; 0 means 3 s
	KeepDrops     bool          // leave dropped ports dropped at the start
	KeepFailMode  bool          // don't set fail_mode=secure on the bridges
	Verbose       bool          // add the chain of errors to error bodies

	Log *slog.Logger
	// Listening, when not nil, is called with the address once requests are taken.
	Listening func(net.Addr)
	// NewSwitch, when not nil, makes the switches instead of Driver, and what ends each.
	NewSwitch func(*cable.Names) (sw engine.Switch, closeSwitch func(), err error)
}

// shutdownTimeout is how long requests under way may take at the end; a change takes 3 seconds at most.
const shutdownTimeout = 5 * time.Second

// Run serves until ctx ends, and then finishes the requests and changes under way. An error says what to do about it.
func Run(ctx context.Context, cfg Config) error {
	if cfg.NewSwitch == nil {
		cfg.NewSwitch = cfg.newSwitch
	}
	engines, closeSwitches, err := newEngines(cfg)
	defer closeSwitches()
	if err != nil {
		return err
	}
	listener, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	handler := httpapi.New(httpapi.Config{
		Engines: engines, Log: cfg.Log, Verbose: cfg.Verbose,
		Version: api.Version{Version: cfg.Version, Go: runtime.Version()},
	})
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}

	var silent silentConns
	server.ConnState = silent.follow
	server.RegisterOnShutdown(func() {
		handler.EndStreams()
		silent.close()
	})

	// The engines stop after the server, so that requests under way get their answers.
	engineCtx, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	for _, e := range engines {
		group.Go(func() error { return e.Run(engineCtx) })
	}
	group.Go(func() error { supervise(ctx, engines, handler, cfg.Log); return nil })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		defer stopEngines()
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(late); err != nil {
			return errors.Join(fmt.Errorf("requests were still open after %v: %w", shutdownTimeout, err), server.Close())
		}
		return nil
	})
	cfg.Log.Info("listening", "address", listener.Addr().String(), "vm_sets", cfg.VMSets, "driver", cfg.Driver, "version", cfg.Version)
	if cfg.Listening != nil {
		cfg.Listening(listener.Addr())
	}
	err = group.Wait()
	cfg.Log.Info("stopped")
	return err
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
func newEngines(cfg Config) (engines []*engine.Engine, closeSwitches func(), err error) {
	var closers []func()
	closeSwitches = func() {
		for _, c := range closers {
			c()
		}
	}
	if len(cfg.VMSets) == 0 {
		return nil, closeSwitches, errors.New("no vm_set: name the testbed to serve, such as --vm-set vms17-8")
	}
	seen := map[string]bool{}
	for _, vmSet := range cfg.VMSets {
		if seen[vmSet] {
			return nil, closeSwitches, fmt.Errorf("vm_set %q is named twice", vmSet)
		}
		seen[vmSet] = true
		names, err := cable.NewNames(vmSet)
		if err != nil {
			return nil, closeSwitches, err
		}
		sw, closeSwitch, err := cfg.NewSwitch(names)
		if err != nil {
			return nil, closeSwitches, err
		}
		closers = append(closers, closeSwitch)
		engines = append(engines, engine.New(engine.Config{
			Names: names, Switch: sw, Log: cfg.Log.With("vm_set", vmSet), KeepDrops: cfg.KeepDrops, Timeout: cfg.ChangeTimeout,
		}))
	}
	return engines, closeSwitches, nil
}

// listen says what to do about an address that can't be had.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: another program has the port (ss -ltnp tells which); stop it or choose another --listen", err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%w: ports below 1024 need root; choose another --listen", err)
	case err != nil:
		return nil, fmt.Errorf("%w: want --listen host:port, such as 127.0.0.1:8080", err)
	}
	return listener, nil
}
