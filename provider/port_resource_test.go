package provider_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

func TestPortLifecycle(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{
		CheckDestroy: agentHas(t, a, 3, "lower_tor", 3, "nic"), // on_destroy is "keep"
		Steps: []resource.TestStep{{
			Config: settings(a) + port(3, onLower),
			Check: resource.ComposeAggregateTestCheckFunc(
				agentHas(t, a, 3, "lower_tor", 1),
				resource.TestCheckResourceAttr("mux_port.p", "vm_set", "vms17-8"),
				resource.TestCheckResourceAttr("mux_port.p", "port_index", "3"),
				resource.TestCheckResourceAttr("mux_port.p", "active_side", "lower_tor"),
				resource.TestCheckNoResourceAttr("mux_port.p", "endpoint"),
				resource.TestCheckNoResourceAttr("mux_port.p", "dropped.#"),
			),
		}, {
			Config:           settings(a) + port(3, onUpper, `dropped = ["lower_tor"]`),
			ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
			Check:            agentHas(t, a, 3, "upper_tor", 2, "lower_tor"),
		}, {
			Config: settings(a) + port(3, onLower, `dropped = ["nic"]`, `timeouts = { update = "1m" }`),
			Check:  agentHas(t, a, 3, "lower_tor", 3, "nic"),
		}},
	})
}

func TestPortThatIsAlreadySoDoesNotFlap(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(0, onUpper, `dropped = []`),
		Check:  agentHas(t, a, 0, "upper_tor", 0),
	}}})
}

func TestAllPortsOfATestbed(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, agenttest.Ports(manyPorts))
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + `
resource "mux_port" "all" {
  count       = 120
  port_index  = count.index
  active_side = count.index % 2 == 0 ? "upper_tor" : "lower_tor"
}`,
		Check: func(s *terraform.State) error {
			for i := range manyPorts {
				side := []string{"upper_tor", "lower_tor"}[i%2]
				if err := agentHas(t, a, i, side, i%2)(s); err != nil {
					return err
				}
			}
			return nil
		},
	}}})
}

func TestAnotherPortIsAReplacement(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	b := agenttest.Start(t, agenttest.VMSet("vms21-1"))
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onLower),
	}, {
		Config:           settings(a) + port(4, onLower),
		ConfigPlanChecks: planIs(plancheck.ResourceActionDestroyBeforeCreate),
		Check:            agentHas(t, a, 4, "lower_tor", 1),
	}, {
		Config: settings(a) + port(4, onLower, `endpoint = "`+a.URL+`"`),
	}, { // the vm_set comes from the provider
		Config:           settings(b) + port(4, onLower, `endpoint = "`+b.URL+`"`),
		ConfigPlanChecks: planIs(plancheck.ResourceActionDestroyBeforeCreate),
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, b, 4, "lower_tor", 1),
			resource.TestCheckResourceAttr("mux_port.p", "vm_set", "vms21-1"),
		),
	}}})
}

func TestManyAgentsByEndpoint(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	b := agenttest.Start(t, agenttest.VMSet("vms21-1"))
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: `provider "mux" {}` + "\n" +
			port(0, onLower, `endpoint = "`+a.URL+`"`, `vm_set = "vms17-8"`) +
			strings.Replace(port(1, onLower, `endpoint = "`+b.URL+`/"`, `vm_set = "vms21-1"`), `"p"`, `"q"`, 1),
		Check: resource.ComposeAggregateTestCheckFunc(agentHas(t, a, 0, "lower_tor", 1), agentHas(t, b, 1, "lower_tor", 1)),
	}}})
}

func TestMovingTheAgent(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	moved := before(t, a, func(http.ResponseWriter, *http.Request) bool { return false })
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onLower),
	}, { // the provider's endpoint is no part of the resource
		Config:           settingsFor(moved, a.VMSet) + port(3, onLower),
		ConfigPlanChecks: planIsEmpty(),
	}, { // the resource's own is changed in place
		Config:           settingsFor(moved, a.VMSet) + port(3, onLower, `endpoint = "`+a.URL+`"`),
		ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
		Check:            agentHas(t, a, 3, "lower_tor", 1),
	}}})
}

