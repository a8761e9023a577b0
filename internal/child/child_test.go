package child_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/child"
)

// A daemon that held the caller's pipe would keep the caller waiting for the pipe's end.
func TestAChildHoldsNoFileOfItsCaller(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	// A duplicate is not closed in children, as a file is not that the test binary was started with.
	inherited, err := syscall.Dup(int(in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	pipe, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(inherited))
	if err != nil {
		t.Fatal(err)
	}

	p, err := child.Start(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/" + strconv.Itoa(p.PID()) + "/fd/*")
	if err != nil || len(files) < 3 {
		t.Fatalf("the child's files: %v, %v", files, err)
	}
	for _, file := range files {
		if held, _ := os.Readlink(file); held == pipe {
			t.Errorf("the child holds %s as %s", held, file)
		}
	}
	if !p.Running() {
		t.Errorf("the child exited: %v", p.Err())
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err == nil || p.Running() {
		t.Errorf("a child that was killed ended with %v and runs: %v", err, p.Running())
	}
}
