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
	views, err := s.look(ctx, s.named)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		views = s.unreadable(known, err)
	}
	for _, v := range views {
		last, ok := s.seenLast(v.Bridge)
		if ok && same(last, v.Sight) {
			continue
		}
		s.remember([]view{v})
		seen(v.Sight)
	}
	if err != nil {
		return
	}
	for _, bridge := range known {
		if slices.ContainsFunc(views, func(v view) bool { return v.Bridge == bridge }) {
			continue
		}
		s.forget(bridge)
		seen(s.gone(bridge))
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
		last.Flows, last.Flushed, last.Err = nil, false, err
		views = append(views, view{Sight: last})
	}
	return views
}
