package vswitch

import (
	"context"
	"slices"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// Watch looks at all bridges again and again, and reports those that changed. While Open vSwitch can't be read it reports
// every mux with the error, once.
func (s *Switch) Watch(ctx context.Context, seen func(cable.Sight)) error {
	tick := time.NewTicker(s.cfg.PollInterval)
	defer tick.Stop()
	for {
		s.poll(ctx, seen)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Switch) poll(ctx context.Context, seen func(cable.Sight)) {
	known := s.known()
	views, err := s.look(ctx, "")
	if ctx.Err() != nil {
		return
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
	for _, v := range views {
		if last, ok := s.seenLast(v.Bridge); ok && same(last.Sight, v.Sight) {
			continue
		}
		s.remember([]view{v})
		seen(v.Sight)
	}
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
