package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
	}))
}

// An answer is what a client sees of one.
type answer struct {
	status int
	header http.Header
	body   string
}

// call sends a request. With a body it is JSON unless header says otherwise ("Key: value").
func call(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range header {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Set(key, value)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// The two muxes of the answers below, upper ToR active.
const (
	mux0 = `{"active_port":"enp59s0f1.3216","active_side":"upper_tor","bridge":"mbr-vms17-8-0","dropped":[],"flap_counter":0,` +
		`"flows":{"enp59s0f1.3216":[{"action":"output","out_port":"muxy-vms17-8-0"}],` +
		`"muxy-vms17-8-0":[{"action":"output","out_port":"enp59s0f1.3216"},{"action":"output","out_port":"enp59s0f1.3218"}]},` +
		`"healthy":true,"port_index":0,"ports":{"lower_tor":"enp59s0f1.3218","nic":"muxy-vms17-8-0","upper_tor":"enp59s0f1.3216"},` +
		`"standby_port":"enp59s0f1.3218","standby_side":"lower_tor","vm_set":"vms17-8"}`
	mux1 = `{"active_port":"enp59s0f1.3217","active_side":"upper_tor","bridge":"mbr-vms17-8-1","dropped":[],"flap_counter":0,` +
		`"flows":{"enp59s0f1.3217":[{"action":"output","out_port":"muxy-vms17-8-1"}],` +
		`"muxy-vms17-8-1":[{"action":"output","out_port":"enp59s0f1.3217"},{"action":"output","out_port":"enp59s0f1.3219"}]},` +
		`"healthy":true,"port_index":1,"ports":{"lower_tor":"enp59s0f1.3219","nic":"muxy-vms17-8-1","upper_tor":"enp59s0f1.3217"},` +
		`"standby_port":"enp59s0f1.3219","standby_side":"lower_tor","vm_set":"vms17-8"}`
)

// onLower turns the status of a mux with the upper ToR active into the one after its first toggle.
func onLower(mux string) string {
	up, low := "enp59s0f1.3216", "enp59s0f1.3218"
	if strings.Contains(mux, "muxy-vms17-8-1") {
		up, low = "enp59s0f1.3217", "enp59s0f1.3219"
	}
	return strings.NewReplacer(
		`"active_port":"`+up, `"active_port":"`+low, `"active_side":"upper_tor"`, `"active_side":"lower_tor"`,
		`"flap_counter":0`, `"flap_counter":1`, `"flows":{"`+up, `"flows":{"`+low,
		`"standby_port":"`+low, `"standby_port":"`+up, `"standby_side":"lower_tor"`, `"standby_side":"upper_tor"`,
	).Replace(mux)
}

// The success answers, byte for byte, in the order of a session: each step starts from the state that the last one left.
func TestSuccessAnswers(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	low0 := onLower(mux0)
	nicDropped := strings.NewReplacer(`[{"action":"output","out_port":"muxy-vms17-8-0"}]`, `[]`, `"healthy":true`, `"healthy":false`, `"dropped":[]`, `"dropped":["nic"]`).Replace(low0)
	upperDropped := strings.NewReplacer(`{"action":"output","out_port":"enp59s0f1.3216"},`, ``, `"healthy":true`, `"healthy":false`, `"dropped":[]`, `"dropped":["upper_tor"]`).Replace(low0)
	all := func(zero, one string) string { return `{"mbr-vms17-8-0":` + zero + `,"mbr-vms17-8-1":` + one + `}` }

	for _, step := range []struct {
		method, path, body string
		want               string
	}{
		{"GET", "/mux/vms17-8/0", "", mux0},
		{"GET", "/mux/vms17-8", "", all(mux0, mux1)},
		{"GET", "/mux/vms17-8/000?reqId=1", "", mux0},
		{"POST", "/mux/vms17-8/0", `{"active_side":"upper_tor"}`, mux0},
		{"POST", "/mux/vms17-8/0?reqId=5d1f", `{"active_side":"lower_tor"}`, low0},
		{"POST", "/mux/vms17-8/0", `{"active_side":"toggle","active_side":"lower_tor","x":1}`, low0},
		{"POST", "/mux/vms17-8/0/drop", `{"out_sides":["nic"]}`, nicDropped},
		{"POST", "/mux/vms17-8/0/drop", `{"out_sides":[]}`, nicDropped},
		{"POST", "/mux/vms17-8/0/output", `{"out_sides":["nic","upper_tor","lower_tor"]}`, low0},
		{"POST", "/mux/vms17-8/0/drop", `{"out_sides":["upper_tor"]}`, upperDropped},
		{"POST", "/mux/vms17-8/0/reset", "", low0},
		{"POST", "/mux/vms17-8/drop", `{"out_sides":["upper_tor"]}`, all(upperDropped, strings.NewReplacer(`{"action":"output","out_port":"enp59s0f1.3217"},`, ``, `"healthy":true`, `"healthy":false`, `"dropped":[]`, `"dropped":["upper_tor"]`).Replace(mux1))},
		{"POST", "/mux/vms17-8/output", `{"out_sides":["upper_tor"]}`, all(low0, mux1)},
		{"POST", "/mux/vms17-8/reset", "", all(low0, mux1)},
		{"GET", "/mux/vms17-8/0/flap_counter", "", `{"mbr-vms17-8-0":1}`},
		{"GET", "/mux/vms17-8/flap_counter", "", `{"mbr-vms17-8-0":1,"mbr-vms17-8-1":0}`},
		{"POST", "/mux/vms17-8/clear_flap_counter", `{"port_to_clear":"0"}`, `{"mbr-vms17-8-0":0}`},
		{"POST", "/mux/vms17-8", `{"active_side":"toggle"}`, all(strings.Replace(mux0, `"flap_counter":0`, `"flap_counter":1`, 1), onLower(mux1))},
		{"POST", "/mux/vms17-8/clear_flap_counter", `{"port_to_clear":"0|1|1"}`, `{"mbr-vms17-8-0":0,"mbr-vms17-8-1":0}`},
		{"POST", "/mux/vms17-8/clear_flap_counter", `{"port_to_clear":"all"}`, `{"mbr-vms17-8-0":0,"mbr-vms17-8-1":0}`},
		{"PATCH", "/mux/vms17-8", `{"ports":{"1":{"active_side":"upper_tor"}}}`, `{"mbr-vms17-8-1":` + strings.Replace(mux1, `"flap_counter":0`, `"flap_counter":1`, 1) + `}`},
		{"PATCH", "/mux/vms17-8", `{"ports":{}}`, `{}`},
		{"PATCH", "/mux/vms17-8", `{"ports":{"0":{"active_side":"lower_tor","dropped":["nic"]}}}`, `{"mbr-vms17-8-0":` + nicDropped + `}`},
		{"PATCH", "/mux/vms17-8", `{"ports":{"0":{"dropped":[]}}}`, `{"mbr-vms17-8-0":` + low0 + `}`},
		{"PATCH", "/mux/vms17-8", `{"ports":{"0":{}}}`, `{"mbr-vms17-8-0":` + low0 + `}`},
		{"POST", "/mux/vms17-8/reload", "", all(low0, strings.Replace(mux1, `"flap_counter":0`, `"flap_counter":1`, 1))},
		{"POST", "/mux/vms17-8/log", `{"message":"test_x"}`, `{"success":true}`},
		{"POST", "/mux/vms17-8/log", `{"message":null}`, `{"success":true}`},
		{"GET", "/mux", "", `{"vm_sets":{"vms17-8":{"muxes":2,"ready":true,"rejected":[]}}}`},
		{"GET", "/readyz", "", `{"ready":true}`},
	} {
		got := call(t, step.method, a.URL+step.path, step.body)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s: %d, Content-Type %q", step.method, step.path, step.body, got.status, got.header.Get("Content-Type"))
		}
		if diff := cmp.Diff(step.want+"\n", got.body); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", step.method, step.path, step.body, diff)
		}
	}
}

