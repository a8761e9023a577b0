package main

import (
	"os"
	"strings"
	"testing"
)

// The page of the command line has each command by which people work, and each exit code and format.
func TestTheDocumentationHasEachCommand(t *testing.T) {
	text, err := os.ReadFile("../../../docs/agent/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot().Commands() {
		if cmd.Hidden || cmd.Name() == "version" || cmd.Name() == "completion" || cmd.Name() == "serve" {
			continue
		}
		if use := "`" + cmd.Use + "`"; !strings.Contains(string(text), use) {
			t.Errorf("%s is not in cli.md", use)
		}
	}
	for _, row := range []string{"| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 78 |"} {
		if !strings.Contains(string(text), "\n"+row) {
			t.Errorf("the row %q of an exit code is not in cli.md", row)
		}
	}
	if help := newRoot().Long; !strings.Contains(help, "0 done; 1 failed; 2 a wrong call; 3 a check that found something") {
		t.Error("the help does not list the exit codes")
	}
}
