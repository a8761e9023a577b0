package provider_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

func TestEnvironment(t *testing.T) {
	a := agenttest.Start(t)
	t.Setenv("MUX_ENDPOINT", a.URL)
	t.Setenv("MUX_VM_SET", a.VMSet)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: port(3, onLower),
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 3, "lower_tor", 1),
			resource.TestCheckResourceAttr("mux_port.p", "vm_set", a.VMSet),
		),
	}}})
}

func TestConfigurationWinsOverTheEnvironment(t *testing.T) {
	a := agenttest.Start(t)
	t.Setenv("MUX_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("MUX_VM_SET", "vms99-1")
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onLower),
		Check:  agentHas(t, a, 3, "lower_tor", 1),
	}}})
}

func TestBadEnvironment(t *testing.T) {
	t.Setenv("MUX_ENDPOINT", "10.0.0.64:8080")
	t.Setenv("MUX_VM_SET", "not a vm_set")
	apply(t, resource.TestCase{Steps: []resource.TestStep{
		{Config: port(3, onLower), PlanOnly: true, ExpectError: words(`Bad environment variable MUX_ENDPOINT`)},
		{Config: port(3, onLower), PlanOnly: true, ExpectError: words(`Bad environment variable MUX_VM_SET`)},
	}})
}

// A plan must work while nothing listens, and while what the endpoint is taken from does not exist yet.
func TestPlanNeedsNoAgent(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:             settingsFor("http://127.0.0.1:1", "vms17-8") + port(3, onLower),
		PlanOnly:           true,
		ExpectNonEmptyPlan: true,
	}, {
		Config: fmt.Sprintf(`
resource "terraform_data" "server" { input = { url = %q, vm_set = %q } }
provider "mux" {
  endpoint = terraform_data.server.output.url
  vm_set   = terraform_data.server.output.vm_set
}
`, a.URL, a.VMSet) + port(3, onLower),
		ConfigPlanChecks: planIs(plancheck.ResourceActionCreate),
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 3, "lower_tor", 1),
			resource.TestCheckResourceAttr("mux_port.p", "vm_set", a.VMSet),
		),
	}}})
}

func TestInvalidConfiguration(t *testing.T) {
	with := func(defaults, more attrs) attrs {
		all := maps.Clone(defaults)
		maps.Copy(all, more)
		return all
	}
	agent := attrs{"endpoint": "http://127.0.0.1:1", "vm_set": "vms17-8"}
	port := attrs{"port_index": 3, "active_side": "lower_tor"}
	retry := func(shortest, longest any) attrs {
		object := tftypes.Object{AttributeTypes: map[string]tftypes.Type{
			"max_elapsed": tftypes.String, "min_delay": tftypes.String, "max_delay": tftypes.String,
		}}
		return attrs{"retry": tftypes.NewValue(object, map[string]tftypes.Value{
			"max_elapsed": tftypes.NewValue(tftypes.String, nil),
			"min_delay":   tftypes.NewValue(tftypes.String, shortest),
			"max_delay":   tftypes.NewValue(tftypes.String, longest),
		})}
	}
	for name, tc := range map[string]struct {
		provider, port attrs
		says           string // "" when nothing is wrong
	}{
		"right":                {agent, port, ""},
		"nothing but the port": {attrs{}, with(agent, port), ""},
		"all settings": {
			with(agent, with(retry("1s", "2s"), attrs{"request_timeout": "1m30s", "max_concurrent_requests": 1, "drift_policy": "ignore"})),
			with(port, attrs{"dropped": []string{"nic", "upper_tor", "lower_tor"}, "drift_policy": "correct", "on_destroy": "keep"}), "",
		},
		"a verb as side":            {agent, with(port, attrs{"active_side": "toggle"}), `value must be one of: ["upper_tor" "lower_tor"], got: "toggle"`},
		"side in capitals":          {agent, with(port, attrs{"active_side": "Upper_ToR"}), "value must be one of"},
		"negative port":             {agent, with(port, attrs{"port_index": -1}), "value must be at least 0"},
		"unknown drop":              {agent, with(port, attrs{"dropped": []string{"nic", "server"}}), `got: "server"`},
		"unknown policy":            {agent, with(port, attrs{"drift_policy": "heal"}), `["correct" "ignore"], got: "heal"`},
		"unknown on_destroy":        {agent, with(port, attrs{"on_destroy": "reset"}), `["keep" "restore"], got: "reset"`},
		"vm_set with a slash":       {agent, with(port, attrs{"vm_set": "vms17-8/3"}), `such as "vms17-8"`},
		"endpoint with a path":      {agent, with(port, attrs{"endpoint": "http://h:8080/mux"}), `such as "http://10.0.0.64:8080"`},
		"endpoint without a scheme": {with(agent, attrs{"endpoint": "10.0.0.64:8080"}), port, "it has no scheme"},
		"empty vm_set":              {with(agent, attrs{"vm_set": ""}), port, `such as "vms17-8"`},
		"no endpoint":               {attrs{"vm_set": "vms17-8"}, port, "Nothing says which agent serves this resource"},
		"no vm_set":                 {attrs{"endpoint": "http://127.0.0.1:1"}, port, "Nothing says to which testbed this belongs"},
		"timeout without a unit":    {with(agent, attrs{"request_timeout": "10"}), port, "must be a positive duration"},
		"no time at all":            {with(agent, attrs{"request_timeout": "0s"}), port, "must be a positive duration"},
		"negative delay":            {with(agent, retry("-1s", nil)), port, "must be a positive duration"},
		"no time for a create":      {agent, with(port, attrs{"timeouts": timeoutsOf("0s")}), "must be a positive duration"},
		"less than no time":         {agent, with(port, attrs{"timeouts": timeoutsOf("-2s")}), "must be a positive duration"},
		"a create without a unit":   {agent, with(port, attrs{"timeouts": timeoutsOf("5")}), "must be a positive duration"},
		"time for a create":         {agent, with(port, attrs{"timeouts": timeoutsOf("1m30s")}), ""},
		"token of two words":        {with(agent, attrs{"token": "two words"}), port, "Bad token"},
		"token and a line break":    {with(agent, attrs{"token": "s3cret\n"}), port, ""},
		"delays the wrong way":      {with(agent, retry("10s", "1s")), port, "min_delay is longer than max_delay"},
		"delay above the default":   {with(agent, retry("10s", nil)), port, "min_delay is longer than max_delay"},
		"no requests at all":        {with(agent, attrs{"max_concurrent_requests": 0}), port, "between 1 and 1000"},
		"unknown provider policy":   {with(agent, attrs{"drift_policy": "heal"}), port, `got: "heal"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := validate(t, tc.provider, tc.port)
			if tc.says == "" && got != "" {
				t.Error(got)
			}
			mustSay(t, got, tc.says)
		})
	}
}

// timeoutsOf is a timeouts with a create.
func timeoutsOf(create string) tftypes.Value {
	text := tftypes.String
	null := tftypes.NewValue(text, nil)
	return tftypes.NewValue(tftypes.Object{AttributeTypes: map[string]tftypes.Type{"create": text, "read": text, "update": text, "delete": text}},
		map[string]tftypes.Value{"create": tftypes.NewValue(text, create), "read": null, "update": null, "delete": null})
}

func TestInvalidConfigurationStopsThePlan(t *testing.T) {
	t.Parallel()
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:      settingsFor("http://127.0.0.1:1", "vms17-8") + port(3, `active_side = "toggle"`),
		PlanOnly:    true,
		ExpectError: words(`value must be one of: ["upper_tor" "lower_tor"], got: "toggle"`),
	}}})
}