func TestDriftIsHealed(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onUpper),
	}, {
		PreConfig:          func() { a.Flip(3) },
		RefreshState:       true,
		ExpectNonEmptyPlan: true,
		Check:              resource.TestCheckResourceAttr("mux_port.p", "active_side", "lower_tor"),
	}, {
		Config:           settings(a) + port(3, onUpper),
		ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
		Check:            agentHas(t, a, 3, "upper_tor", 2),
	}}})
}

func TestDriftIsIgnored(t *testing.T) {
	const ignore = `drift_policy = "ignore"`
	for name, tc := range map[string]struct{ provider, resource string }{
		"by the resource":                      {"", ignore},
		"by the provider":                      {ignore, ""},
		"by the resource against the provider": {`drift_policy = "correct"`, ignore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			config := func(lines ...string) string {
				return settings(a, tc.provider) + port(3, append(lines, tc.resource)...)
			}
			apply(t, resource.TestCase{Steps: []resource.TestStep{{
				Config: config(onUpper, `dropped = []`),
			}, {
				PreConfig: func() {
					a.Flip(3)
					if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, api.NIC); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config(onUpper, `dropped = []`),
				ConfigPlanChecks: planIsEmpty(),
				Check:            agentHas(t, a, 3, "lower_tor", 1, "nic"),
			}, { // an edit of something else writes nothing to the port
				Config:           config(onUpper, `dropped = []`, `timeouts = { read = "1m" }`),
				ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
				Check:            agentHas(t, a, 3, "lower_tor", 1, "nic"),
			}, { // an edit of the drops writes the drops alone
				Config: config(onUpper, `dropped = ["lower_tor"]`),
				Check:  agentHas(t, a, 3, "lower_tor", 1, "lower_tor"),
			}, { // a policy that becomes "correct" writes everything
				Config: settings(a) + port(3, onUpper, `dropped = ["lower_tor"]`, `drift_policy = "correct"`),
				Check:  agentHas(t, a, 3, "upper_tor", 2, "lower_tor"),
			}}})
		})
	}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	drop := func(sides ...string) func() {
		return func() {
			if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, sides...); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(t, resource.TestCase{Steps: []resource.TestStep{{ // not managed: left alone and not shown
		PreConfig: drop(api.UpperToR),
		Config:    settings(a) + port(3, onUpper),
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 3, "upper_tor", 0, "upper_tor"),
			resource.TestCheckNoResourceAttr("mux_port.p", "dropped.#"),
		),
	}, { // managed: the whole set
		Config: settings(a) + port(3, onUpper, `dropped = ["nic", "lower_tor"]`),
		Check:  agentHas(t, a, 3, "upper_tor", 0, "nic", "lower_tor"),
	}, { // drift of drops
		PreConfig:        drop(api.UpperToR),
		Config:           settings(a) + port(3, onUpper, `dropped = ["lower_tor", "nic"]`),
		ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
		Check:            agentHas(t, a, 3, "upper_tor", 0, "nic", "lower_tor"),
	}, { // emptied
		Config: settings(a) + port(3, onUpper, `dropped = []`),
		Check: resource.ComposeAggregateTestCheckFunc(
			agentHas(t, a, 3, "upper_tor", 0),
			resource.TestCheckResourceAttr("mux_port.p", "dropped.#", "0"),
		),
	}, { // a drop is drift now
		PreConfig:        drop(api.NIC),
		Config:           settings(a) + port(3, onUpper, `dropped = []`),
		ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
		Check:            agentHas(t, a, 3, "upper_tor", 0),
	}, { // no longer managed
		Config: settings(a) + port(3, onUpper),
		ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownValue("mux_port.p", tfjsonpath.New("dropped"), knownvalue.Null()),
		},
	}, {
		PreConfig:        drop(api.NIC),
		Config:           settings(a) + port(3, onUpper),
		ConfigPlanChecks: planIsEmpty(),
		Check:            agentHas(t, a, 3, "upper_tor", 0, "nic"),
	}}})
}

