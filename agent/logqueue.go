package agent

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// queuedLines is how many lines of the log may wait to be written: some seconds of a busy agent's.
	queuedLines = 4096
	// maxQueued is how much they may take together, in bytes.
	maxQueued = 8 << 20
	// closePatience is how long the end waits for lines that nobody takes.
	closePatience = time.Second
)

// A LogQueue writes lines in a goroutine of its own, so that a full disk or a reader that does not read keeps nobody waiting.
// Lines for which there is no room are lost and counted, and the count is written as soon as there is room again.
type LogQueue struct {
	out   io.Writer
	lines chan []byte
	done  chan struct{}

	mu     sync.Mutex
	size   int // of lines, in bytes
	lost   int
	closed bool
}

// NewLogQueue returns a queue that writes to out until Close.
func NewLogQueue(out io.Writer) *LogQueue {
	q := &LogQueue{out: out, lines: make(chan []byte, queuedLines), done: make(chan struct{})}
	go q.run()
	return q
}

// Write queues a line. It never fails, and never waits.
func (q *LogQueue) Write(p []byte) (int, error) {
	line := append([]byte(nil), p...)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return len(p), nil
	}
	if q.lost > 0 && q.size+len(line) <= maxQueued {
		told := fmt.Appendf(nil, "mux-agent: %d lines of the log were lost, since nobody took them\n", q.lost)
		select {
		case q.lines <- told:
			q.lost = 0
			q.size += len(told)
		default:
		}
	}
	if q.size+len(line) > maxQueued {
		q.lost++
		return len(p), nil
	}
	select {
	case q.lines <- line:
		q.size += len(line)
	default:
		q.lost++
	}
	return len(p), nil
}

func (q *LogQueue) run() {
	defer close(q.done)
	for line := range q.lines {
		q.mu.Lock()
		q.size -= len(line)
		q.mu.Unlock()
		_, _ = q.out.Write(line) // where a log that can't be written is told of is out's to say
	}
}

// Close writes what is queued, as far as it is taken within a second.
func (q *LogQueue) Close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.lines)
	}
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-time.After(closePatience):
	}
}
