package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

const (
	// maxBodies is what the bodies of all requests under way may take together, in bytes. A quarter is kept for small ones, so
	// that those who send large ones slowly keep nobody from switching a port.
	maxBodies = 32 << 20
	// smallBody is the largest that is small: every call of the replaced service fits.
	smallBody = 1 << 10
	// bodyCost is how often a body stands in memory at worst: as it came, compacted, decoded, and in the words of an error.
	bodyCost = 8
	// maxAnswers is what answers of more than one mux may take together, in bytes.
	maxAnswers = 24 << 20
	// maxStreams is how many event streams there may be.
	maxStreams = 1024
	// roomPatience is how long a request waits for room before it is answered with 503.
	roomPatience = 2 * time.Second
	// takeLarge is how long the client may take to take a large answer.
	takeLarge = 20 * time.Second
)

// limits are what all requests together may hold.
type limits struct {
	small, large, answers *semaphore.Weighted

	mu      sync.Mutex
	streams int
}

func newLimits() *limits {
	return &limits{
		small: semaphore.NewWeighted(maxBodies / 4), large: semaphore.NewWeighted(maxBodies - maxBodies/4),
		answers: semaphore.NewWeighted(maxAnswers),
	}
}

// enter waits for room for a request's body and for its answer, and returns what gives it back.
func (l *limits) enter(w http.ResponseWriter, r *http.Request, answer int64) (release func(), err error) {
	if r.ContentLength == 0 && answer == 0 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), roomPatience)
	defer cancel()
	pool, body := l.small, r.ContentLength*bodyCost
	if r.ContentLength < 0 || r.ContentLength > smallBody { // negative where it is not told
		pool, body = l.large, bodyCost*maxBody
		if r.ContentLength > 0 {
			body = bodyCost * min(r.ContentLength, maxBody)
		}
	}
	answer = min(answer, maxAnswers)
	if pool.Acquire(ctx, body) != nil {
		return nil, errNoRoom("bodies of requests")
	}
	if l.answers.Acquire(ctx, answer) != nil {
		pool.Release(body)
		return nil, errNoRoom("large answers")
	}
	if answer > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takeLarge)) // a test's recorder has none
	}
	return func() {
		pool.Release(body)
		l.answers.Release(answer)
	}, nil
}

// enterStream returns what gives the place of a stream back.
func (l *limits) enterStream() (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams == maxStreams {
		return nil, errNoRoom("event streams")
	}
	l.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams--
	}, nil
}

func errNoRoom(what string) error {
	return &httpError{code: api.CodeNotReady, text: fmt.Sprintf("too many %s are on their way; try again", what)}
}

// What one mux, and one event, of an answer take at worst, in bytes: decoded, encoded, and while a buffer grows.
const (
	statusCost = 2 << 10
	eventCost  = 2 << 10
)

// weight is about what the answer of a route takes, 0 where it is that of one mux.
func (s *Server) weight(path string) int64 {
	switch path {
	case "/mux/{vm_set}/history":
		return historyLength * eventCost
	case "/mux/{vm_set}/{port:[0-9]+}/history":
		return 100 * eventCost
	case "/mux/{vm_set}", "/mux/{vm_set}/{action:output|drop}", "/mux/{vm_set}/reset", "/mux/{vm_set}/reload":
		muxes := 0
		for _, e := range s.engines {
			muxes = max(muxes, len(e.Snapshots()))
		}
		return int64(muxes) * statusCost
	}
	return 0
}

// A limiter lets so many lines into the log in each period, and counts the others.
type limiter struct {
	mu     sync.Mutex
	since  time.Time
	lines  int
	untold int
}

const (
	linePeriod = 10 * time.Second
	lineLimit  = 50
)

// allow reports whether a line may be written, and how many were not since the last one that was.
func (l *limiter) allow(now time.Time) (untold int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= linePeriod {
		l.since, l.lines = now, 0
	}
	if l.lines == lineLimit {
		l.untold++
		return 0, false
	}
	l.lines++
	untold, l.untold = l.untold, 0
	return untold, true
}

// maxLogged is how much of one text of a refused request the log tells, in bytes.
const maxLogged = 256

// short cuts a text of a client's, and says how long it was.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
}