func TestRestoreOnDestroy(t *testing.T) {
	const restore = `on_destroy = "restore"`
	for name, steps := range map[string]func(*agenttest.Agent) []resource.TestStep{
		"from the start": func(a *agenttest.Agent) []resource.TestStep {
			return []resource.TestStep{{Config: settings(a) + port(3, onUpper, `dropped = []`, restore)}}
		},
		"turned on later": func(a *agenttest.Agent) []resource.TestStep {
			return []resource.TestStep{
				{Config: settings(a) + port(3, onUpper, `dropped = []`)},
				{Config: settings(a) + port(3, onUpper, `dropped = []`, restore)},
			}
		},
		"after drift": func(a *agenttest.Agent) []resource.TestStep {
			return []resource.TestStep{
				{Config: settings(a, `drift_policy = "ignore"`) + port(3, onUpper, `dropped = []`, restore)},
				{PreConfig: func() { a.Flip(3) }, Config: settings(a, `drift_policy = "ignore"`) + port(3, onUpper, `dropped = ["nic"]`, restore)},
			}
		},
		"replaced by another port": func(a *agenttest.Agent) []resource.TestStep {
			return []resource.TestStep{
				{Config: settings(a) + port(3, onUpper, `dropped = []`, restore)},
				{Config: settings(a) + port(4, onUpper)},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			a.Flip(3)
			if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, api.UpperToR); err != nil {
				t.Fatal(err)
			}
			apply(t, resource.TestCase{Steps: steps(a), CheckDestroy: func(s *terraform.State) error {
				return agentHas(t, a, 3, "lower_tor", look(t, a, 3).FlapCounter, "upper_tor")(s)
			}})
		})
	}
}

// A restore that can't be done keeps the port in the state, so that it is not forgotten. A port that is gone has nothing to
// be put back.
func TestRestoreThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		fault, mend func(*agenttest.Agent)
		says        string
	}{
		"the switch refuses":   {func(a *agenttest.Agent) { a.FailNext(3, "OFPFMFC_TABLE_FULL") }, func(*agenttest.Agent) {}, "OFPFMFC_TABLE_FULL"},
		"the agent is stopped": {(*agenttest.Agent).Stop, (*agenttest.Agent).Resume, "connection refused"},
		"the bridge is gone":   {func(a *agenttest.Agent) { a.RemoveBridge(3) }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			config := impatient(settings(a)) + port(3, onLower, `on_destroy = "restore"`)
			// The fault comes between the refresh of this step's plan and its destroy.
			destroy := resource.TestStep{Config: config, Destroy: true, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				planHook(func() { tc.fault(a) }),
			}}}
			steps := []resource.TestStep{{Config: config}, destroy}
			if tc.says != "" {
				steps[1].ExpectError = regexpOf("The port was not restored", tc.says, "terraform state rm")
				steps = append(steps, resource.TestStep{PreConfig: func() { tc.mend(a) }, Config: config, Destroy: true})
			}
			apply(t, resource.TestCase{Steps: steps, CheckDestroy: func(s *terraform.State) error {
				if tc.says == "" {
					return nil
				}
				return agentHas(t, a, 3, "upper_tor", look(t, a, 3).FlapCounter)(s)
			}})
		})
	}
}

func TestOutsideDeletion(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	config := settings(a) + port(3, onLower)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: config,
	}, {
		PreConfig:          func() { a.RemoveBridge(3) },
		RefreshState:       true,
		ExpectNonEmptyPlan: true, // the port is to be created
	}, {
		Config:      config,
		ExpectError: words("Ports that exist: 0-2, 4-11"),
	}}})
}

func TestPortThatBecomesRejected(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	config := settings(a) + port(3, onLower)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: config,
	}, { // it stays in the state, for it is to be mended, not made anew
		PreConfig: func() {
			a.RemoveBridge(3)
			a.AddBridge(3, "muxy-vms17-8-3", "enp1s0.3")
		},
		Config:      config,
		ExpectError: words("The agent rejects bridge mbr-vms17-8-3 of port 3 of vms17-8"),
	}, {
		PreConfig: func() {
			a.RemoveBridge(3)
			a.AddBridge(3, "muxy-vms17-8-3", "enp1s0.3", "enp1s0.4")
			a.WaitServed(3)
		},
		Config: config,
		Check:  agentHas(t, a, 3, "lower_tor", 1),
	}}})
}

