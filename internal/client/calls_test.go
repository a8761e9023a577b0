package client_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

func TestCallsOnTheWire(t *testing.T) {
	one, all, counters := any(port3), any(api.Muxes{port3.Bridge: port3}), any(map[string]int{port3.Bridge: 4})
	type call = func(context.Context, *client.Client) (any, error)
	for name, tc := range map[string]struct {
		call   call
		answer any
		want   seen
	}{
		"Status": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.Status(ctx, "vms17-8", 3) },
			one,
			seen{Method: "GET", Path: "/mux/vms17-8/3"},
		},
		"All": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.All(ctx, "vms17-8") },
			all,
			seen{Method: "GET", Path: "/mux/vms17-8"},
		},
		"All of none": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.All(ctx, "vms17-8") },
			api.Muxes{},
			seen{Method: "GET", Path: "/mux/vms17-8"},
		},
		"Overview": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.Overview(ctx) },
			api.Overview{VMSets: map[string]api.VMSet{"vms17-8": {Muxes: 12, Ready: true}}},
			seen{Method: "GET", Path: "/mux"},
		},
		"SetSide": {func(ctx context.Context, c *client.Client) (any, error) {
			return c.SetSide(ctx, "vms17-8", 3, api.LowerToR)
		}, one, seen{Method: "POST", Path: "/mux/vms17-8/3", Body: `{"active_side":"lower_tor"}`}},
		"SetAllSides": {func(ctx context.Context, c *client.Client) (any, error) {
			return c.SetAllSides(ctx, "vms17-8", api.Toggle)
		}, all, seen{Method: "POST", Path: "/mux/vms17-8", Body: `{"active_side":"toggle"}`}},
		"Drop": {func(ctx context.Context, c *client.Client) (any, error) {
			return c.Drop(ctx, "vms17-8", 3, api.NIC, api.LowerToR)
		}, one, seen{Method: "POST", Path: "/mux/vms17-8/3/drop", Body: `{"out_sides":["nic","lower_tor"]}`}},
		"Output of nothing": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.Output(ctx, "vms17-8", 3) },
			one,
			seen{Method: "POST", Path: "/mux/vms17-8/3/output", Body: `{"out_sides":[]}`},
		},
		"Reset": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.Reset(ctx, "vms17-8", 3) },
			one,
			seen{Method: "POST", Path: "/mux/vms17-8/3/reset"},
		},
		"ResetPorts": {
			func(ctx context.Context, c *client.Client) (any, error) {
				got, err := c.ResetPorts(ctx, "vms17-8", []int{3})
				return any(got[3]), err
			},
			one,
			seen{Method: "POST", Path: "/mux/vms17-8/3/reset"},
		},
		"DropAll": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.DropAll(ctx, "vms17-8", api.NIC) },
			all,
			seen{Method: "POST", Path: "/mux/vms17-8/drop", Body: `{"out_sides":["nic"]}`},
		},
		"OutputAll": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.OutputAll(ctx, "vms17-8", api.NIC) },
			all,
			seen{Method: "POST", Path: "/mux/vms17-8/output", Body: `{"out_sides":["nic"]}`},
		},
		"ResetAll": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.ResetAll(ctx, "vms17-8") },
			all,
			seen{Method: "POST", Path: "/mux/vms17-8/reset"},
		},
		"FlapCounters": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.FlapCounters(ctx, "vms17-8") },
			counters,
			seen{Method: "GET", Path: "/mux/vms17-8/flap_counter"},
		},
		"ClearFlapCounters": {func(ctx context.Context, c *client.Client) (any, error) {
			return c.ClearFlapCounters(ctx, "vms17-8", 0, 3)
		}, counters, seen{Method: "POST", Path: "/mux/vms17-8/clear_flap_counter", Body: `{"port_to_clear":"0|3"}`}},
		"ClearFlapCounters of all": {func(ctx context.Context, c *client.Client) (any, error) {
			return c.ClearFlapCounters(ctx, "vms17-8")
		}, counters, seen{Method: "POST", Path: "/mux/vms17-8/clear_flap_counter", Body: `{"port_to_clear":"all"}`}},
		"Reload": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.Reload(ctx, "vms17-8") },
			all,
			seen{Method: "POST", Path: "/mux/vms17-8/reload"},
		},
		"Version": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.Version(ctx) },
			api.Version{Go: "go1.26", Version: "0.1.0"},
			seen{Method: "GET", Path: "/version"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, ok(tc.answer))
			got, err := tc.call(t.Context(), dial(t, s.URL))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.answer, got); diff != "" {
				t.Error("answer:", diff)
			}
			reqs := s.requests()
			if diff := cmp.Diff([]seen{tc.want}, reqs, cmpopts.IgnoreFields(seen{}, "ReqID")); diff != "" {
				t.Error("request:", diff)
			}
			if isWrite := tc.want.Method != http.MethodGet; isWrite != (reqs[0].ReqID != "") {
				t.Errorf("got request id %q on a %s", reqs[0].ReqID, tc.want.Method)
			}
		})
	}
}

