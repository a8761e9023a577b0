package agent

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const (
	// readyWait is how long systemd waits for the first full read of the switch. Then the agent is up all the same, so that
	// `systemctl restart` does not hang while Open vSwitch is down.
	readyWait = 3 * time.Second
	// livePoll is the longest pause between two looks at the engines after the agent was reported ready.
	livePoll = time.Second
)

// A supervisor reports to systemd by sd_notify(3): ready, what the agent waits for, alive, stopping.
type supervisor struct {
	engines  []*engine.Engine
	switches []engine.Switch // of the engines
	handler  http.Handler
	log      *slog.Logger
	watchdog time.Duration // WatchdogSec of the unit; 0 means none
}

// supervise reports to systemd until ctx ends. Where systemd did not start the agent, it has nothing to do.
func supervise(ctx context.Context, engines []*engine.Engine, switches []engine.Switch, handler http.Handler, log *slog.Logger) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("no watchdog", "err", err)
	}
	s := supervisor{engines: engines, switches: switches, handler: handler, log: log, watchdog: watchdog}
	s.run(ctx)
}

func (s supervisor) run(ctx context.Context) {
	s.awaitReady(ctx)
	s.notify(daemon.SdNotifyReady)
	pause := livePoll
	if s.watchdog > 0 {
		pause = min(pause, s.watchdog/4)
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	told := ""
	for ctx.Err() == nil {
		if status := s.status(); status != told {
			told = status
			s.notify("STATUS=" + status)
		}
		s.beat(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	s.notify(daemon.SdNotifyStopping)
}

// awaitReady waits until all switches were read, or long enough. Meanwhile the watchdog hears that the agent lives.
func (s supervisor) awaitReady(ctx context.Context) {
	patience := time.After(readyWait)
	var beat <-chan time.Time // never, without a watchdog
	if s.watchdog > 0 {
		tick := time.NewTicker(s.watchdog / 4)
		defer tick.Stop()
		beat = tick.C
	}
	for _, e := range s.engines {
		for ready := false; !ready; {
			select {
			case <-e.Ready():
				ready = true
			case <-beat:
				s.beat(ctx)
			case <-patience:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// beat tells the watchdog that the API answers and that the switches are read.
func (s supervisor) beat(ctx context.Context) {
	if s.watchdog == 0 {
		return
	}
	s.answer(ctx)
	if alive(s.engines, s.switches) == nil {
		s.notify(daemon.SdNotifyWatchdog)
	}
}

// status is a line for `systemctl status`.
func (s supervisor) status() string {
	for _, e := range s.engines {
		if why := e.NotReady(); why != nil {
			return e.VMSet() + " waits: " + why.Reason
		}
	}
	if err := alive(s.engines, s.switches); err != nil {
		return err.Error()
	}
	return "serving"
}

// answer has the API answer a request, in this process: when its locks hang, so does this, and systemd hears no more. It
// doesn't touch the switch, whose outage is not a reason to restart the agent; nor the network, where many
// clients could keep a sound agent from answering in time.
func (s supervisor) answer(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, api.PathHealthz, http.NoBody)
	if err != nil {
		s.log.Error("watchdog", "err", err)
		return
	}
	s.handler.ServeHTTP(discard{header: http.Header{}}, r)
}

func (s supervisor) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd can't be told", "state", state, "err", err)
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