func TestNoMux(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(0))
	for _, got := range []answer{
		call(t, "GET", a.URL+"/mux/vms17-8", ""),
		call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"toggle"}`),
		call(t, "POST", a.URL+"/mux/vms17-8/reset", ""),
	} {
		if got.status != http.StatusOK || got.body != "{}\n" {
			t.Errorf("got %d %q, want 200 and {}", got.status, got.body)
		}
	}
}

func TestErrorAnswers(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	const (
		notFound   = "<NotFound '404: Not Found'> 404 Not Found: "
		badRequest = "<BadRequest '400: Bad Request'> 400 Bad Request: "
		spelling   = notFound + "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again."
		notAllowed = "<MethodNotAllowed '405: Method Not Allowed'> 405 Method Not Allowed: The method is not allowed for the requested URL."
		mediaType  = "<UnsupportedMediaType '415: Unsupported Media Type'> 415 Unsupported Media Type: Did not attempt to load JSON data because the request Content-Type was not 'application/json'."
		noJSON     = badRequest + "The browser (or proxy) sent a request that this server could not understand."
		action     = ` msg=Expected url "/mux/<vm_set>/<port_index>/<action>", action must be "output", "drop", or "reset".`
		badSide    = ` msg=Bad posted data, expected: {"active_side": "upper_tor|lower_tor|toggle|random"}`
	)
	about := func(method, path string) string {
		return "remote_addr=127.0.0.1 method=" + method + " url=" + a.URL + path
	}
	tests := []struct {
		method, path, body, contentType string
		status                          int
		code, want                      string
	}{
		{"GET", "/mux/nope", "", "", 404, api.CodeUnknownVMSet, notFound + `Unknown vm_set "nope"`},
		{"POST", "/mux/nope/7", "{", "", 404, api.CodeUnknownVMSet, notFound + `Unknown vm_set "nope"`},
		{"GET", "/mux/vms17-8/7", "", "", 404, api.CodeUnknownPort, notFound + "Unknown bridge, vm_set=vms17-8, port_index=7"},
		{"GET", "/mux/vms17-8/007", "", "", 404, api.CodeUnknownPort, notFound + "Unknown bridge, vm_set=vms17-8, port_index=7"},
		{"GET", "/mux/vms17-8/99999999999999999999", "", "", 404, api.CodeUnknownPort, notFound + "Unknown bridge, vm_set=vms17-8, port_index=99999999999999999999"},
		{"POST", "/mux/vms17-8/7", `{`, "", 404, api.CodeUnknownPort, notFound + "Unknown bridge, vm_set=vms17-8, port_index=7"},
		{"POST", "/mux/vms17-8/7/reset", "", "", 404, api.CodeNotFound, notFound + about("POST", "/mux/vms17-8/7/reset") + action},
		{"POST", "/mux/vms17-8/0/DROP", "", "", 404, api.CodeNotFound, notFound + about("POST", "/mux/vms17-8/0/DROP") + action},
		{"POST", "/mux/vms17-8/0/flap_counter", "", "", 404, api.CodeNotFound, notFound + about("POST", "/mux/vms17-8/0/flap_counter") + action},
		{"GET", "/nowhere", "", "", 404, api.CodeNotFound, spelling},
		{"GET", "/mux/vms17-8/", "", "", 404, api.CodeNotFound, spelling},
		{"GET", "/mux/vms17-8/-1", "", "", 404, api.CodeNotFound, spelling},
		{"GET", "/mux/vms17-8/1.0", "", "", 404, api.CodeNotFound, spelling},
		{"POST", "/mux/vms17-8/0/drop/", "", "", 404, api.CodeNotFound, spelling},
		{"DELETE", "/mux/vms17-8/0", "", "", 405, api.CodeMethodNotAllowed, notAllowed},
		{"GET", "/mux/vms17-8/0/drop", "", "", 405, api.CodeMethodNotAllowed, notAllowed},
		{"GET", "/mux/nope/0/bogus", "", "", 405, api.CodeMethodNotAllowed, notAllowed},
		{"GET", "/mux/vms17-8/reset", "", "", 405, api.CodeMethodNotAllowed, notAllowed},
		{"POST", "/mux/vms17-8/0", `{"active_side":"toggle"}`, "text/plain", 415, api.CodeMediaType, mediaType},
		{"POST", "/mux/vms17-8/0", "", "", 415, api.CodeMediaType, mediaType},
		{"POST", "/mux/vms17-8/0", "", "application/json", 400, api.CodeBadRequest, noJSON},
		{"POST", "/mux/vms17-8/0", `{"active_side":`, "", 400, api.CodeBadRequest, noJSON},
		{"POST", "/mux/vms17-8/0", "{\"active_side\":\"\xff\"}", "", 400, api.CodeBadRequest, noJSON},
		{"POST", "/mux/vms17-8/0", `{}`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/0") + " data={}" + badSide},
		{"POST", "/mux/vms17-8/0?reqId=1", `{"active_side":"UPPER_TOR"}`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/0?reqId=1") + ` data={"active_side":"UPPER_TOR"}` + badSide},
		{"POST", "/mux/vms17-8", `{"active_side":null}`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8") + ` data={"active_side":null}` + badSide},
		{"POST", "/mux/vms17-8/0", `5`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/0") + " data=5" + badSide},
		{"POST", "/mux/vms17-8/0", `["active_side"]`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/0") + ` data=["active_side"]` + badSide},
		{"POST", "/mux/vms17-8/0/drop", `{"out_sides":["nic","tor"]}`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/0/drop") + ` data={"out_sides":["nic","tor"]} msg=Invalid posted data: {"out_sides":["nic","tor"]}, expected: {"out_sides": ["nic|upper_tor|lower_tor", ...]}`},
		{"POST", "/mux/vms17-8/clear_flap_counter", `{"port_to_clear":"0,"}`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/clear_flap_counter") + ` data={"port_to_clear":"0,"} msg=Invalid posted data: {"port_to_clear":"0,"}, expected: {"port_to_clear": "0|1|2..."} or {"port_to_clear": "all"}`},
		{"POST", "/mux/vms17-8/clear_flap_counter", `{"port_to_clear":"0|7"}`, "", 404, api.CodeUnknownPort, notFound + "Unknown bridge, vm_set=vms17-8, port_index=7"},
		{"GET", "/mux/vms17-8/7/flap_counter", "", "", 404, api.CodeUnknownPort, notFound + "Unknown bridge, vm_set=vms17-8, port_index=7"},
		{"POST", "/mux/vms17-8/log", `{"msg":1}`, "", 400, api.CodeBadRequest, badRequest + about("POST", "/mux/vms17-8/log") + ` data={"msg":1} msg=Expect key "message" in posted json`},
		{"POST", "/mux/vms17-8/0", `{"active_side":"` + strings.Repeat("x", 70_000) + `"}`, "", 413, api.CodeTooLarge, "<RequestEntityTooLarge '413: Request Entity Too Large'> 413 Request Entity Too Large: The data value transmitted exceeds the capacity limit (65536 bytes)."},
	}
	for _, tt := range tests {
		var header []string
		if tt.contentType != "" {
			header = []string{"Content-Type: " + tt.contentType}
		}
		got := call(t, tt.method, a.URL+tt.path, tt.body, header...)
		if got.status != tt.status || got.header.Get(api.ErrorCodeHeader) != tt.code {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, got.status, got.header.Get(api.ErrorCodeHeader), tt.status, tt.code)
		}
		if diff := cmp.Diff(jsonObject("err_msg", tt.want), got.body); diff != "" {
			t.Errorf("%s %s %.60s (-want +got):\n%s", tt.method, tt.path, tt.body, diff)
		}
		if tt.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", tt.method, tt.path)
		}
	}
	if got := call(t, "GET", a.URL+"/mux/vms17-8", ""); strings.Contains(got.body, "lower_tor\",\"bridge") || strings.Contains(got.body, `"flap_counter":1`) {
		t.Errorf("a refused request has changed something: %s", got.body)
	}
}

func jsonObject(key, text string) string {
	return `{"` + key + `":"` + strings.ReplaceAll(text, `"`, `\"`) + "\"}\n"
}

func TestMethodsThatEveryPathHas(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	if got := call(t, "HEAD", a.URL+"/mux/vms17-8/0", ""); got.status != 200 || got.body != "" || got.header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %+v", got)
	}
	if got := call(t, "OPTIONS", a.URL+"/mux/vms17-8/0", ""); got.status != 200 || got.body != "" || got.header.Get("Allow") != "GET, HEAD, OPTIONS, POST" {
		t.Errorf("OPTIONS: %+v", got)
	}
	if got := call(t, "GET", a.URL+"//mux//vms17-8///0?x=1", ""); got.status != 308 || got.header.Get("Location") != "/mux/vms17-8/0?x=1" {
		t.Errorf("empty segments: %+v", got)
	}
}

func TestPartialFailure(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	const refused = "set flows on mbr-vms17-8-1: OFPFMFC_TABLE_FULL"
	failed := `"failed":{"mbr-vms17-8-1":{"code":"switch_error","err_msg":"` + refused + `","retryable":false}},"muxes":{"mbr-vms17-8-0":{"active_port":"enp59s0f1.3219"`
	for path, req := range map[string][2]string{
		"POST":  {"POST", `{"active_side":"lower_tor"}`},
		"PATCH": {"PATCH", `{"ports":{"0":{"active_side":"lower_tor"},"1":{"active_side":"lower_tor"},"2":{"active_side":"lower_tor"}}}`},
	} {
		a.FailNext(1, "OFPFMFC_TABLE_FULL")
		got := call(t, req[0], a.URL+"/mux/vms17-8", req[1])
		if got.status != 500 || got.header.Get(api.ErrorCodeHeader) != api.CodePartial {
			t.Errorf("%s: %d %s", path, got.status, got.header.Get(api.ErrorCodeHeader))
		}
		want := `{"err_msg":"1 of 3 muxes failed, the others are done: mbr-vms17-8-1: ` + refused + `",` + failed
		if !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: %s\nwant %s…", path, got.body, want)
		}
	}
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	got := call(t, "POST", a.URL+"/mux/vms17-8/1", `{"active_side":"toggle"}`)
	if got.status != 500 || got.body != `{"err_msg":"`+refused+`","failed":{"mbr-vms17-8-1":{"code":"switch_error","err_msg":"`+refused+`","retryable":false}}}`+"\n" || got.header.Get(api.ErrorCodeHeader) != api.CodeSwitch {
		t.Errorf("one port: %+v", got)
	}
	if got := call(t, "GET", a.URL+"/mux/vms17-8/1", ""); !strings.Contains(got.body, `"active_side":"upper_tor"`) {
		t.Errorf("a refused change was shown as done: %s", got.body)
	}
}

