package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// runUnderSystemd listens where systemd would, and runs an agent until the test ends. next returns what the agent says next.
func runUnderSystemd(t *testing.T, newSwitch func(*cable.Names) (engine.Switch, func(), error)) (next func() string, stop context.CancelFunc) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "200000")

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{
			Listen: "127.0.0.1:0", VMSets: []string{"vms6-1"}, Log: slog.New(slog.DiscardHandler), NewSwitch: newSwitch,
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(wait.Limit)); err != nil {
			t.Fatal(err)
		}
		message := make([]byte, 4096)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}, stop
}

func TestSystemdHearsReadyAliveAndStopping(t *testing.T) {
	next, stop := runUnderSystemd(t, func(names *cable.Names) (engine.Switch, func(), error) {
		return simswitch.New(names, 2), func() {}, nil
	})
	var got []string
	for message := ""; message != "STATUS=serving"; {
		if message = next(); message != "WATCHDOG=1" {
			got = append(got, message)
		}
	}
	if want := "READY=1 STATUS=serving"; strings.Join(got, " ") != want {
		t.Errorf("systemd heard %q, want %q", got, want)
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("systemd heard %q, want WATCHDOG=1", got)
		}
	}
	stop()
	for message := ""; message != "STOPPING=1"; {
		message = next()
	}
}

// unreadable is a switch whose Open vSwitch does not run.
type unreadable struct{ engine.Switch }

func (unreadable) Discover(context.Context) ([]cable.Sight, error) {
	return nil, errors.New("no such socket")
}

// An outage of Open vSwitch must neither hang a start nor have the watchdog restart the agent.
func TestSystemdHearsReadyAndAliveWithoutASwitch(t *testing.T) {
	next, _ := runUnderSystemd(t, func(*cable.Names) (engine.Switch, func(), error) { return unreadable{}, func() {}, nil })
	var got []string
	for message := ""; !strings.HasPrefix(message, "STATUS="); {
		if message = next(); message != "WATCHDOG=1" {
			got = append(got, message)
		}
	}
	if want := "READY=1 STATUS=vms6-1 waits: read the switch: no such socket"; strings.Join(got, " ") != want {
		t.Errorf("systemd heard %q, want %q", got, want)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("systemd heard %q, want WATCHDOG=1", got)
	}
}

// stuck is a switch whose loop has not come round for too long.
type stuck struct{ engine.Switch }

func (stuck) Alive() time.Time { return time.Now().Add(-2 * longestRound) }

// An agent that doesn't look at the switch any more, for a fault of its own, is restarted by systemd's watchdog.
func TestSystemdHearsNothingOfAnAgentThatIsBlind(t *testing.T) {
	next, stop := runUnderSystemd(t, func(names *cable.Names) (engine.Switch, func(), error) {
		return stuck{simswitch.New(names, 2)}, func() {}, nil
	})
	var got []string
	for message := ""; !strings.HasPrefix(message, "STATUS=vms6-1: the switch was not looked at for 20s"); {
		message = next()
		got = append(got, message)
	}
	time.AfterFunc(time.Second, stop) // five times what the watchdog waits
	for message := ""; message != "STOPPING=1"; {
		message = next()
		got = append(got, message)
	}
	if slices.Contains(got, "WATCHDOG=1") {
		t.Errorf("systemd heard %q", got)
	}
}
