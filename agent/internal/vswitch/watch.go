package vswitch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// Watch reports what it sees of the bridges of the vm_set until ctx ends, also what is as it was. It is told when to look by
// the database and the Conn, or looks at all bridges again and again. While Open vSwitch can't be read it reports every mux
// with the error.
func (s *Switch) Watch(ctx context.Context, seen func(cable.Sight)) error {
	if conn, ok := s.cfg.Conn.(Follower); ok && !s.cfg.Poll {
		s.follow(ctx, conn, seen)
		return nil
	}
	var following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	following.Go(func() { s.db.follow(ctx, s.found.changed) })
	tick := time.NewTicker(s.cfg.PollInterval)
	defer tick.Stop()
	for {
		s.lookAtAll(ctx, seen)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lookAtAll reports all bridges, and returns the names of those that are muxes. calm is false when some could not be read.
func (s *Switch) lookAtAll(ctx context.Context, seen func(cable.Sight)) (muxes []string, calm bool) {
	asked, known := time.Now(), s.known()
	bridges, err := s.found.read(func() ([]bridge, error) { return s.db.bridges(ctx, "", s.named) })
	views := s.view(ctx, bridges, "")
	if ctx.Err() != nil {
		return nil, true
	}
	if err != nil {
		views = s.unreadable(known, err)
		known = nil
	}
	// What is gone is told first: its port index may be another bridge's now.
	for _, bridge := range known {
		if !slices.ContainsFunc(views, func(v view) bool { return v.Bridge == bridge }) {
			s.forget(bridge)
			seen(s.gone(bridge))
		}
	}
	calm = err == nil
	for i, sight := range s.remember(views) {
		sight.Asked, sight.Unprepared = asked, views[i].mayPrepare()
		if sight.Rejected == "" {
			muxes = append(muxes, sight.Bridge)
		}
		calm = calm && sight.Err == nil
		seen(sight)
	}
	return muxes, calm
}

// lookAt reports one bridge. calm is false when it could not be read.
func (s *Switch) lookAt(ctx context.Context, bridge string, seen func(cable.Sight)) (calm bool) {
	asked := time.Now()
	views, err := s.look(ctx, bridge)
	if err != nil {
		return false
	}
	if len(views) == 0 {
		s.forget(bridge)
		seen(s.gone(bridge))
		return true
	}
	sight := s.remember(views)[0]
	sight.Asked, sight.Unprepared = asked, views[0].mayPrepare()
	seen(sight)
	return sight.Err == nil
}

// unreadable returns what is to be seen of the muxes while the database can't be read. A rejected bridge stays so.
func (s *Switch) unreadable(bridges []string, err error) []view {
	var views []view
	for _, bridge := range bridges {
		last, ok := s.seenLast(bridge)
		if !ok || last.Rejected != "" {
			continue
		}
		sight := last.Sight
		sight.Flows, sight.Flushed, sight.Err = nil, false, err
		views = append(views, view{Sight: sight, unprepared: !last.prepared})
	}
	return views
}