func TestABadPatchChangesNothing(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	for body, want := range map[string]string{
		`{"ports":{"0":{"active_side":"lower_tor"},"1":{"active_side":"toggle"}}}`: `Bad patch: port 1: unknown side \"toggle\"`,
		`{"ports":{"0":{"active_side":"lower_tor"},"1":{"dropped":["tor"]}}}`:      `Bad patch: port 1: dropped: unknown port \"tor\"`,
		`{"ports":{"0":{"active_side":"lower_tor"},"7":{}}}`:                       `Unknown bridge, vm_set=vms17-8, port_index=7`,
		`{"ports":{"0":{"active_side":"lower_tor"},"01":{}}}`:                      `\"01\" is not a port index`,
		`{"ports":{"0":{"active_side":"lower_tor","activeside":"x"}}}`:             `port 0: unknown field \"activeside\"`,
		`{"PORTS":{"0":{"active_side":"lower_tor"}}}`:                              `Bad patch: no ports`,
		`{"ports":{"0":{"ACTIVE_SIDE":"lower_tor"}}}`:                              `unknown field \"ACTIVE_SIDE\"`,
		`{"ports":{"0":{"active_side":"lower_tor"}},"x":1}`:                        `unknown field \"x\"`,
		`{"ports":{"0":{"active_side":null}}}`:                                     `port 0: unknown side`,
		`{"ports":{"0":{"dropped":null}}}`:                                         `port 0: dropped: it is not a list of strings`,
		`{"ports":{"0":{"dropped":"nic"}}}`:                                        `port 0: dropped: it is not a list of strings`,
		`{"ports":{"0":{"active_side":7}}}`:                                        `Bad patch`,
		`{"ports":{"0":null}}`:                                                     `port 0 is null`,
		`{"ports":null}`:                                                           `no ports`,
		`{"ports":{"0":{"active_side":"lower_tor"}},"":1}`:                         `unknown field \"\"`,
		`{"ports":{"0":{"active_side":"upper_tor","active_side":"lower_tor"}}}`:    `\"active_side\" is there twice`,
		`{"ports":{"0":{"dropped":[]},"1":{},"0":{"active_side":"lower_tor"}}}`:    `\"0\" is there twice`,
		`{"ports":{},"ports":{"0":{"active_side":"lower_tor"}}}`:                   `\"ports\" is there twice`,
		`{"ports":{},"p\u006frts":{"0":{"active_side":"lower_tor"}}}`:              `\"ports\" is there twice`,
		`[]`: `Bad patch`,
	} {
		got := call(t, "PATCH", a.URL+"/mux/vms17-8", body)
		if got.status != 400 && got.status != 404 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s, want %s", body, got.status, got.body, want)
		}
	}
	if got := call(t, "GET", a.URL+"/mux/vms17-8/0", ""); got.body != mux0+"\n" {
		t.Errorf("a refused patch has changed port 0: %s", got.body)
	}
}

