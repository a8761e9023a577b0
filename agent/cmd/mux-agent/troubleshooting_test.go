package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// The commands of the page for troubles, and what it says that they print.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile("../../../docs/agent/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, agenttest.Ports(8))
	a.Flip(2)
	a.AddForeignFlow(3)
	a.AddBridge(9, "muxy-vms17-8-9")
	t.Setenv("MUX_ENDPOINT", a.URL)
	runDocumented(t, "drop 5 nic")
	commands := 0
	for block := range strings.SplitSeq(string(text), "```console\n") {
		block, _, found := strings.Cut(block, "```\n")
		if !found || !strings.HasPrefix(block, "$ ") {
			continue
		}
		for example := range strings.SplitSeq(strings.TrimPrefix(block, "$ "), "\n$ ") {
			line, want, _ := strings.Cut(example, "\n")
			var got string
			if command, ok := strings.CutPrefix(line, "mux-agent "); ok {
				got = runDocumented(t, command)
			} else {
				got = curlDocumented(t, a, line)
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(want, "\n")), "…", ".*")
			if !regexp.MustCompile(`(?s)^` + pattern + `\n*$`).MatchString(got) {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", line, got, want)
			}
			commands++
		}
	}
	if commands < 12 {
		t.Errorf("%d commands were found, want all", commands)
	}
}

// What the README tells somebody to type who has never seen the agent.
func TestTheFirstMinute(t *testing.T) {
	a := agenttest.Start(t)
	t.Setenv("MUX_ENDPOINT", a.URL)
	commands := 0
	for _, page := range []string{"../../../README.md", "../../../examples/README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			command, found := strings.CutPrefix(line, "bin/mux-agent ")
			if !found || strings.HasPrefix(command, "serve ") {
				continue
			}
			command, _, _ = strings.Cut(command, "#")
			if said := runDocumented(t, command); strings.Contains(said, "mux-agent: ") {
				t.Errorf("%s: mux-agent %s says\n%s", page, command, said)
			}
			commands++
		}
	}
	if commands < 6 {
		t.Errorf("%d commands were found, want all", commands)
	}
}

// runDocumented runs a command as a shell would, and returns all that it prints.
func runDocumented(t *testing.T, command string) string {
	t.Helper()
	root := newRoot()
	root.SetArgs(strings.Fields(command))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		fmt.Fprintf(&out, "mux-agent: %v\n", err)
	}
	return out.String()
}

// curlDocumented does what "curl -s URL" and "curl -si URL | grep WORD" do.
func curlDocumented(t *testing.T, a *agenttest.Agent, command string) string {
	t.Helper()
	call, word, _ := strings.Cut(command, " | grep ")
	words := strings.Fields(call)
	if len(words) != 3 || words[0] != "curl" {
		t.Fatalf("%q is not a command that this test can run", command)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(words[2], "http://127.0.0.1:8080", a.URL, 1), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out bytes.Buffer
	if words[1] == "-si" {
		if err := res.Header.Write(&out); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(&out, res.Body); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, word) {
			lines.WriteString(strings.ReplaceAll(line, "\r", ""))
		}
	}
	return lines.String()
}