func TestUnknownPort(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:      settings(a) + port(12, onUpper),
		ExpectError: words("vms17-8 has no port 12. Ports that exist: 0-11."),
	}}})
}

func TestUnknownVMSet(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:      settings(a) + port(3, onUpper, `vm_set = "vms99-1"`),
		ExpectError: words("does not serve vms99-1; it serves vms17-8"),
	}}})
}

// An agent that serves another testbed must not make Terraform forget the ports of this one.
func TestVMSetThatIsNoLongerServed(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	b := agenttest.Start(t, agenttest.VMSet("vms21-1"))
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settings(a) + port(3, onLower),
	}, {
		Config:      settingsFor(b.URL, a.VMSet) + port(3, onLower),
		ExpectError: words("The agent serves another vm_set"),
	}, {
		Config:           settings(a) + port(3, onLower),
		ConfigPlanChecks: planIsEmpty(),
	}}})
}

func TestSwitchRefuses(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		PreConfig:   func() { a.FailNext(3, "OFPFMFC_TABLE_FULL") },
		Config:      settings(a) + port(3, onLower),
		ExpectError: regexpOf("The switch refused the change", "OFPFMFC_TABLE_FULL", "Request id: [0-9a-f-]{36}"),
	}, {
		Config:           settings(a) + port(3, onLower),
		ConfigPlanChecks: planIs(plancheck.ResourceActionCreate), // the port was left as it was, so nothing is tainted
		Check:            agentHas(t, a, 3, "lower_tor", 1),
	}, {
		PreConfig:   func() { a.FailNext(3, "OFPFMFC_EPERM") },
		Config:      settings(a) + port(3, onUpper),
		ExpectError: words("OFPFMFC_EPERM"),
	}, {
		Config:           settings(a) + port(3, onUpper),
		ConfigPlanChecks: planIs(plancheck.ResourceActionUpdate),
		Check:            agentHas(t, a, 3, "upper_tor", 2),
	}}})
}

func TestAgentIsDown(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	config := impatient(settings(a)) + port(3, onLower)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		PreConfig:   a.Stop,
		Config:      config,
		ExpectError: regexpOf("Cannot reach the agent", "connection refused", "Attempts: [0-9]+"),
	}, { // nothing was sent, so nothing is tainted
		PreConfig:        a.Resume,
		Config:           config,
		ConfigPlanChecks: planIs(plancheck.ResourceActionCreate),
	}}})
}

