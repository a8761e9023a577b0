package httpapi_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// The one table of conditions, the OpenAPI document and the documentation say the same, in the same order.
func TestConditionsAreDocumented(t *testing.T) {
	yes := map[bool]string{true: "yes"}
	var codes, rows []string
	for _, k := range api.Conditions() {
		codes = append(codes, k.Code)
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", k.Code, yes[k.Unhealthy], yes[k.WriteHeals], k.Means))
	}
	if !slices.IsSortedFunc(api.Conditions(), func(a, b api.ConditionKind) int {
		return len(yes[b.Unhealthy]) - len(yes[a.Unhealthy])
	}) {
		t.Error("a condition that leaves a mux healthy stands before one that doesn't, and would hide it")
	}
	var documented []string
	for _, code := range loadOpenAPI(t, api.OpenAPI).Components.Schemas["ConditionCode"].Value.Enum {
		documented = append(documented, code.(string))
	}
	if diff := cmp.Diff(codes, documented); diff != "" {
		t.Errorf("codes of openapi.yaml (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile("../../../docs/agent/api.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), strings.Join(rows, "\n")+"\n") {
		t.Errorf("docs/agent/api.md lacks the table\n%s", strings.Join(rows, "\n"))
	}
}
