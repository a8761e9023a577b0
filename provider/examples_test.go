package provider_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// The examples are what the documentation shows: they must plan.
func TestExamples(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		b, err := os.ReadFile("../examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// The tests' own provider has another address than the one that the terraform block names.
	_, settings, ok := strings.Cut(read("provider/provider.tf"), "\n}\n")
	if !ok {
		t.Fatal("examples/provider/provider.tf does not begin with a terraform block")
	}
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:             settings + read("resources/mux_port/resource.tf"),
		PlanOnly:           true,
		ExpectNonEmptyPlan: true,
	}}})
}
