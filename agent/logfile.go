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

	"github.com/DeRuina/timberjack"
)

// A LogFile is a rotated file, 10 MB and 15 older ones, as the replaced service kept. An older one is named PATH-<time>-size, so
// that who collects PATH* has the whole night. It is made anew when somebody removes it, which sonic-mgmt's post-test does
// while the service runs, and opened anew when somebody moves or truncates it, as logrotate does.
type LogFile struct {
	mu      sync.Mutex
	path    string
	file    *timberjack.Logger
	last    fs.FileInfo // the file after the last write, nil where there was none
	instead io.Writer
}

// OpenLogFile opens the file or says why it can't be written, which does not stop the agent. What can't be written later, as
// on a full disk, is written to instead.
func OpenLogFile(path string, instead io.Writer) (*LogFile, error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("log file: %w: remove it, or choose another with --log-file", err)
	}
	return &LogFile{path: path, file: rotated(path), instead: instead}, nil
}

func rotated(path string) *timberjack.Logger {
	return &timberjack.Logger{Filename: path, MaxSize: 10, MaxBackups: 15, AppendTimeAfterExt: true, FileMode: 0o644}
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

// Write appends to the file that the path names now.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Lstat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.reopen()
		if err = os.MkdirAll(filepath.Dir(l.path), 0o755); err == nil {
			err = create(l.path)
		}
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		l.reopen()
		err = fmt.Errorf("%s is a symbolic link now", l.path)
	case err == nil && l.last != nil && (!os.SameFile(info, l.last) || info.Size() < l.last.Size()):
		l.reopen()
	}
	n := 0
	if err == nil {
		n, err = l.file.Write(p)
	}
	if err != nil {
		_, _ = fmt.Fprintf(l.instead, "mux-agent: log file: %v; the line was: %s", err, p)
	}
	before := l.last
	l.last, _ = os.Lstat(l.path)
	if before != nil && l.last != nil && !os.SameFile(before, l.last) {
		l.reopen() // it was rotated: timberjack appends (O_APPEND) to a file that it finds, and not to one that it makes
	}
	return n, err
}

// reopen has the next write open the path.
func (l *LogFile) reopen() {
	_ = l.file.Close()
	l.file = rotated(l.path)
}

// Close closes the file. A write after it opens the file again.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.file.Close()
	l.file = rotated(l.path)
	return err
}
