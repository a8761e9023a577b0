package httpapi_test

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

func loadOpenAPI(t *testing.T, text []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// pattern is what a variable of a route matches, which OpenAPI says elsewhere.
var pattern = regexp.MustCompile(`\{([a-z_]+):[^}]*\}`)

// The document lists every route with its methods, and no route that there is not.
func TestOpenAPIIsTheRouter(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	served := call(t, "GET", a.URL+api.PathOpenAPI, "")
	if served.status != 200 || served.body != string(api.OpenAPI) {
		t.Fatalf("served: %d, %d bytes", served.status, len(served.body))
	}
	doc := loadOpenAPI(t, []byte(served.body))

	var documented []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	var routed []string
	for path, methods := range httpapi.Routes() {
		for _, method := range methods {
			for _, action := range []string{"output", "drop"} {
				p := strings.Replace(path, "{action:output|drop}", action, 1)
				routed = append(routed, method+" "+pattern.ReplaceAllString(p, "{$1}"))
			}
		}
	}
	// A POST to the first two is an unknown action, and answered so. The last two are the page, for people.
	undocumented := []string{
		"POST /mux/{vm_set}/{port}/flap_counter", "POST /mux/{vm_set}/{port}/history", "GET /", "GET /assets/{asset}",
	}
	slices.Sort(documented)
	slices.Sort(routed)
	for _, r := range slices.Compact(routed) {
		if !slices.Contains(documented, r) && !slices.Contains(undocumented, r) {
			t.Errorf("%s is served and not documented", r)
		}
	}
	for _, d := range documented {
		if !slices.Contains(routed, d) {
			t.Errorf("%s is documented and not served", d)
		}
	}
}

// Real answers fit the schemas.
func TestAnswersFitTheirSchemas(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(2))
	doc := loadOpenAPI(t, api.OpenAPI)
	a.FailNext(1, "OFPFMFC_TABLE_FULL")
	for _, c := range []struct{ method, path, route, body string }{
		{"GET", "/readyz", "/readyz", ""},
		{"GET", "/version", "/version", ""},
		{"GET", "/mux", "/mux", ""},
		{"POST", "/mux/vms17-8", "/mux/{vm_set}", `{"active_side":"toggle"}`}, // port 1 fails
		{"GET", "/mux/vms17-8", "/mux/{vm_set}", ""},
		{"PATCH", "/mux/vms17-8", "/mux/{vm_set}", `{"ports":{"0":{"dropped":["nic"]}}}`},
		{"PATCH", "/mux/vms17-8", "/mux/{vm_set}", `{"ports":{"0":1}}`},
		{"GET", "/mux/vms17-8/0", "/mux/{vm_set}/{port}", ""},
		{"GET", "/mux/vms17-8/0?active_side=upper_tor&wait=0s", "/mux/{vm_set}/{port}", ""},
		{"GET", "/mux/vms17-8/9", "/mux/{vm_set}/{port}", ""},
		{"POST", "/mux/vms17-8/0/reset", "/mux/{vm_set}/{port}/{action}", ""},
		{"GET", "/mux/vms17-8/0/history", "/mux/{vm_set}/{port}/history", ""},
		{"GET", "/mux/vms17-8/history", "/mux/{vm_set}/history", ""},
		{"GET", "/mux/vms17-8/flap_counter", "/mux/{vm_set}/flap_counter", ""},
		{"POST", "/mux/vms17-8/log", "/mux/{vm_set}/log", `{"message":"x"}`},
	} {
		got := call(t, c.method, a.URL+c.path, c.body)
		op := doc.Paths.Value(c.route).GetOperation(c.method)
		response := op.Responses.Status(got.status)
		if response == nil {
			response = op.Responses.Default()
		}
		if response == nil {
			t.Errorf("%s %s: status %d is not documented", c.method, c.path, got.status)
			continue
		}
		schema := response.Value.Content.Get("application/json").Schema.Value
		if err := schema.VisitJSON(decodeJSON(t, got.body), openapi3.EnableFormatValidation()); err != nil {
			t.Errorf("%s %s: %d %s\n%v", c.method, c.path, got.status, got.body, err)
		}
	}
}

func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}
