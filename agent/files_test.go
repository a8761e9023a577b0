package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A value whose files have changed and can't be read is tried again, at most once a second, and is stale after a while.
func TestAFailedReloadIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	now := time.Now().Add(time.Hour) // the file is not new
	loads := 0
	var broken error
	f, err := newFileValue(slog.New(slog.DiscardHandler), func() (string, error) {
		loads++
		if broken != nil {
			return "", broken
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	f.now = func() time.Time { return now }
	expect := func(when, value string, stale error, wantLoads int) {
		t.Helper()
		got, err := f.get()
		if got != value || !errors.Is(err, stale) || loads != wantLoads {
			t.Errorf("%s: %q, %v, read %d times; want %q, %v, %d times", when, got, err, loads, value, stale, wantLoads)
		}
	}
	loads = 0
	expect("the file is no longer new", "old", nil, 1)
	expect("nothing has changed", "old", nil, 1)

	write("new")
	now = now.Add(time.Hour)
	broken = errors.New("too many open files")
	expect("changed, and can't be read", "old", nil, 2)
	now = now.Add(retryFiles - 1)
	expect("not yet tried again", "old", nil, 2)
	now = now.Add(1)
	expect("tried again", "old", nil, 3)
	if !f.stale() {
		t.Error("it does not say so")
	}
	broken = nil
	now = now.Add(retryFiles)
	expect("can be read again", "new", nil, 4)
	if f.stale() {
		t.Error("it is stale for good")
	}

	broken = errors.New("too many open files")
	write("newer")
	now = now.Add(time.Hour)
	expect("changed again", "new", nil, 5)
	now = now.Add(staleAfter)
	expect("for long", "new", errStale, 6)
	broken = nil
	f.reload()
	expect("read on demand", "newer", nil, 7)
	f.reload()
	expect("read on demand, unchanged", "newer", nil, 8)
}

// cp -p and rsync -t give a file the time that it had, and it may have the size.
func TestAFileWithTheSameTimeAndSizeHasChanged(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "tokens"), filepath.Join(dir, "other")
	past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := strings.Repeat("1", 32), strings.Repeat("2", 32), strings.Repeat("3", 32)
	write(path, first)
	tokens, err := newTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	valid := func(token string) bool {
		list, err := tokens.file.get()
		if err != nil {
			t.Fatal(err)
		}
		_, ok := list.find(token)
		return ok
	}
	write(path, second)
	if valid(first) || !valid(second) {
		t.Error("written over in place: the old token is in force")
	}
	write(other, third)
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if valid(second) || !valid(third) {
		t.Error("replaced: the old token is in force")
	}
}

// Who has been withdrawn is out after ten seconds, also where the file can't be read; the server's own certificate stays.
func TestStaleAuthoritiesLetNobodyIn(t *testing.T) {
	now := time.Now().Add(time.Hour)
	c := certificates{pair: staleSince(t, tls.Certificate{}, &now), clients: staleSince(t, x509.NewCertPool(), &now)}
	if cfg, err := c.config(); err != nil || cfg.ClientCAs == nil || len(cfg.Certificates) != 1 {
		t.Errorf("at first: %+v, %v", cfg, err)
	}
	now = now.Add(staleAfter)
	if _, err := c.config(); !errors.Is(err, errStale) {
		t.Errorf("after %v: %v, want the connection refused", staleAfter, err)
	}
	c.clients = nil
	if cfg, err := c.config(); err != nil || len(cfg.Certificates) != 1 {
		t.Errorf("the server's own certificate after %v: %v", staleAfter, err)
	}
}

// staleSince returns a value that was made from a file which has gone since.
func staleSince[T any](t *testing.T, value T, now *time.Time) *fileValue[T] {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := newFileValue(slog.New(slog.DiscardHandler), func() (T, error) {
		_, err := os.ReadFile(path)
		return value, err
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	f.now = func() time.Time { return *now }
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return f
}
