package agent

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// retryFiles is the shortest pause between two tries to read files that could not be used.
	retryFiles = time.Second
	// staleAfter is how long what changed files said before stays good while they can't be used: time enough for somebody to
	// finish writing them.
	staleAfter = 10 * time.Second
)

// errStale is the error of a fileValue whose files have changed and could not be used for staleAfter.
var errStale = errors.New("its files have changed and can't be used")

// A fileValue is made from files, and made anew at its next use after one of them has changed. Where that fails the value
// stays for a while, with a warning, since a half-written file shall lock nobody out; it is tried again until it succeeds.
type fileValue[T any] struct {
	paths []string
	load  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	seen   []fileStamp // of the files that value was made from
	value  T
	failed failure // zero while the files can be used
}

// A failure is that of the last try to use changed files.
type failure struct {
	since, last time.Time
	saw         []fileStamp
}

// newFileValue makes the value for the first time, which must succeed.
func newFileValue[T any](log *slog.Logger, load func() (T, error), paths ...string) (*fileValue[T], error) {
	f := &fileValue[T]{paths: paths, load: load, log: log, now: time.Now}
	f.seen = f.stamps(f.now())
	var err error
	f.value, err = load()
	return f, err
}

// get returns the value. With errStale it is what the files said before they changed, and more than staleAfter old.
func (f *fileValue[T]) get() (T, error) { return f.refreshed(false) }

// reload reads the files whether they have changed or not.
func (f *fileValue[T]) reload() { _, _ = f.refreshed(true) }

// stale reports whether the files have changed and can't be used.
func (f *fileValue[T]) stale() bool {
	_, _ = f.refreshed(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.failed.since.IsZero()
}

func (f *fileValue[T]) refreshed(force bool) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.refresh(now, force)
	if !f.failed.since.IsZero() && now.Sub(f.failed.since) >= staleAfter {
		return f.value, errStale
	}
	return f.value, nil
}

// refresh is called with mu held.
func (f *fileValue[T]) refresh(now time.Time, force bool) {
	is, failed := f.stamps(now), !f.failed.since.IsZero()
	switch {
	case force:
	case !failed && slices.Equal(is, f.seen):
		return
	case failed && slices.Equal(is, f.failed.saw) && now.Sub(f.failed.last) < retryFiles:
		return
	}
	value, err := f.load()
	if err == nil {
		f.value, f.seen = value, is
		if failed {
			f.log.Info("files can be used again", "files", f.paths)
		}
		f.failed = failure{}
		return
	}
	f.failed.last, f.failed.saw = now, is
	if !failed {
		f.failed.since = now
		f.log.Warn("files have changed and can't be used; what they said before stays for a while", "files", f.paths, "for", staleAfter, "err", err)
	}
}

// A fileStamp differs when a file may have changed. cp -p and rsync -t keep the time of the content and may keep the size;
// the inode or the time of its change differs then.
type fileStamp struct {
	inode             uint64
	modified, changed time.Time
	size              int64
	looked            time.Time // where the file is so new that another change could leave it looking the same; else zero
}

func (f *fileValue[T]) stamps(now time.Time) []fileStamp {
	list := make([]fileStamp, len(f.paths))
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		stamp := fileStamp{modified: info.ModTime(), changed: info.ModTime(), size: info.Size()}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			stamp.inode, stamp.changed = sys.Ino, time.Unix(sys.Ctim.Unix())
		}
		if now.Sub(stamp.changed) < time.Second {
			stamp.looked = now
		}
		list[i] = stamp
	}
	return list
}

// checkMode warns where others than the owner of a secret file may do with it what would give the secret away.
func checkMode(path, what string, log *slog.Logger) {
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o022 != 0:
		log.Warn("others can write a secret file: chmod 600", "file", path, "holds", what)
	case mode&0o044 != 0:
		log.Warn("others can read a secret file: chmod 600", "file", path, "holds", what)
	}
}