// A change of all ports names some of the bridges that it leaves out; what changes none of them, or names its ports, doesn't.
func TestChangesOfAllNameWhatTheyLeaveOut(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	for port := 11; port < 18; port++ {
		a.AddBridge(port, fmt.Sprintf("muxy-vms17-8-%d", port))
	}
	url := a.URL + "/mux/vms17-8"
	const named = "mbr-vms17-8-11, mbr-vms17-8-12, mbr-vms17-8-13, mbr-vms17-8-14, mbr-vms17-8-15, and 2 more"
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "", `{"active_side":"toggle"}`, named},
		{"POST", "/drop", `{"out_sides":["nic"]}`, named},
		{"POST", "/output", `{"out_sides":["nic"]}`, named},
		{"POST", "/reset", "", named},
		{"GET", "", "", ""},
		{"POST", "/reload", "", ""},
		{"PATCH", "", `{"ports":{"0":{"active_side":"upper_tor"}}}`, ""},
		{"POST", "/0", `{"active_side":"toggle"}`, ""},
		{"GET", "/history", "", ""},
	} {
		got := call(t, c.method, url+c.path, c.body)
		if header := got.header.Get(api.RejectedHeader); got.status != 200 || header != c.want {
			t.Errorf("%s %s: %d, %q; want %q", c.method, c.path, got.status, header, c.want)
		}
	}
}

