// Package vswitch is the real switch: the bridges of one vm_set on an Open vSwitch.
//
// It finds bridges and their ports in Open vSwitch's database (ovsdb), prepares those that are muxes, and sees what changes.
// Flows are read and written through a Conn, of which there are two: openflow and ofctl. The package must not know what state
// a cable should be in.
package vswitch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ovsdb"
)

// A Conn reads and writes the flows of bridges. Its errors are *cable.SwitchError. Methods may be called at the same time.
type Conn interface {
	// Flows returns all flows of a bridge, in all its tables.
	Flows(ctx context.Context, bridge string) ([]cable.Entry, error)
	// Ports returns what OpenFlow says of the ports of a bridge; with fresh, as it says now.
	Ports(ctx context.Context, bridge string, fresh bool) ([]openflow.Port, error)
	// Apply starts all updates at once, each an atomic step, and returns without waiting for the switch. It calls done once
	// for each, from any goroutine.
	Apply(updates []cable.Update, done func(i int, err error))
}

// A Follower is a Conn that can tell when a bridge may have changed.
type Follower interface {
	// Follow calls changed, which must not block, when the bridge can be reached, when it no longer can, when one of its ports
	// changes, and with flows, when its flows are changed by anybody but this Conn. told says whether that will be told: where
	// it won't, flows have to be looked for. It returns when ctx ends. Each bridge is followed once at a time.
	Follow(ctx context.Context, bridge string, flows bool, changed func(told bool))
}

// Config is what a Switch needs.
type Config struct {
	// RunDir is Open vSwitch's run directory, with db.sock; usually /var/run/openvswitch.
	RunDir string
	Names  *cable.Names
	Conn   Conn
	// KeepFailMode leaves fail_mode as it is. Without it, it is made secure on every mux, so that Open vSwitch never bridges
	// the ToRs by itself.
	KeepFailMode bool
	// Timeout is how long Open vSwitch may take for one answer; 0 means 3 seconds.
	Timeout time.Duration
	// Poll makes Watch look again and again for flows, also where Conn would tell of them.
	Poll bool
	// PollInterval is the pause between two looks of Watch when it polls, or while something is wrong; 0 means 1 second.
	PollInterval time.Duration
	Log          *slog.Logger
}

// A Switch is the muxes of one vm_set on an Open vSwitch. All methods may be called at the same time.
type Switch struct {
	cfg   Config
	db    *ovsdb.DB
	hints *hints

	mu      sync.Mutex
	last    map[string]memory // what was seen of each bridge, by its name; bridges that are gone are not in it
	byIndex map[int][]string  // their names, by port index
	marked  atomic.Int64      // how many of them bear a remembered side

	watching atomic.Pointer[context.Context] // of Watch, nil when there was none
	round    atomic.Int64                    // when the loop of Watch came round last, in nanoseconds; 0 when it doesn't run
}

// New returns a switch. It opens nothing yet; Close ends what it opens later.
func New(cfg Config) *Switch {
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*time.Second)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, time.Second)
	s := &Switch{cfg: cfg, hints: newHints(), last: map[string]memory{}, byIndex: map[int][]string{}}
	s.db = ovsdb.New(ovsdb.Config{Path: filepath.Join(cfg.RunDir, "db.sock"), Timeout: cfg.Timeout, Changed: s.hints.database})
	return s
}

// Close ends the connection to the database. Watch must have ended.
func (s *Switch) Close() { s.db.Close() }

// Alive is when the loop of Watch came round last. It does so every few seconds whatever Open vSwitch does. It is zero while
// Watch doesn't run.
func (s *Switch) Alive() time.Time {
	if n := s.round.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Discover returns a Sight of every bridge whose name fits the vm_set, by port index.
func (s *Switch) Discover(ctx context.Context) ([]cable.Sight, error) {
	if err := s.db.Sync(ctx); err != nil {
		return nil, err
	}
	view, err := s.db.View(s.named)
	if err != nil {
		return nil, err
	}
	looks := make([]look, len(view.Bridges))
	var reading sync.WaitGroup
	for i, b := range view.Bridges {
		reading.Go(func() { looks[i] = s.read(ctx, b, view.RestoreWait, false) })
	}
	reading.Wait()
	if err := allUnreadable(looks); err != nil {
		return nil, err
	}
	s.store(looks...)
	s.forgetOthers(view)
	s.settle()
	// It may have been done when it failed, and what was read be the last word on the sides; so it is told, as flushed.
	if err := s.prepare(ctx, looks); err != nil {
		return nil, err
	}
	sights := make([]cable.Sight, len(looks))
	for i := range looks {
		sights[i] = s.judge(looks[i].Sight)
	}
	slices.SortStableFunc(sights, func(a, b cable.Sight) int { return cmp.Compare(a.Index, b.Index) })
	return sights, nil
}

// Read returns a Sight of one bridge. It prepares a mux that was prepared before, at most once a minute. A new one it prepares
// once it stood still for a second: before that, somebody may still be building it.
func (s *Switch) Read(ctx context.Context, bridge string) (cable.Sight, error) {
	if err := s.db.Sync(ctx); err != nil {
		return cable.Sight{}, err
	}
	view, err := s.db.Bridge(bridge)
	if err != nil {
		return cable.Sight{}, err
	}
	if len(view.Bridges) == 0 {
		s.forget(bridge)
		return s.gone(bridge), nil
	}
	looks := []look{s.read(ctx, view.Bridges[0], view.RestoreWait, false)}
	s.store(looks...)
	if err := s.prepare(ctx, looks); err != nil {
		return cable.Sight{}, err
	}
	return s.judge(looks[0].Sight), nil
}

// quiet is how long the ports and flows of a new bridge must stand still before it is prepared.
const quiet = time.Second

// Apply starts all updates at once.
func (s *Switch) Apply(updates []cable.Update, done func(i int, err error)) {
	bridges := make([]string, len(updates))
	for i, u := range updates {
		bridges[i] = u.Bridge
	}
	s.cfg.Conn.Apply(updates, func(i int, err error) {
		done(i, err)
		if err == nil && s.marked.Load() > 0 {
			s.written(bridges[i])
		}
	})
}

// named reports whether a bridge is one of the vm_set.
func (s *Switch) named(bridge string) bool {
	_, ok := s.cfg.Names.Index(bridge)
	return ok
}

// allUnreadable returns an error when there are muxes and not one could be read.
func allUnreadable(looks []look) error {
	var first error
	for _, l := range looks {
		if l.Rejected != "" {
			continue
		}
		if l.Err == nil {
			return nil
		}
		first = cmp.Or(first, l.Err)
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("no bridge of the vm_set can be read; is ovs-vswitchd running? %w", first)
}

func (s *Switch) gone(bridge string) cable.Sight {
	index, _ := s.cfg.Names.Index(bridge)
	return cable.Sight{Bridge: bridge, Index: index, Gone: true}
}
