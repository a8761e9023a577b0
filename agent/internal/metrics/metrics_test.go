package metrics_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { http.DefaultClient.CloseIdleConnections(); os.Exit(code) }))
}

func call(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// scrape returns the value of each series.
func scrape(t *testing.T, a *agenttest.Agent) map[string]string {
	t.Helper()
	series := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(call(t, "GET", a.URL+"/metrics", ""))); lines.Scan(); {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && !strings.HasPrefix(lines.Text(), "#") {
			series[lines.Text()[:i]] = lines.Text()[i+1:]
		}
	}
	return series
}

func TestMetricsOfAnAgent(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(4))
	before := scrape(t, a)
	url := a.URL + "/mux/vms17-8"
	for range 3 {
		call(t, "POST", url+"/2", `{"active_side":"toggle"}`)
	}
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	call(t, "POST", url, `{"active_side":"toggle"}`)
	call(t, "POST", url+"/3/drop", `{"out_sides":["nic"]}`)
	call(t, "GET", url+"/0", "")
	call(t, "GET", url+"/00", "")
	call(t, "GET", url+"/9", "")
	call(t, "HEAD", url, "")
	call(t, "GET", a.URL+"/made/up", "")
	call(t, "BREW", url+"/1", "")
	call(t, "GET", url+"/0?active_side=lower_tor&wait=5s", "")
	a.AddBridge(8, "muxy-vms17-8-8")

	const port = `route="/mux/{vm_set}/{port:[0-9]+}"`
	want := map[string]string{
		`mux_agent_http_requests_total{method="GET",` + port + `,status="200"}`:           "3",
		`mux_agent_http_requests_total{method="GET",` + port + `,status="404"}`:           "1",
		`mux_agent_http_requests_total{method="POST",` + port + `,status="200"}`:          "3",
		`mux_agent_http_requests_total{method="other",` + port + `,status="405"}`:         "1",
		`mux_agent_http_requests_total{method="GET",route="none",status="404"}`:           "1",
		`mux_agent_http_requests_total{method="HEAD",route="/mux/{vm_set}",status="200"}`: "1",
		`mux_agent_http_requests_total{method="POST",route="/mux/{vm_set}",status="500"}`: "1",
		`mux_agent_http_request_seconds_count{method="POST",part="http",` + port + `}`:    "3",
		`mux_agent_http_request_seconds_count{method="POST",part="queue",` + port + `}`:   "3",
		`mux_agent_http_request_seconds_count{method="POST",part="switch",` + port + `}`:  "3",
		`mux_agent_http_request_seconds_count{method="GET",part="http",` + port + `}`:     "3", // not the wait
		`mux_agent_muxes{active_side="lower_tor",healthy="true",vm_set="vms17-8"}`:        "1", // port 0
		`mux_agent_muxes{active_side="lower_tor",healthy="false",vm_set="vms17-8"}`:       "1", // port 3
		`mux_agent_muxes{active_side="upper_tor",healthy="true",vm_set="vms17-8"}`:        "2",
		`mux_agent_muxes{active_side="upper_tor",healthy="false",vm_set="vms17-8"}`:       "0",
		`mux_agent_mux_healthy{port="3",vm_set="vms17-8"}`:                                "0",
		`mux_agent_mux_healthy{port="2",vm_set="vms17-8"}`:                                "1",
		`mux_agent_mux_flaps{port="2",vm_set="vms17-8"}`:                                  "4",
		`mux_agent_flaps_total{vm_set="vms17-8"}`:                                         "6",
		`mux_agent_external_changes_total{vm_set="vms17-8"}`:                              "0",
		`mux_agent_repairs_total{vm_set="vms17-8"}`:                                       "0",
		`mux_agent_reconnects_total{vm_set="vms17-8"}`:                                    "0",
		`mux_agent_rejected_bridges{vm_set="vms17-8"}`:                                    "1",
		`mux_agent_ready{vm_set="vms17-8"}`:                                               "1",
		`mux_agent_build_info{goversion="` + runtime.Version() + `",version="test"}`:      "1",
	}
	got := scrape(t, a)
	for deadline := time.Now().Add(wait.Limit); !contains(got, want) && time.Now().Before(deadline); got = scrape(t, a) {
		time.Sleep(10 * time.Millisecond) // a request is counted when it is over, which is after its answer
	}
	for series, value := range want {
		if got[series] != value {
			t.Errorf("%s is %q, want %s", series, got[series], value)
		}
	}
	if got["process_open_fds"] == "" || got["go_goroutines"] == "" {
		t.Error("no metrics of the process and the runtime")
	}
	for series := range got {
		if strings.Contains(series, "made/up") || strings.Contains(series, "BREW") {
			t.Errorf("a client has made the series %s", series)
		}
	}
	if len(before) == 0 {
		t.Error("nothing before the first request")
	}
}

