package engine

import (
	"context"
	"log/slog"
	"time"
)

// logGather is how long the log waits for more events, so that a toggle of all ports is over before it takes the processor.
const logGather = 20 * time.Millisecond

// logPatience is how long the end of the engine waits for a log that does not take the last events.
const logPatience = time.Second

// startLog starts to log events, and returns what ends that.
func (e *Engine) startLog() (end func()) {
	_, first, _ := e.Journal.After(0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.logEvents(ctx, first)
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(logPatience):
		}
	}
}

// logEvents writes the journal into the log until ctx ends, and then what is left. It is a reader like those of the event
// stream: what it can't write in time it counts, and nobody waits for it.
func (e *Engine) logEvents(ctx context.Context, after uint64) {
	for {
		changed := e.Journal.Changed(after)
		after = e.logAfter(after)
		select {
		case <-changed:
			select {
			case <-time.After(logGather):
			case <-ctx.Done():
			}
		case <-ctx.Done():
			e.logAfter(after)
			return
		}
	}
}

// logAfter logs the events after a number and returns that of the last one.
func (e *Engine) logAfter(seq uint64) uint64 {
	events, last, complete := e.Journal.After(seq)
	if !complete && len(events) > 0 {
		e.cfg.Log.Warn("the log was too slow for events", "missed", events[0].Seq-seq-1)
	}
	for i := range events {
		e.logEvent(&events[i])
	}
	return last
}

func (e *Engine) logEvent(ev *Event) {
	level := slog.LevelInfo
	if ev.To == nil || !ev.To.Healthy() && len(ev.To.Conditions) > 0 {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !e.cfg.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.Uint64("seq", ev.Seq), slog.Time("at", ev.Time), slog.String("bridge", ev.Bridge), slog.String("from", ev.From.String()),
		slog.String("to", ev.To.String()), slog.String("cause", string(ev.Cause)), slog.String("client", ev.Client), slog.String("by", ev.By),
		slog.String("req_id", ev.ReqID), slog.Duration("took", ev.Took),
	}
	e.cfg.Log.LogAttrs(ctx, level, "mux changed", attrs...)
}
