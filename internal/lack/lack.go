// Package lack ends tests that need what is not there. Only tests import it.
package lack

import (
	"os"
	"os/exec"
	"testing"
)

// Of skips a test for the lack of something. In CI, where all is there, that is a failure.
func Of(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// Program returns the path of a program, or ends the test with how to get it.
func Program(tb testing.TB, name, how string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Of(tb, name+" is missing: "+how)
	}
	return path
}

// Root ends the test unless it runs as root, with what it needs root for.
func Root(tb testing.TB, why string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		Of(tb, "not root: "+why)
	}
}
