package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// faulty returns the conditions that make a port unhealthy. A code that this version doesn't know is one of them where the
// port is unhealthy.
func faulty(s api.Status) []api.Condition {
	var all []api.Condition
	for _, c := range s.Conditions {
		if kind, ok := api.ConditionKindOf(c.Code); kind.Unhealthy || !ok && !s.Healthy {
			all = append(all, c)
		}
	}
	return all
}

// heals reports whether a write makes an unhealthy port healthy.
func heals(s api.Status) bool {
	bad := faulty(s)
	return len(bad) > 0 && !slices.ContainsFunc(bad, func(c api.Condition) bool {
		kind, _ := api.ConditionKindOf(c.Code)
		return !kind.WriteHeals
	})
}

// settled reports whether a port is as it was asked to be, and where it was to be mended, whether another write would mend no
// more of it.
func settled(got api.Status, want api.Desired, mends bool) bool {
	return satisfies(got, want) && (!mends || !heals(got))
}

// complaint says what should be known of a port beside its side and its requested drops, "" for nothing. A service that has
// no conditions says at most that a port is unhealthy; drops, which explain that, are then no complaint. The words can be
// printed.
func complaint(s api.Status) string {
	var words []string
	for _, c := range s.Conditions {
		text := c.Reason + " (" + c.Code + ")"
		if c.Cure != "" {
			text += ". What helps: " + c.Cure
		}
		words = append(words, text)
	}
	switch {
	case words != nil:
		return api.Printable(strings.Join(words, "; "))
	case s.Reason != "":
		return api.Printable(s.Reason)
	case !s.Healthy && len(droppedSides(s)) == 0:
		return "unhealthy, and the service doesn't say why"
	}
	return ""
}

// maxNamed is how many ports a warning describes one by one.
const maxNamed = 10

// unwell warns of the ports of a vm_set that something should be known of. Those that the plan heals are left out where
// corrects is true.
func unwell(vmSet string, all map[int]api.Status, corrects bool) diag.Diagnostic {
	var lines []string
	more := 0
	for _, port := range slices.Sorted(maps.Keys(all)) {
		words := complaint(all[port])
		switch {
		case words == "" || corrects && heals(all[port]):
		case len(lines) == maxNamed:
			more++
		default:
			lines = append(lines, fmt.Sprintf("port %d: %s", port, words))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	why := "Setting such a port again doesn't mend it, so Terraform plans nothing for it."
	if !corrects {
		why = "Under drift_policy = \"ignore\" Terraform plans nothing for it."
	}
	return diag.NewWarningDiagnostic("Ports of "+vmSet+" are not as they should be", strings.Join(lines, "\n")+"\n\n"+why)
}
