package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// evil moves the cursor, sets the title, turns text around and begins a new line, in ASCII, C1 and by U+202E.
const evil = "e\x1b[2J\x1b]0;t\x07\u009b31m\u202egnp\u2028\n\x7f"

// hostileAgent answers as an agent whose every text is evil.
func hostileAgent(t *testing.T, refuse bool, plainBody bool) string {
	t.Helper()
	quoted, _ := json.Marshal(evil)
	status := strings.ReplaceAll(`{"active_port":E,"active_side":"upper_tor","bridge":"mbr-x-0","conditions":[{"code":E,"reason":E,"cure":E}],"dropped":["nic",E],
		"flap_counter":1,"flows":{E:[]},"healthy":false,"port_index":0,"ports":{"nic":E,"upper_tor":E,"lower_tor":E},"reason":E,
		"standby_port":E,"standby_side":"lower_tor","vm_set":E}`, "E", string(quoted))
	event := strings.ReplaceAll(`{"bridge":"mbr-x-0","by":E,"cause":"api","client":E,"from":null,"port_index":0,"req_id":E,"seq":1,"time":"2026-01-01T00:00:00Z",
		"to":{"active_side":E,"dropped":[E],"healthy":false,"reason":E},"took_us":5,"vm_set":E}`, "E", string(quoted))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case refuse && plainBody:
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, evil)
		case refuse:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"err_msg":%s,"failed":{%s:{"code":%s,"err_msg":%s}}}`, quoted, quoted, quoted, quoted)
		case r.URL.Path == "/version":
			fmt.Fprintf(w, `{"version":%s}`, quoted)
		case r.URL.Path == "/mux":
			fmt.Fprintf(w, `{"vm_sets":{"x":{"muxes":1,"ready":true,"rejected":[{"bridge":%s,"code":%s,"port_index":0,"reason":%s}]},%s:{"muxes":0,"ready":true}}}`, quoted, quoted, quoted, quoted)
		case strings.HasSuffix(r.URL.Path, "/history"):
			fmt.Fprintf(w, `{"events":[%s]}`, event)
		case strings.HasSuffix(r.URL.Path, "/events"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 1\nevent: change\ndata: %s\n\n", strings.ReplaceAll(event, "\n", ""))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case strings.Count(r.URL.Path, "/") == 2:
			fmt.Fprintf(w, `{"mbr-x-0":%s}`, status)
		default:
			fmt.Fprint(w, status)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// What a hostile agent answers reaches no terminal as it is.
func TestNothingForeignReachesATerminal(t *testing.T) {
	commands := []string{
		"status", "status -o wide", "status --json", "status --unhealthy", "status --unhealthy --json", "history 0", "history -o wide", "history 0 --json", "set 0 lower", "toggle all", "drop 0 nic", "reset 0 --json",
		"counters", "counters --json", "wait 0 lower --timeout 1ms", "wait all lower --timeout 1ms -o json", "reload", "log x", "doctor --ovs-rundir /nonexistent", "doctor --json --ovs-rundir /nonexistent",
	}
	for _, refuse := range []bool{false, true} {
		for _, plainBody := range []bool{false, true} {
			url := hostileAgent(t, refuse, plainBody)
			for _, command := range commands {
				said := runCommand(t, append(strings.Fields(command), "--endpoint", url, "--vm-set", "x"))
				if said == "" {
					t.Errorf("%s says nothing", command)
				}
				checkPrintable(t, command, said)
			}
			checkPrintable(t, "status "+evil, runCommand(t, []string{"status", evil, "--endpoint", url}))
		}
	}
}

// A line of watch is as harmless.
func TestEventsArePrintable(t *testing.T) {
	state := &api.MuxState{ActiveSide: evil, Dropped: []string{evil}, Reason: evil}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		printEvent(newScreen(&out), api.Event{Bridge: evil, By: evil, Cause: api.CauseAPI, Client: evil, From: state, ReqID: evil, To: state}, asJSON)
		if lines := strings.Count(out.String(), "\n"); lines != 1 {
			t.Errorf("%d lines: %q", lines, out.String())
		}
		checkPrintable(t, "watch", out.String())
	}
}

func runCommand(t *testing.T, args []string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		_ = newScreen(&out).printf("mux-agent: %s\n", err) // as main does
	}
	return out.String()
}

func checkPrintable(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s writes %q:\n%q", what, r, text)
			return
		}
	}
	if strings.Contains(text, "\ne\x1b") {
		t.Errorf("%s: a forged line:\n%q", what, text)
	}
}

// What JSON escapes is still what was sent.
func TestJSONIsWhatWasSent(t *testing.T) {
	var out bytes.Buffer
	if err := newScreen(&out).json(map[string]string{"text": evil + "grün 😀 \U000e0001"}, ""); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["text"] != evil+"grün 😀 \U000e0001" {
		t.Errorf("%q, %v", got, err)
	}
	checkPrintable(t, "json", out.String())
}

// Only screen writes to a terminal: what comes from an agent is foreign.
func TestOnlyScreenWritesToATerminal(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "table.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, word := range []string{"fmt.Fprint", "fmt.Print", "os.Stdout", "io.WriteString", "cmd.Print"} {
				if strings.Contains(line, word) {
					t.Errorf("%s writes past screen: %s", filepath.Base(file), strings.TrimSpace(line))
				}
			}
			for _, word := range []string{"OutOrStdout", "ErrOrStderr", "os.Stderr"} {
				if strings.Contains(line, word) && !strings.Contains(line, "newScreen(") && !strings.Contains(line, "own.open(") {
					t.Errorf("%s uses %s past screen: %s", filepath.Base(file), word, strings.TrimSpace(line))
				}
			}
		}
	}
}

// A shell prints what completion offers as it is, a line for each.
func TestNothingForeignReachesAShell(t *testing.T) {
	t.Setenv("MUX_ENDPOINT", hostileAgent(t, false, false))
	t.Setenv("MUX_VM_SET", "x")
	said := runCommand(t, []string{"__complete", "toggle", ""})
	if !strings.HasPrefix(said, "0\tupper_tor, dropped nic,e") {
		t.Errorf("it offers no port:\n%s", said)
	}
	checkPrintable(t, "completion", strings.ReplaceAll(said, "\t", " "))
	said = runCommand(t, []string{"__complete", "status", "--vm-set", ""})
	if !strings.HasPrefix(said, "x\n") {
		t.Errorf("it offers no vm_set:\n%s", said)
	}
	checkPrintable(t, "completion", said)
}
