package main

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// watch tells what happens, also after the agent was away.
func TestWatch(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	ctx, cancel := context.WithCancel(context.Background())
	root := newRoot()
	root.SetArgs([]string{"watch", "0-1", "--endpoint", a.URL})
	out, outIn := io.Pipe()
	complaints, complaintsIn := io.Pipe()
	root.SetOut(outIn)
	root.SetErr(complaintsIn)
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		_ = outIn.Close()
		_ = complaintsIn.Close()
	}()
	outLines, complaintLines := linesOf(out), linesOf(complaints)
	wait := func(lines <-chan string, want string) {
		t.Helper()
		for {
			select {
			case line := <-lines:
				if regexp.MustCompile(want).MatchString(line) {
					return
				}
				t.Logf("passed over %q", line)
			case <-time.After(wait.Limit):
				t.Fatalf("no line like %q", want)
			}
		}
	}

	wait(complaintLines, "^watching vm_set vms17-8 at http://127")
	a.Flip(2) // not asked for
	a.Flip(1)
	wait(outLines, `^\d\d:\d\d:\d\d\.\d{3}  port 1  upper_tor → lower_tor  127\.0\.0\.1 [\d.]+(µs|ms)`)
	a.Stop()
	wait(complaintLines, "no answer from .*; trying again$|the stream broke off")
	a.Resume()
	wait(complaintLines, "^the agent is back$")
	a.Flip(0)
	wait(outLines, "port 0  upper_tor → lower_tor")

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("watch ended with %v", err)
	}
	for range outLines {
	}
	for range complaintLines {
	}
}

// linesOf reads lines until the end.
func linesOf(r io.Reader) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}
