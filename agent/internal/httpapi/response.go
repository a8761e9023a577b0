package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
)

// Observed is what an observer is told of a request that is over.
type Observed struct {
	Route, Method string // the route's template, "" where none fits
	Status        int
	Took          time.Duration
	Queue, Switch time.Duration // parts of Took: waiting for earlier changes, and for the switch
	Waited        bool          // it was there to wait, for events or for a side
}

// A response is the answer to one request. It is the writer that all handlers write to, at the bottom of others.
type response struct {
	http.ResponseWriter
	started         time.Time
	route           string
	status          int // 0 until it is written
	queue, inSwitch time.Duration
	waited          bool
	values          [2]string // of headers, so that they need no memory of their own
}

// responseOf finds the response below the writer that a handler was given.
func responseOf(w http.ResponseWriter) *response {
	for {
		if x, ok := w.(*response); ok {
			return x
		}
		w = w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

// Unwrap is for http.ResponseController.
func (x *response) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader adds the headers that every answer has: where the time went, and that it is what it says.
func (x *response) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
		h := x.Header()
		x.values = [2]string{x.timing(), "nosniff"}
		h["Server-Timing"], h["X-Content-Type-Options"] = x.values[:1:1], x.values[1:]
		if kind := h["Content-Type"]; len(kind) > 0 && strings.HasPrefix(kind[0], "text/html") {
			protectPage(h)
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write is http.ResponseWriter's.
func (x *response) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(p)
}

// spent adds up what became of changes. They ran at the same time, so that of the one that took longest counts.
func (x *response) spent(results map[int]engine.Result) {
	var longest engine.Result
	for _, res := range results {
		if res.Queue+res.Switch > longest.Queue+longest.Switch {
			longest = res
		}
	}
	x.queue += longest.Queue
	x.inSwitch += longest.Switch
}

// timing is the value of a Server-Timing header (W3C): where the time went until now, in milliseconds.
func (x *response) timing() string {
	b := make([]byte, 0, 64)
	b = append(b, "http;dur="...)
	b = appendMillis(b, time.Since(x.started)-x.queue-x.inSwitch)
	b = append(b, ", queue;dur="...)
	b = appendMillis(b, x.queue)
	b = append(b, ", switch;dur="...)
	b = appendMillis(b, x.inSwitch)
	return string(b)
}

func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Microseconds())/1000, 'f', -1, 64)
}

// finish tells the observer, and the log of changes at level debug: polls would drown them there.
func (s *Server) finish(x *response, r *http.Request) {
	q := Observed{
		Route: x.route, Method: r.Method, Status: x.status, Took: time.Since(x.started), Queue: x.queue, Switch: x.inSwitch, Waited: x.waited,
	}
	if s.observe != nil {
		s.observe(q)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	s.log.Debug("request done", "client", clientIP(r), "req_id", short(reqID(r), maxReqID), "method", short(r.Method, 32), "url", short(r.URL.String(), maxLogged),
		"status", q.Status, "took", q.Took, "queue", q.Queue, "switch", q.Switch)
}

// protectPage keeps a page of ours from loading or sending anything elsewhere, and from being framed.
func protectPage(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
}
