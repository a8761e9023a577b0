// Package vswitch is the real switch: the bridges of one vm_set on an Open vSwitch.
//
// It finds bridges and their ports in Open vSwitch's database (OVSDB, RFC 7047), prepares those that are muxes, and sees
// what changes. Flows are read and written through a Conn, of which there are two: openflow and ofctl. The package must
// not know what state a cable should be in.
package vswitch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A Conn reads and writes the flows of bridges. Its errors are *cable.SwitchError. Methods may be called at the same time.
type Conn interface {
	// Flows returns all flows of a bridge, in all its tables.
	Flows(ctx context.Context, bridge string) ([]cable.Entry, error)
	// Apply starts all updates at once, each an atomic step, and returns without waiting for the switch. It calls done once
	// for each, from any goroutine.
	Apply(updates []cable.Update, done func(i int, err error))
}

// A Follower is a Conn that can tell when a bridge may have changed.
type Follower interface {
	// Follow calls changed, which must not block, when the bridge can be reached, when it no longer can, and when its flows
	// or ports were changed by anybody but this Conn. It returns nil when ctx ends, and at once an error when it cannot tell
	// of flows. Each bridge is followed once at a time.
	Follow(ctx context.Context, bridge string, changed func()) error
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
	// Poll makes Watch look again and again, also where Conn is a Follower.
	Poll bool
	// PollInterval is the pause between two looks of Watch when it polls, or while something is wrong; 0 means 1 second.
	PollInterval time.Duration
	Log          *slog.Logger
}

// A Switch is the muxes of one vm_set on an Open vSwitch. All methods may be called at the same time.
type Switch struct {
	cfg   Config
	db    database
	found cache // for Watch

	mu   sync.Mutex
	last map[string]memory // what was seen of each bridge, by its name; bridges that are gone are not in it
}

// New returns a switch. It opens nothing yet.
func New(cfg Config) *Switch {
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*time.Second)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, time.Second)
	return &Switch{cfg: cfg, db: database{runDir: cfg.RunDir, timeout: cfg.Timeout}, last: map[string]memory{}}
}

// Discover returns a Sight of every bridge whose name fits the vm_set, by port index.
func (s *Switch) Discover(ctx context.Context) ([]cable.Sight, error) {
	views, err := s.look(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := allUnreadable(views); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, views); err != nil {
		// It may have been done, and what was read be the last word on the sides; so it is told, as flushed.
		s.cfg.Log.Error("bridges stay as they are", "err", err)
	}
	return s.remember(views), nil
}

// Read returns a Sight of one bridge. It prepares a mux that was prepared before. A new one it prepares once it stood still
// for a second: before that, somebody may still be building it.
func (s *Switch) Read(ctx context.Context, bridge string) (cable.Sight, error) {
	views, err := s.look(ctx, bridge)
	if err != nil {
		return cable.Sight{}, err
	}
	if len(views) == 0 {
		s.forget(bridge)
		return s.gone(bridge), nil
	}
	last, ok := s.seenLast(bridge)
	if ok && (last.prepared || same(last.Sight, views[0].Sight) && time.Since(last.since) >= quiet) {
		views[0].Err = cmp.Or(views[0].Err, s.prepare(ctx, views)) // what was flushed has to be told in any case
	}
	return s.remember(views)[0], nil
}

// quiet is how long a new bridge must stand still before it is prepared.
const quiet = time.Second

// Apply starts all updates at once.
func (s *Switch) Apply(updates []cable.Update, done func(i int, err error)) {
	s.cfg.Conn.Apply(updates, done)
}

// A view is a Sight and whether its bridge still needs to be prepared.
type view struct {
	cable.Sight
	unprepared bool
}

// mayPrepare reports whether the bridge needs to be prepared, and can be.
func (v *view) mayPrepare() bool { return v.unprepared && v.Rejected == "" && v.Err == nil }

// A memory is what was seen last of a bridge.
type memory struct {
	cable.Sight
	since    time.Time // when it was first seen so
	prepared bool      // once; somebody may have undone it
}

// named reports whether a bridge is one of the vm_set.
func (s *Switch) named(bridge string) bool {
	_, ok := s.cfg.Names.Index(bridge)
	return ok
}

// look reads the bridges of the vm_set, or only the one that is named, from the database, and then their flows.
func (s *Switch) look(ctx context.Context, only string) ([]view, error) {
	bridges, err := s.db.bridges(ctx, only, s.named)
	if err != nil {
		return nil, err
	}
	return s.view(ctx, bridges, only), nil
}

// view reads the flows of bridges, all at the same time. Those beside the one that is named are as they were.
func (s *Switch) view(ctx context.Context, bridges []bridge, only string) []view {
	views := make([]view, len(bridges))
	for i, b := range bridges {
		views[i] = view{Sight: s.sight(b), unprepared: !b.secure && !s.cfg.KeepFailMode}
	}
	var others []cable.Sight
	if only != "" {
		others = s.seenBeside(only)
	}
	s.rejectDoubles(views, others)
	var reading sync.WaitGroup
	for i := range views {
		v := &views[i]
		if v.Rejected != "" {
			continue
		}
		reading.Go(func() { s.readFlows(ctx, v) })
	}
	reading.Wait()
	slices.SortStableFunc(views, func(a, b view) int { return cmp.Compare(a.Index, b.Index) })
	return views
}