func TestRejectedBridgeIsListedWithItsReason(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	a.AddBridge(4, "muxy-vms17-8-4", "enp1")
	got := call(t, "GET", a.URL+"/mux", "")
	want := `{"vm_sets":{"vms17-8":{"muxes":1,"ready":true,"rejected":[{"bridge":"mbr-vms17-8-4","code":"ports","port_index":4,"reason":"it has 2 ports (enp1, muxy-vms17-8-4), a mux has 3"}]}}}` + "\n"
	if got.body != want {
		t.Errorf("GET /mux: %s\nwant %s", got.body, want)
	}
	got = call(t, "GET", a.URL+"/mux/vms17-8/4", "")
	if got.status != 404 || got.header.Get(api.ErrorCodeHeader) != api.CodeRejectedMux || !strings.Contains(got.body, "it has 2 ports") {
		t.Errorf("GET of its port: %+v", got)
	}
}

func TestNotReady(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	a.Stop()
	resume := a.Stall()
	a.ResumeUnready()
	for _, path := range []string{"/mux/vms17-8", "/mux/vms17-8/0", "/mux/vms17-8/flap_counter", "/readyz"} {
		got := call(t, "GET", a.URL+path, "")
		if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "vms17-8") {
			t.Errorf("%s: %+v, want 503 with Retry-After and the reason", path, got)
		}
	}
	if got := call(t, "GET", a.URL+"/mux/nope", ""); got.status != 404 {
		t.Errorf("another vm_set: %d, want 404", got.status)
	}
	if got := call(t, "GET", a.URL+"/healthz", ""); got.status != 200 {
		t.Errorf("/healthz: %d, want 200", got.status)
	}
	resume()
}

func TestNamesThatAreNotASCIIAreEscaped(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(0))
	a.AddBridge(0, "muxy-ü", "p<&>", "q\U0001F600\u007f")
	a.WaitServed(0)
	got := call(t, "GET", a.URL+"/mux/vms17-8/0", "")
	if want := `"ports":{"lower_tor":"q\ud83d\ude00\u007f","nic":"muxy-\u00fc","upper_tor":"p<&>"}`; !strings.Contains(got.body, want) {
		t.Errorf("got %s, want %s", got.body, want)
	}
}

func TestReloadOfASwitchThatHangs(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	resume := a.Stall()
	got := call(t, "POST", a.URL+"/mux/vms17-8/reload", "")
	resume()
	if got.status != 500 || got.header.Get(api.ErrorCodeHeader) != api.CodeSwitch || !strings.Contains(got.body, "the switch does not answer") {
		t.Errorf("reload: %+v, want the reason", got)
	}
	if got := call(t, "GET", a.URL+"/mux/vms17-8/0", ""); got.status != 200 || got.body != strings.ReplaceAll(mux0, "enp59s0f1.3218", "enp59s0f1.3217")+"\n" {
		t.Errorf("afterwards: %+v, want port 0 as it was", got)
	}
}