// A counter whose first value is that of its first burst can't be alerted on: rate and increase see no rise. So all of them are
// there from the start.
func TestCountersExistFromTheStart(t *testing.T) {
	got := scrape(t, agenttest.Start(t, agenttest.Ports(2)))
	for _, reason := range []string{"address", "limit", "client", "headers", "tls"} {
		if series := `mux_agent_connections_refused_total{reason="` + reason + `"}`; got[series] != "0" {
			t.Errorf("%s is %q at the start", series, got[series])
		}
	}
	for _, route := range []string{
		`method="GET",route="/mux/{vm_set}"`, `method="POST",route="/mux/{vm_set}"`, `method="PATCH",route="/mux/{vm_set}"`,
		`method="POST",route="/mux/{vm_set}/{port:[0-9]+}/{action:[^/]+}"`, `method="GET",route="/mux"`,
	} {
		for _, status := range []string{"500", "503"} {
			if series := `mux_agent_http_requests_total{` + route + `,status="` + status + `"}`; got[series] != "0" {
				t.Errorf("%s is %q at the start", series, got[series])
			}
		}
	}
	for _, name := range []string{"flaps", "external_changes", "repairs", "reconnects"} {
		if series := `mux_agent_` + name + `_total{vm_set="vms17-8"}`; got[series] != "0" {
			t.Errorf("%s is %q at the start", series, got[series])
		}
	}
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

// promtool finds Prometheus' own checker, or ends the test.
func promtool(t *testing.T) string {
	t.Helper()
	return lack.Program(t, "promtool", "apt-get install prometheus")
}

func TestMetricsPassPromtool(t *testing.T) {
	path := promtool(t)
	a := agenttest.Start(t, agenttest.Ports(2))
	call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"toggle"}`)
	cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
	cmd.Stdin = strings.NewReader(call(t, "GET", a.URL+"/metrics", ""))
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "mux_agent_") {
			t.Error(line)
		}
	}
	// It has something to say of the names that the client library gives its own metrics, and ends with 3 then.
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) {
		t.Errorf("promtool ended with %v\n%s", err, out)
	}
}

// The rules and the dashboard in examples/monitoring name only metrics that there are, and the rules fire as they say.
func TestMonitoringExamples(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"toggle"}`)
	exported := call(t, "GET", a.URL+"/metrics", "")
	const dir = "../../../examples/monitoring/"
	for _, name := range []string{"alerts.yml", "dashboard.json"} {
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z')
		}) {
			if strings.HasPrefix(word, "mux_agent_") {
				names[word] = true
			}
		}
		if len(names) < 5 {
			t.Errorf("%s names only %v", name, names)
		}
		for n := range names {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(n, "_bucket"), "_sum"), "_count")
			if !strings.Contains(exported, fmt.Sprintf("# TYPE %s ", base)) && !strings.Contains(exported, fmt.Sprintf("# TYPE %s ", n)) {
				t.Errorf("%s names %s, which the agent does not export", name, n)
			}
		}
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "rules", queries(t, dir+"dashboard.json")}} {
		cmd := exec.CommandContext(t.Context(), promtool(t), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// queries writes the expressions of a dashboard as rules, which promtool can check.
func queries(t *testing.T, dashboard string) string {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	type rule map[string]string
	var rules []rule
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			rules = append(rules, rule{"record": fmt.Sprintf("query_%d", len(rules)), "expr": strings.NewReplacer("$vm_set", ".*", "$instance", ".*").Replace(target.Expr)})
		}
	}
	groups, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(path, groups, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Who chooses a testbed or an agent in the dashboard sees these alone, in each panel.
func TestThePanelsFollowTheVariables(t *testing.T) {
	exported := call(t, "GET", agenttest.Start(t, agenttest.Ports(2)).URL+"/metrics", "")
	text, err := os.ReadFile("../../../examples/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name, AllValue string
				Query          json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`((?:mux_agent|process|go)_\w+)(\{[^}]*\})?`)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, found := range selector.FindAllStringSubmatch(target.Expr, -1) {
				if !strings.Contains(found[2], `instance=~"$instance"`) {
					t.Errorf("panel %q: %s is that of all instances", p.Title, found[0])
				}
				ofTestbed := regexp.MustCompile(`(?m)^` + found[1] + `\{[^}]*vm_set="`).MatchString(exported)
				if ofTestbed && !strings.Contains(found[2], `vm_set=~"$vm_set"`) {
					t.Errorf("panel %q: %s is that of all testbeds", p.Title, found[0])
				}
			}
		}
	}
	queries := map[string]string{}
	for _, v := range d.Templating.List {
		queries[v.Name] = string(v.Query)
		if v.Name == "instance" && v.AllValue != "" {
			t.Errorf("all instances are %q, whatever testbed is chosen", v.AllValue)
		}
	}
	if !strings.Contains(queries["vm_set"], "vm_set)") || !strings.Contains(queries["instance"], `mux_agent_ready{vm_set=~\"$vm_set\"}, instance)`) {
		t.Errorf("the variables are %v; want those of a testbed, and the agents of it", queries)
	}
}

// Each alert has a row that says what to do.
func TestEachAlertIsDocumented(t *testing.T) {
	rules, err := os.ReadFile("../../../examples/monitoring/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/agent/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 5 {
		t.Errorf("the alerts are %v, want all", alerts)
	}
	for _, alert := range alerts {
		if !strings.Contains(string(page), "\n| `"+alert[1]+"` | ") {
			t.Errorf("docs/agent/monitoring.md does not say what to do about %s", alert[1])
		}
	}
}