// readFlows reads the flows of one bridge, of one life of it.
func (s *Switch) readFlows(ctx context.Context, v *view) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for {
		v.Life = s.life(v.Bridge)
		v.Flows, v.Err = s.cfg.Conn.Flows(ctx, v.Bridge)
		if v.Err != nil || s.life(v.Bridge) == v.Life {
			break
		}
	}
	slices.SortFunc(v.Flows, compareFlows)
	if failed, ok := errors.AsType[*cable.SwitchError](v.Err); ok && !failed.Retryable {
		v.Rejected, v.Err = failed.Err.Error(), nil // it will not work until somebody mends it
	}
}

// life tells one life of a bridge from another by when ovs-vswitchd made its socket, which it does when it starts, and when
// the bridge is made. It is 0 when there is none.
func (s *Switch) life(bridge string) int64 {
	info, err := os.Stat(filepath.Join(s.cfg.RunDir, bridge+".mgmt"))
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// rejectDoubles leaves one mux to each port index: that which is named as the testbed names it, else the first by name.
// others are bridges beside views.
func (s *Switch) rejectDoubles(views []view, others []cable.Sight) {
	owner := map[int]string{}
	claim := func(sight cable.Sight) {
		if sight.Rejected == "" && (owner[sight.Index] == "" || s.comparePreference(sight.Bridge, owner[sight.Index]) < 0) {
			owner[sight.Index] = sight.Bridge
		}
	}
	for _, sight := range others {
		claim(sight)
	}
	for _, v := range views {
		claim(v.Sight)
	}
	for i := range views {
		v := &views[i]
		if v.Rejected == "" && owner[v.Index] != v.Bridge {
			v.Rejected = fmt.Sprintf("bridge %s has the same port index %d", owner[v.Index], v.Index)
		}
	}
}

// comparePreference orders bridges of the same port index.
func (s *Switch) comparePreference(a, b string) int {
	foreign := func(bridge string) int {
		if index, _ := s.cfg.Names.Index(bridge); bridge == s.cfg.Names.Bridge(index) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a, b))
}

// sight tells what the database says of a bridge.
func (s *Switch) sight(b bridge) cable.Sight {
	index, _ := s.cfg.Names.Index(b.name)
	sight := cable.Sight{Bridge: b.name, Index: index}
	ports, err := cable.Identify(b.ports, nil)
	if err != nil {
		sight.Rejected = err.Error()
		return sight
	}
	if len(b.protocols) > 0 && !slices.Contains(b.protocols, "OpenFlow14") {
		sight.Rejected = fmt.Sprintf("its protocols (%s) lack OpenFlow14: ovs-vsctl clear bridge %s protocols",
			strings.Join(b.protocols, ","), b.name)
		return sight
	}
	sight.Mux = cable.Mux{VMSet: s.cfg.Names.VMSet(), Index: index, Bridge: b.name, Ports: ports}
	return sight
}

// allUnreadable returns an error when there are muxes and not one could be read.
func allUnreadable(views []view) error {
	var first error
	for _, v := range views {
		if v.Rejected != "" {
			continue
		}
		if v.Err == nil {
			return nil
		}
		first = cmp.Or(first, v.Err)
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("no bridge of the vm_set can be read; is ovs-vswitchd running? %w", first)
}

// prepare makes fail_mode secure on those bridges that need it. Open vSwitch removes all flows at that, so it is done only
// where they were read, and marked.
func (s *Switch) prepare(ctx context.Context, views []view) error {
	var names []string
	for i := range views {
		v := &views[i]
		if v.mayPrepare() {
			names = append(names, v.Bridge)
			v.Flushed = true
		}
	}
	if names == nil {
		return nil
	}
	if err := s.db.secure(context.WithoutCancel(ctx), names); err != nil { // which flushes: no time to give up
		return fmt.Errorf("set fail_mode=secure: %w", err)
	}
	s.cfg.Log.Info("fail_mode is secure now", "bridges", len(names), "first", names[0])
	return nil
}

// remember keeps what was seen, and returns it.
func (s *Switch) remember(views []view) []cable.Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	sights := make([]cable.Sight, len(views))
	for i, v := range views {
		sights[i] = v.Sight
		now := memory{Sight: v.Sight, since: time.Now(), prepared: !v.unprepared || v.Flushed}
		last, ok := s.last[v.Bridge]
		if ok && same(last.Sight, now.Sight) {
			now.since = last.since
		}
		now.prepared = now.prepared || last.prepared
		s.last[v.Bridge] = now
	}
	return sights
}

func (s *Switch) seenLast(bridge string) (memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.last[bridge]
	return last, ok
}

// seenBeside returns what was seen last of all other bridges.
func (s *Switch) seenBeside(bridge string) []cable.Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []cable.Sight
	for name, last := range s.last {
		if name != bridge {
			others = append(others, last.Sight)
		}
	}
	return others
}

func (s *Switch) forget(bridge string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, bridge)
}

func (s *Switch) gone(bridge string) cable.Sight {
	index, _ := s.cfg.Names.Index(bridge)
	return cable.Sight{Bridge: bridge, Index: index, Gone: true}
}

// known returns the names of all bridges that were there when they were looked at last.
func (s *Switch) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.last))
}

// same reports whether two sights of a bridge show the same.
func same(a, b cable.Sight) bool {
	return a.Gone == b.Gone && a.Rejected == b.Rejected && a.Mux == b.Mux && slices.EqualFunc(a.Flows, b.Flows, func(f, g cable.Entry) bool { return f.Flow == g.Flow }) && text(a.Err) == text(b.Err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// compareFlows gives flows an order of their own, since Open vSwitch's is that of a hash table.
func compareFlows(a, b cable.Entry) int {
	return cmp.Or(
		cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.InPort, b.InPort),
		cmp.Compare(a.Match, b.Match),
	)
}