func TestWriteThatSurelyDidNothingTaintsNothing(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	var ready atomic.Bool
	endpoint := before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || ready.Load() {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "3600") // capped at the provider's max_delay
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"err_msg":"ovs-vswitchd is away"}`))
		return true
	})
	config := impatient(settingsFor(endpoint, a.VMSet)) + port(3, onLower)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:      config,
		ExpectError: regexpOf("The agent is not ready", "ovs-vswitchd is away", "Attempts: [0-9]{2}"),
	}, {
		PreConfig:        func() { ready.Store(true) },
		Config:           config,
		ConfigPlanChecks: planIs(plancheck.ResourceActionCreate),
		Check:            agentHas(t, a, 3, "lower_tor", 1),
	}}})
}

func TestAgentRestartsInMidApply(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	var once sync.Once
	endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			once.Do(a.Restart)
		}
		return false
	})
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settingsFor(endpoint, a.VMSet) + port(3, onLower),
		Check:  agentHas(t, a, 3, "lower_tor", 1),
	}}})
}

// The answer is lost after the write was done: the retry must not count another flap.
func TestConnectionBreaksAfterTheWrite(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	var once sync.Once
	endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			once.Do(func() {
				a.Flip(3) // as the write does that is lost here
				panic(http.ErrAbortHandler)
			})
		}
		return false
	})
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: settingsFor(endpoint, a.VMSet) + port(3, onLower),
		Check:  agentHas(t, a, 3, "lower_tor", 1),
	}}})
}

func TestHTMLInsteadOfJSON(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	endpoint := before(t, a, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>log in first</html>"))
		return true
	})
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:      settingsFor(endpoint, a.VMSet) + port(3, onLower),
		ExpectError: words("No mux agent at this endpoint"),
	}}})
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	endpoint := before(t, a, func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config:      settingsFor(endpoint, a.VMSet) + port(3, onLower, `timeouts = { create = "100ms" }`),
		ExpectError: words("Time for the operation: 100ms, by the resource's timeouts"),
	}}})
}

// A resource may wait longer than the provider's max_elapsed, for an agent that is restarted meanwhile; others are not kept.
func TestTimeoutsMayBeLonger(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		a := agenttest.Start(t)
		var refused atomic.Int32
		endpoint := before(t, a, func(w http.ResponseWriter, _ *http.Request) bool {
			if refused.Add(1) > 40 { // more than max_elapsed of 50ms allows, since the waits are up to 20ms
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		config := strings.Replace(settingsFor(endpoint, a.VMSet), `"5s"`, `"50ms"`, 1)
		w := newWorkspace(t, config+resource())
		w.fails("apply", "-auto-approve")
		refused.Store(0)
		w.write(config + resource(`timeouts = { create = "5m" }`))
		w.apply()
		if err := agentHas(t, a, 3, "lower_tor", 1)(nil); err != nil {
			t.Error(err)
		}
	})
}

// linkmgrd switches back whatever is set.
func TestPortThatDoesNotStay(t *testing.T) {
	for name, tc := range map[string]struct {
		times int // how often it is switched back
		fails bool
	}{
		"once":   {times: 1},
		"always": {times: 100, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenttest.Start(t)
			var mu sync.Mutex
			var reqIDs []string
			endpoint := before(t, a, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPatch {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				reqIDs = append(reqIDs, r.URL.Query().Get("reqId"))
				if len(reqIDs) > tc.times {
					return false
				}
				writeJSON(t, w, api.Muxes{"mbr-vms17-8-3": look(t, a, 3)}) // as it is after the write was undone
				return true
			})
			step := resource.TestStep{Config: settingsFor(endpoint, a.VMSet) + port(3, onLower)}
			if tc.fails {
				step.ExpectError = words("asked for lower_tor, the agent reports upper_tor. Probably linkmgrd on the ToR switched it back")
			} else {
				step.Check = agentHas(t, a, 3, "lower_tor", 1)
			}
			apply(t, resource.TestCase{Steps: []resource.TestStep{step}})
			if len(reqIDs) != 2 || reqIDs[0] == reqIDs[1] {
				t.Errorf("got writes with request ids %q, want two different ones", reqIDs)
			}
		})
	}
}

// A service that knows the contract of mux_simulator.py and no more: no PATCH, no GET /mux, no error codes.
func TestMuxSimulatorPy(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t)
	endpoint := before(t, a, oldService)
	config := settingsFor(endpoint, a.VMSet)
	apply(t, resource.TestCase{Steps: []resource.TestStep{{
		Config: config + port(3, onLower, `dropped = ["nic", "upper_tor"]`, `on_destroy = "restore"`),
		Check:  agentHas(t, a, 3, "lower_tor", 1, "nic", "upper_tor"),
	}, {
		Config: config + port(3, onUpper, `dropped = []`, `on_destroy = "restore"`),
		Check:  agentHas(t, a, 3, "upper_tor", 2),
	}, {
		PreConfig:          func() { a.RemoveBridge(3) },
		RefreshState:       true,
		ExpectNonEmptyPlan: true,
	}, {
		Config:      config + port(3, onUpper),
		ExpectError: words("Ports that exist: 0-2, 4-11"),
	}, {
		Config:      config + port(3, onUpper, `vm_set = "vms99-1"`),
		ExpectError: words("The agent serves another vm_set"),
	}, {
		Config: config,
	}}})
}
