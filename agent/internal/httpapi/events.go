package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const (
	// heartbeat is the pause after which a silent stream says that it lives.
	heartbeat = 15 * time.Second
	// slowReader is how long one write of a stream may take before its reader is cut off. It comes back by its last id.
	slowReader = 5 * time.Second
	// maxWait is the longest wait for a side.
	maxWait = 60 * time.Second
)

// getEvents streams events as server-sent events (WHATWG HTML, section 9.2). A reader that names the last event it has
// seen gets those that came after; a reader that has missed some is told so by an event of its own.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	leave, err := s.limits.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	feed := s.feeds[e]
	news, unsubscribe := feed.subscribe()
	defer unsubscribe()
	last := feed.latest()
	missed := false
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		seq, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return errQuery(r, "Last-Event-ID must be the id of an event")
		}
		if _, _, complete := e.Journal.Some(seq, 0); complete {
			last = seq
		} else {
			missed = true
		}
	}
	responseOf(w).waited = true
	stream := http.NewResponseController(w)
	send := func(text []byte) error {
		if err := stream.SetWriteDeadline(time.Now().Add(slowReader)); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return stream.Flush()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	hello := fmt.Appendf(nil, "retry: 1000\nid: %d\n\n", last)
	if missed {
		hello = appendMissed(hello, last)
	}
	if send(hello) != nil {
		return nil // the reader is gone
	}
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for {
		if last, err = s.sendAfter(feed, last, send); err != nil {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.ending.Done():
			return nil
		case <-news:
		case <-alive.C:
			if !stillKnown(r) || send([]byte(": alive\n\n")) != nil {
				return nil
			}
		}
	}
}

// sendAfter sends what there is after an event, piece by piece, and returns the number of the last one.
func (s *Server) sendAfter(f *feed, last uint64, send func([]byte) error) (uint64, error) {
	piece, ok := s.pieces.Get().(*[]byte)
	if !ok {
		b := make([]byte, 0, pieceSize)
		piece = &b
	}
	defer s.pieces.Put(piece)
	for s.ending.Err() == nil {
		text, now := f.read((*piece)[:0], last)
		if now == last {
			break
		}
		if err := send(text); err != nil {
			return last, err
		}
		last = now
	}
	return last, nil
}

// getHistory answers with the last events of the vm_set.
func (s *Server) getHistory(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	write(w, http.StatusOK, encode(history(e, e.Journal.Last(historyLength))))
	return nil
}

// historyLength is how many events of a whole vm_set one answer lists.
const historyLength = 1000

// getPortHistory answers with the last events of one port. A port whose bridge was deleted still has a history.
func (s *Server) getPortHistory(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	port := mux.Vars(r)["port"]
	events := e.Journal.History(portIndex(port))
	if events == nil {
		return errUnknownPort(e, port)
	}
	write(w, http.StatusOK, encode(history(e, events)))
	return nil
}

func history(e *engine.Engine, events []engine.Event) api.History {
	h := api.History{Events: make([]api.Event, len(events))}
	for i, ev := range events {
		h.Events[i] = event(e, ev)
	}
	return h
}

// event writes an event as the API does.
func event(e *engine.Engine, ev engine.Event) api.Event {
	return api.Event{
		Bridge: ev.Bridge, By: ev.By, Cause: ev.Cause, Client: ev.Client, From: muxState(ev.From), PortIndex: ev.Index, ReqID: ev.ReqID,
		Seq: ev.Seq, Time: ev.Time.UTC().Truncate(time.Microsecond), To: muxState(ev.To), TookUS: ev.Took.Microseconds(), VMSet: e.VMSet(),
	}
}

func muxState(m *engine.Moment) *api.MuxState {
	if m == nil {
		return nil
	}
	reason, code := worst(m.Conditions)
	return &api.MuxState{
		ActiveSide: m.State.Active.String(), Dropped: dropped(m.State), Healthy: m.Healthy(), Reason: reason, ReasonCode: code,
	}
}

// waitForSide answers when the mux has the side, or when the time is over, with 412 and the status.
func (s *Server) waitForSide(w http.ResponseWriter, r *http.Request, e *engine.Engine, snap *engine.Snapshot) error {
	query := r.URL.Query()
	side, err := cable.ParseSide(query.Get("active_side"))
	if err != nil {
		return errQuery(r, "wait needs active_side=upper_tor or active_side=lower_tor")
	}
	wait, err := time.ParseDuration(query.Get("wait"))
	if err != nil || wait < 0 || wait > maxWait {
		return errQuery(r, "wait must be a duration from 0s to 60s, such as wait=10s")
	}
	responseOf(w).waited = true
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + slowReader)); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		news := e.Journal.ChangedOf(snap.Bridge)
		now := e.Snapshot(snap.Index)
		if now == nil {
			return errUnknownPort(e, strconv.Itoa(snap.Index))
		}
		if now.State.Active == side {
			write(w, http.StatusOK, s.bodies.one(now))
			return nil
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return nil
		case <-s.ending.Done():
			return errLater(engine.ErrStopping)
		case <-over.C:
			w.Header().Set(api.ErrorCodeHeader, api.CodeNotReached)
			write(w, http.StatusPreconditionFailed, s.bodies.one(now))
			return nil
		}
	}
}
