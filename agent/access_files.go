package agent

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// A fileValue is made from files, and made anew at its next use after one of them has changed. Where that fails the value
// stays, with a warning: a half-written file locks nobody out.
type fileValue[T any] struct {
	paths []string
	load  func() (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	seen  []fileStamp
	value T
}

// newFileValue makes the value for the first time, which must succeed.
func newFileValue[T any](log *slog.Logger, load func() (T, error), paths ...string) (*fileValue[T], error) {
	f := &fileValue[T]{paths: paths, load: load, log: log, seen: stamps(paths)}
	var err error
	f.value, err = load()
	return f, err
}

func (f *fileValue[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := stamps(f.paths)
	if slices.Equal(now, f.seen) {
		return f.value
	}
	f.seen = now
	value, err := f.load()
	if err != nil {
		f.log.Warn("files have changed and can't be used; what they said before stays", "files", f.paths, "err", err)
		return f.value
	}
	f.value = value
	return value
}

// A fileStamp differs when a file may have changed.
type fileStamp struct {
	modified time.Time
	size     int64
	looked   time.Time // where the file is so new that another change could leave it looking the same; else zero
}

func stamps(paths []string) []fileStamp {
	list := make([]fileStamp, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		list[i] = fileStamp{modified: info.ModTime(), size: info.Size()}
		if now := time.Now(); now.Sub(info.ModTime()) < time.Second {
			list[i].looked = now
		}
	}
	return list
}

// minToken is the shortest token that can't be guessed, in bytes.
const minToken = 16

// tokens are those of a file, one a line. Lines that start with # and empty ones are left out.
type tokens struct {
	file *fileValue[[][sha256.Size]byte]
}

func newTokens(path string, log *slog.Logger) (*tokens, error) {
	file, err := newFileValue(log, func() ([][sha256.Size]byte, error) { return loadTokens(path, log) }, path)
	return &tokens{file}, err
}

func loadTokens(path string, log *slog.Logger) ([][sha256.Size]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	var sums [][sha256.Size]byte
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		token := bytes.TrimSpace(lines.Bytes())
		if len(token) == 0 || token[0] == '#' {
			continue
		}
		if len(token) < minToken {
			return nil, fmt.Errorf("--token-file %s: a token has %d bytes and needs %d; make one with: openssl rand -hex 32", path, len(token), minToken)
		}
		sums = append(sums, sha256.Sum256(token))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--token-file %s: %w", path, err)
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("--token-file %s: no token in it; make one with: openssl rand -hex 32", path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o044 != 0 {
		log.Warn("others can read the tokens: chmod 600", "file", path)
	}
	return sums, nil
}

// valid takes the same time for every wrong token.
func (t *tokens) valid(token string) bool {
	sum := sha256.Sum256([]byte(token))
	found := 0
	for _, s := range t.file.get() {
		found |= subtle.ConstantTimeCompare(s[:], sum[:])
	}
	return found == 1
}