func TestSetIsOnePatch(t *testing.T) {
	s := serve(t, ok(api.Muxes{port3.Bridge: port3}))
	upper := api.UpperToR
	got, err := dial(t, s.URL).Set(t.Context(), "vms17-8", 3, api.Desired{ActiveSide: &upper, Dropped: &[]string{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(port3, got); diff != "" {
		t.Error(diff)
	}
	want := []seen{{Method: "PATCH", Path: "/mux/vms17-8", Body: `{"ports":{"3":{"active_side":"upper_tor","dropped":[]}}}`}}
	if diff := cmp.Diff(want, s.requests(), cmpopts.IgnoreFields(seen{}, "ReqID")); diff != "" {
		t.Error(diff)
	}
}

func TestSetPostsWhereThereIsNoPatch(t *testing.T) {
	s := serve(t, refuse(405, "", "<MethodNotAllowed '405: Method Not Allowed'>"), ok(port3))
	lower := api.LowerToR
	_, err := dial(t, s.URL).Set(t.Context(), "vms17-8", 3, api.Desired{ActiveSide: &lower, Dropped: &[]string{api.NIC}})
	if err != nil {
		t.Fatal(err)
	}
	want := []seen{
		{Method: "PATCH", Path: "/mux/vms17-8", Body: `{"ports":{"3":{"active_side":"lower_tor","dropped":["nic"]}}}`},
		{Method: "POST", Path: "/mux/vms17-8/3", Body: `{"active_side":"lower_tor"}`},
		{Method: "POST", Path: "/mux/vms17-8/3/drop", Body: `{"out_sides":["nic"]}`},
		{Method: "POST", Path: "/mux/vms17-8/3/output", Body: `{"out_sides":["upper_tor","lower_tor"]}`},
	}
	if diff := cmp.Diff(want, s.requests(), cmpopts.IgnoreFields(seen{}, "ReqID")); diff != "" {
		t.Error(diff)
	}
}

func TestSetByPostThatStopsHalfWayMayHaveLanded(t *testing.T) {
	s := serve(t, refuse(405, "", "<MethodNotAllowed>"), ok(port3), refuse(400, "", "<BadRequest> Invalid posted data"))
	lower := api.LowerToR
	_, err := dial(t, s.URL).Set(t.Context(), "vms17-8", 3, api.Desired{ActiveSide: &lower, Dropped: &[]string{api.NIC}})
	if e := failure(t, err, api.CodeBadRequest); !e.MayHaveLanded {
		t.Errorf("the side was set before the drop failed: %+v", e)
	}
}

func TestSetPortsPostsToEachWhereThereIsNoPatch(t *testing.T) {
	port4 := port3
	port4.PortIndex, port4.Bridge = 4, "mbr-vms17-8-4"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /mux/vms17-8/3":
			ok(port3)(w, r)
		case "POST /mux/vms17-8/4":
			ok(port4)(w, r)
		case "POST /mux/vms17-8/5", "POST /mux/vms17-8/6":
			refuse(404, "", "Unknown bridge, vm_set=vms17-8")(w, r)
		default:
			refuse(405, "", "<MethodNotAllowed '405: Method Not Allowed'>")(w, r)
		}
	})
	c := dial(t, s.URL)
	upper := api.UpperToR
	want := map[int]api.Desired{3: {ActiveSide: &upper}, 4: {ActiveSide: &upper}}
	good := map[int]api.Status{3: port3, 4: port4}
	got, err := c.SetPorts(t.Context(), "vms17-8", want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(good, got); diff != "" {
		t.Error(diff)
	}

	want[5], want[6] = want[3], want[3]
	got, err = c.SetPorts(t.Context(), "vms17-8", want)
	e := failure(t, err, api.CodeUnknownPort)
	if !e.MayHaveLanded || e.URL != s.URL+"/mux/vms17-8/5" || e.Failed["port 6"].Code != api.CodeUnknownPort {
		t.Errorf("got %+v, want the first failure with the others in it", e)
	}
	if diff := cmp.Diff(good, got); diff != "" {
		t.Error(diff)
	}
}

// Which of the ports comes first says nothing of the others: one of them may have landed, and one of them waited for the agent.
func TestSetPortsByPostsTellsOfAll(t *testing.T) {
	upper := api.UpperToR
	want := map[int]api.Desired{3: {ActiveSide: &upper}, 4: {ActiveSide: &upper}}
	noPatch := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			refuse(405, "", "<MethodNotAllowed>")(w, r)
			return true
		}
		return false
	}
	soon := func(c *client.Config) { c.MaxElapsed = 50 * time.Millisecond }
	t.Run("a later port may have landed", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case noPatch(w, r):
			case r.URL.Path == "/mux/vms17-8/3":
				refuse(404, "", "Unknown bridge, vm_set=vms17-8")(w, r)
			default:
				panic(http.ErrAbortHandler) // the answer is lost
			}
		})
		_, err := dial(t, s.URL, soon).SetPorts(t.Context(), "vms17-8", want)
		if e := failure(t, err, api.CodeUnknownPort); !e.MayHaveLanded {
			t.Errorf("the answer for port 4 is lost, but: %+v", e)
		}
	})
	t.Run("a later port has the whole story", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if !noPatch(w, r) {
				refuse(502, "", "bad gateway")(w, r)
			}
		})
		for range 10 { // as the scheduler has it
			_, err := dial(t, s.URL, soon).SetPorts(t.Context(), "vms17-8", want)
			if e := failure(t, err, api.CodeInternal); e.Repeated || len(e.Failed) != 1 {
				t.Fatalf("got %+v", e)
			}
		}
	})
}
