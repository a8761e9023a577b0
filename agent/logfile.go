package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// A LogFile is a rotated file, 10 MB and 15 older ones, as the replaced service kept. It is made anew when somebody
// removes it, which sonic-mgmt's post-test does while the service runs.
type LogFile struct {
	mu      sync.Mutex
	path    string
	file    *lumberjack.Logger
	instead io.Writer
}

// OpenLogFile opens the file or says why it can't be written, which is no reason to stop. What can't be written later, as
// on a full disk, is written to instead.
func OpenLogFile(path string, instead io.Writer) (*LogFile, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file: %w: remove it, or choose another with --log-file", err)
	}
	return &LogFile{path: path, file: &lumberjack.Logger{Filename: path, MaxSize: 10, MaxBackups: 15}, instead: instead}, f.Close()
}

// Write appends to the file, after making it anew where it was removed.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := os.Stat(l.path); errors.Is(err, fs.ErrNotExist) {
		_ = l.file.Close() // it opens the path again at the next write
	}
	n, err := l.file.Write(p)
	if err != nil {
		_, _ = fmt.Fprintf(l.instead, "mux-agent: log file: %v; the line was: %s", err, p)
	}
	return n, err
}

// Close closes the file.
func (l *LogFile) Close() error { return l.file.Close() }
