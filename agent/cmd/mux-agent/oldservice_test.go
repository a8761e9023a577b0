package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// oldService answers as mux_simulator.py does, with one port, as far as the commands go.
func oldService(t *testing.T) string {
	var mu sync.Mutex
	side, other := "upper_tor", "lower_tor"
	status := func() string {
		return fmt.Sprintf(`{"active_port":%q,"active_side":%q,"bridge":"mbr-vms1-0","flap_counter":0,"flows":{"muxy-vms1-0":[`+
			`{"action":"output","out_port":"upper_tor"},{"action":"output","out_port":"lower_tor"}],%q:[{"action":"output","out_port":"muxy-vms1-0"}]},`+
			`"healthy":true,"port_index":0,"ports":{"lower_tor":"lower_tor","nic":"muxy-vms1-0","upper_tor":"upper_tor"},`+
			`"standby_port":%q,"standby_side":%q,"vm_set":"vms1"}`, side, side, side, other, other)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && strings.Contains(string(body), other) {
			side, other = other, side
		}
		switch r.URL.Path {
		case "/mux/vms1":
			fmt.Fprintf(w, `{"mbr-vms1-0":%s}`, status())
		case "/mux/vms1/0":
			fmt.Fprint(w, status())
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"err_msg":"<NotFound '404: Not Found'> 404 Not Found: The requested URL was not found on the server."}`)
		}
	}))
	t.Cleanup(service.Close)
	return service.URL
}

// The commands also work on the service that the agent replaces.
func TestOldService(t *testing.T) {
	url := oldService(t)
	for _, step := range []struct {
		args, want string
		code       int
	}{
		{"status --vm-set vms1", "0     upper_tor  ok", 0},
		{"set 0 lower --vm-set vms1", "port 0: lower_tor (was upper_tor)", 0},
		{"wait 0 lower --vm-set vms1", "port 0: lower_tor", 0},
		{"wait 0 upper --vm-set vms1 --timeout 1ms", "not on upper_tor", exitFound},
		{"history 0 --vm-set vms1", "only mux-agent has it, not mux_simulator.py", 1},
		{"status", "does not tell which vm_set it serves", 2},
	} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(step.args), "--endpoint", url))
		code := 0
		if err := root.ExecuteContext(t.Context()); err != nil {
			code = exitCode(err)
			out.WriteString(err.Error())
		}
		if code != step.code || !strings.Contains(out.String(), step.want) {
			t.Errorf("%s: exit code %d, want %d, with %q in:\n%s", step.args, code, step.code, step.want, out.String())
		}
	}
}
