package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/sonic-mux/terraform-provider-mux/agent"
)

// hostile are texts that would forge a line, or fool a terminal.
var hostile = []string{
	"a\nlevel=INFO msg=forged", "a\r\nforged", "a\x1b[2J\x1b[31mred", "\x00\x07\x08\x7f", "\u0085\u2028\u2029next", "\u009b31m", "\u202eright to left",
	`" msg=forged`, `","msg":"forged`, "\xff\xfe", "plain",
}

func TestNothingForgesALine(t *testing.T) {
	for _, format := range []string{agent.LogText, agent.LogJSON} {
		for _, text := range hostile {
			var out bytes.Buffer
			log := slog.New(agent.NewLogHandler(&out, format, slog.LevelInfo)).With("vm_set", text)
			log.Info("request failed", "url", text, "err", errors.New(text))
			line, rest, _ := strings.Cut(out.String(), "\n")
			if rest != "" {
				t.Errorf("%s: %q is more than a line: %q", format, text, out.String())
			}
			for _, r := range line {
				if r != unicode.ReplacementChar && !unicode.IsPrint(r) {
					t.Errorf("%s: %q leaves %q in the line %q", format, text, r, line)
				}
			}
			if format == agent.LogText {
				if got := strings.Count(line, " msg="); got != 1+strings.Count(text, " msg=")*3 {
					t.Errorf("%q: %q", text, line)
				}
				continue
			}
			var record struct{ Level, Msg, URL, Err string }
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level != "INFO" || record.Msg != "request failed" || record.URL != record.Err {
				t.Errorf("%q: %v: %q", text, err, line)
			}
		}
	}
}

func TestLogFileIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	var instead bytes.Buffer
	file, err := agent.OpenLogFile(path, &instead)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	for range 11 { // MiB, of which a file has 10
		if _, err := file.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(path + "*") // as sonic-mgmt collects them
	if err != nil || len(files) != 2 {
		t.Errorf("files: %v, %v; want the log and an older one", files, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(line)) {
		t.Errorf("the new file: %v, %v", info, err)
	}
	if instead.Len() > 0 {
		t.Errorf("lines that were not written: %q", instead.String())
	}
}

// A log that can't be written is a warning, at the start and later.
func TestLogFileThatCannotBeWritten(t *testing.T) {
	if _, err := agent.OpenLogFile(filepath.Join(t.TempDir(), "none", "agent.log"), new(bytes.Buffer)); err == nil ||
		!strings.Contains(err.Error(), "choose another with --log-file") {
		t.Errorf("in a folder that is not there: %v", err)
	}

	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.log")
	var instead bytes.Buffer
	file, err := agent.OpenLogFile(path, &instead)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Dir(dir), "logs", "in the way")
	if _, err := file.Write([]byte("lost?\n")); err == nil || !strings.Contains(instead.String(), "the line was: lost?") {
		t.Errorf("with a file in the way: %v, and instead %q", err, instead.String())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("back\n")); err != nil {
		t.Errorf("after that: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "back\n" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

// A log that somebody removed comes back for everybody to read, and no link is followed to a file of others.
func TestLogFileIsMadeAnewAndFollowsNoLinks(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "agent.log"), filepath.Join(t.TempDir(), "other")
	var instead bytes.Buffer
	file, err := agent.OpenLogFile(path, &instead)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("back\n")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("made anew: %v, %v; want the mode 0644", info.Mode(), err)
	}

	writeFile(t, filepath.Dir(other), "other", "root's\n")
	if err := errors.Join(os.Remove(path), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("forged\n")); err == nil || !strings.Contains(instead.String(), "symbolic link now; the line was: forged") {
		t.Errorf("through a link: %v, %q", err, instead.String())
	}
	if _, err := agent.OpenLogFile(path, &instead); err == nil {
		t.Error("a link was opened at the start")
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "root's\n" {
		t.Errorf("the other file: %q, %v", text, err)
	}
}

// What logrotate does, by a move or by a copy and a cut, loses no line and leaves no NUL; also after the agent's own rotation.
func TestLogFileThatOthersRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	var instead bytes.Buffer
	file, err := agent.OpenLogFile(path, &instead)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(line string) {
		t.Helper()
		if _, err := file.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	want := func(name, text string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s: %.60q, %v, want %.60q", filepath.Base(name), got, err, text)
		}
	}
	for round := range 2 {
		if round == 1 { // the agent's own rotation
			write(strings.Repeat("x", 6<<20))
			write(strings.Repeat("y", 6<<20))
			if older, err := filepath.Glob(path + "-*-size"); err != nil || len(older) != 1 {
				t.Fatalf("older files: %v, %v", older, err)
			}
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		write("after the cut")
		write("and one more")
		want(path, "after the cut\nand one more\n")
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		write("short")
		want(path, "short\n")

		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		write("after the move")
		want(path+".1", "short\n")
		want(path, "after the move\n")
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Dir(path), filepath.Base(path), "") // as logrotate's create
		write("in the new file")
		want(path, "in the new file\n")
	}
	if instead.Len() > 0 {
		t.Errorf("lines that were not written: %q", instead.String())
	}
}

// Lines that nobody takes are bounded by their size as well: those that clients have written are long.
func TestLogQueueIsBoundedInBytes(t *testing.T) {
	taken, written := make(chan struct{}), make(chan int, 10_000)
	queue := agent.NewLogQueue(writer(func(p []byte) (int, error) {
		<-taken
		written <- len(p)
		return len(p), nil
	}))
	line := bytes.Repeat([]byte("x"), 64<<10)
	for range 2000 {
		_, _ = queue.Write(line)
	}
	close(taken)
	queue.Close()
	close(written)
	total := 0
	for n := range written {
		total += n
	}
	if total > 9<<20 || total < 7<<20 {
		t.Errorf("%d KiB were kept, want 8 MiB", total>>10)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
