package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

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

// OpenLogFile opens the file or says why it can't be written, which does not stop the agent. What can't be written later, as
// on a full disk, is written to instead.
func OpenLogFile(path string, instead io.Writer) (*LogFile, error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("log file: %w: remove it, or choose another with --log-file", err)
	}
	return &LogFile{path: path, file: &lumberjack.Logger{Filename: path, MaxSize: 10, MaxBackups: 15}, instead: instead}, nil
}

// create opens the file, or makes it as everybody may read it. It follows no symbolic link: in /tmp somebody else may have
// laid one to a file that is root's.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// Write appends to the file, after making it anew where it was removed.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Lstat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = l.file.Close() // it opens the path again at the next write
		if err = os.MkdirAll(filepath.Dir(l.path), 0o755); err == nil {
			err = create(l.path)
		}
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		_ = l.file.Close()
		err = fmt.Errorf("%s is a symbolic link now", l.path)
	}
	n := 0
	if err == nil {
		n, err = l.file.Write(p)
	}
	if err != nil {
		_, _ = fmt.Fprintf(l.instead, "mux-agent: log file: %v; the line was: %s", err, p)
	}
	return n, err
}

// Close closes the file.
func (l *LogFile) Close() error { return l.file.Close() }
