package client

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Status reads one port.
func (c *Client) Status(ctx context.Context, vmSet string, port int) (api.Status, error) {
	return c.status(ctx, request{method: http.MethodGet, path: api.PortPath(vmSet, port)})
}

// All reads all ports of a vm_set, by bridge.
func (c *Client) All(ctx context.Context, vmSet string) (api.Muxes, error) {
	return c.muxes(ctx, request{method: http.MethodGet, path: api.VMSetPath(vmSet)})
}

// Overview reads what the agent serves and which bridges it rejects. mux_simulator.py answers it with CodeNotFound.
func (c *Client) Overview(ctx context.Context) (api.Overview, error) {
	var o api.Overview
	err := c.do(ctx, request{method: http.MethodGet, path: api.PathOverview}, &o)
	return o, err
}

// Patch sets the desired state of some ports and returns the status of those. mux_simulator.py answers it with
// CodeMethodNotAllowed; see Set.
func (c *Client) Patch(ctx context.Context, vmSet string, patch api.Patch) (api.Muxes, error) {
	return c.muxes(ctx, request{method: http.MethodPatch, path: api.VMSetPath(vmSet), body: patch})
}

// Set brings one port to the desired state and returns the status that the agent then reports; see SetPorts.
func (c *Client) Set(ctx context.Context, vmSet string, port int, want api.Desired) (api.Status, error) {
	got, err := c.SetPorts(ctx, vmSet, map[int]api.Desired{port: want})
	return got[port], err
}

// SetPorts brings ports to the desired state: with one Patch, or where the service knows none, with one POST after the
// other for each port, which is not atomic. It returns the status that the agent then reports, which may differ from what
// was asked when somebody else is quicker. On a failure it returns the status of those ports of which it is known.
func (c *Client) SetPorts(ctx context.Context, vmSet string, want map[int]api.Desired) (map[int]api.Status, error) {
	patch := api.Patch{Ports: map[string]api.Desired{}}
	for port, desired := range want {
		patch.Ports[strconv.Itoa(port)] = desired
	}
	muxes, err := c.Patch(ctx, vmSet, patch)
	e := (*Error)(nil)
	switch {
	case Code(err) == api.CodeMethodNotAllowed:
		return c.setByPosts(ctx, vmSet, want)
	case errors.As(err, &e):
		return ByPort(e.Muxes), err
	}
	return ByPort(muxes), nil
}

// ByPort orders statuses by their port's index.
func ByPort(muxes api.Muxes) map[int]api.Status {
	ports := make(map[int]api.Status, len(muxes))
	for _, s := range muxes {
		ports[s.PortIndex] = s
	}
	return ports
}

// setByPosts sets ports beside each other.
func (c *Client) setByPosts(ctx context.Context, vmSet string, want map[int]api.Desired) (map[int]api.Status, error) {
	return beside(slices.Collect(maps.Keys(want)), func(port int) (api.Status, error) {
		return c.setByPost(ctx, vmSet, port, want[port])
	})
}

// beside calls all ports at once, so that none waits for the failure of another, and returns the status of those that did not
// fail. The error is that of the first port that has its whole story, with the other failures in it.
func beside(ports []int, call func(port int) (api.Status, error)) (map[int]api.Status, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		got    = map[int]api.Status{}
		failed = map[int]*Error{}
	)
	for _, port := range ports {
		wg.Go(func() {
			s, err := call(port)
			mu.Lock()
			defer mu.Unlock()
			if e := (*Error)(nil); errors.As(err, &e) {
				failed[port] = e
				return
			}
			got[port] = s
		})
	}
	wg.Wait()
	if len(failed) == 0 {
		return got, nil
	}
	in := slices.Sorted(maps.Keys(failed))
	tells := in[max(0, slices.IndexFunc(in, func(port int) bool { return !failed[port].Repeated }))]
	e := failed[tells]
	if len(ports) == 1 {
		return got, e
	}
	e.MayHaveLanded = e.MayHaveLanded || len(got) > 0
	others := map[string]api.Failure{}
	for port, other := range failed {
		e.MayHaveLanded = e.MayHaveLanded || other.MayHaveLanded
		if port != tells {
			others["port "+strconv.Itoa(port)] = api.Failure{Code: other.Code, ErrMsg: other.Error()}
		}
	}
	e.Failed = others
	return got, e
}

func (c *Client) setByPost(ctx context.Context, vmSet string, port int, want api.Desired) (api.Status, error) {
	path := api.PortPath(vmSet, port)
	var steps []request
	if want.ActiveSide != nil {
		steps = append(steps, sideRequest(path, *want.ActiveSide))
	}
	if want.Dropped != nil {
		pass := slices.DeleteFunc([]string{api.NIC, api.UpperToR, api.LowerToR}, func(side string) bool {
			return slices.Contains(*want.Dropped, side)
		})
		steps = append(steps, sidesRequest(path+"/drop", *want.Dropped), sidesRequest(path+"/output", pass))
	}
	var got api.Status
	for i, step := range steps {
		var err error
		if got, err = c.status(ctx, step); err != nil {
			if e := (*Error)(nil); errors.As(err, &e) && i > 0 {
				e.MayHaveLanded = true // the steps before have
			}
			return got, err
		}
	}
	return got, nil
}

// SetSide makes side the active one of a port. side may also be api.Toggle or api.Random, which are not tried again
// once they may have been done.
func (c *Client) SetSide(ctx context.Context, vmSet string, port int, side string) (api.Status, error) {
	return c.status(ctx, sideRequest(api.PortPath(vmSet, port), side))
}

// SetAllSides is SetSide for every port of a vm_set.
func (c *Client) SetAllSides(ctx context.Context, vmSet, side string) (api.Muxes, error) {
	return c.muxes(ctx, sideRequest(api.VMSetPath(vmSet), side))
}

func sideRequest(path, side string) request {
	r := request{method: http.MethodPost, path: path, body: api.SetSide{ActiveSide: side}}
	if side == api.Toggle || side == api.Random {
		r.again = verb
	}
	return r
}

// Drop stops packets to the given sides of a port: api.NIC, api.UpperToR, api.LowerToR.
func (c *Client) Drop(ctx context.Context, vmSet string, port int, sides ...string) (api.Status, error) {
	return c.status(ctx, sidesRequest(api.PortPath(vmSet, port)+"/drop", sides))
}

// Output lets packets to the given sides of a port pass again.
func (c *Client) Output(ctx context.Context, vmSet string, port int, sides ...string) (api.Status, error) {
	return c.status(ctx, sidesRequest(api.PortPath(vmSet, port)+"/output", sides))
}

// Reset lets packets of a port pass to all sides and makes its flows right.
func (c *Client) Reset(ctx context.Context, vmSet string, port int) (api.Status, error) {
	return c.status(ctx, request{method: http.MethodPost, path: api.PortPath(vmSet, port) + "/reset"})
}

// ResetPorts is Reset for some ports, all at once. On a failure it returns the status of those that were reset.
func (c *Client) ResetPorts(ctx context.Context, vmSet string, ports []int) (map[int]api.Status, error) {
	return beside(ports, func(port int) (api.Status, error) { return c.Reset(ctx, vmSet, port) })
}

// DropAll is Drop for every port of a vm_set.
func (c *Client) DropAll(ctx context.Context, vmSet string, sides ...string) (api.Muxes, error) {
	return c.muxes(ctx, sidesRequest(api.VMSetPath(vmSet)+"/drop", sides))
}

// OutputAll is Output for every port of a vm_set.
func (c *Client) OutputAll(ctx context.Context, vmSet string, sides ...string) (api.Muxes, error) {
	return c.muxes(ctx, sidesRequest(api.VMSetPath(vmSet)+"/output", sides))
}

// ResetAll is Reset for every port of a vm_set.
func (c *Client) ResetAll(ctx context.Context, vmSet string) (api.Muxes, error) {
	return c.muxes(ctx, request{method: http.MethodPost, path: api.VMSetPath(vmSet) + "/reset"})
}

func sidesRequest(path string, sides []string) request {
	if sides == nil {
		sides = []string{} // null is no list
	}
	return request{method: http.MethodPost, path: path, body: api.OutSides{OutSides: sides}}
}

// FlapCounters reads the flap counters of all ports, by bridge.
func (c *Client) FlapCounters(ctx context.Context, vmSet string) (map[string]int, error) {
	var n map[string]int
	err := c.do(ctx, request{method: http.MethodGet, path: api.VMSetPath(vmSet) + "/flap_counter"}, &n)
	return n, err
}

// ClearFlapCounters sets the flap counters of the given ports to 0, of all ports when none is given, and returns those
// that it cleared, by bridge.
func (c *Client) ClearFlapCounters(ctx context.Context, vmSet string, ports ...int) (map[string]int, error) {
	which := "all"
	if len(ports) > 0 {
		words := make([]string, len(ports))
		for i, p := range ports {
			words[i] = strconv.Itoa(p)
		}
		which = strings.Join(words, "|")
	}
	var n map[string]int
	err := c.do(ctx, request{
		method: http.MethodPost,
		path:   api.VMSetPath(vmSet) + "/clear_flap_counter",
		body:   api.ClearFlapCounter{PortToClear: which},
	}, &n)
	return n, err
}

// Reload has the agent look for the vm_set's bridges again, and returns all ports.
func (c *Client) Reload(ctx context.Context, vmSet string) (api.Muxes, error) {
	return c.muxes(ctx, request{method: http.MethodPost, path: api.VMSetPath(vmSet) + "/reload"})
}

// Log writes a message into the agent's log.
func (c *Client) Log(ctx context.Context, vmSet, message string) error {
	var done struct{}
	return c.do(ctx, request{method: http.MethodPost, path: api.VMSetPath(vmSet) + "/log", body: map[string]string{"message": message}}, &done)
}

// Version reads the agent's version.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	var v api.Version
	err := c.do(ctx, request{method: http.MethodGet, path: api.PathVersion}, &v)
	return v, err
}

// Ready asks once whether the agent is ready. It fails with CodeNotReady and the agent's reason when it is not.
func (c *Client) Ready(ctx context.Context) error {
	var r api.Readiness
	return c.do(ctx, request{method: http.MethodGet, path: api.PathReadyz, again: once}, &r)
}

func (c *Client) status(ctx context.Context, r request) (api.Status, error) {
	var s checkedStatus
	err := c.do(ctx, r, &s)
	return api.Status(s), err
}

func (c *Client) muxes(ctx context.Context, r request) (api.Muxes, error) {
	var m checkedMuxes
	err := c.do(ctx, r, &m)
	return api.Muxes(m), err
}

// checkedStatus and checkedMuxes tell the API's answers from any other JSON.
type (
	checkedStatus api.Status
	checkedMuxes  api.Muxes
)

// Valid reports whether the status is one of a mux.
func (s *checkedStatus) Valid() bool {
	return s.Bridge != "" && (s.ActiveSide == api.UpperToR || s.ActiveSide == api.LowerToR)
}

// Valid reports whether all are statuses of muxes.
func (m *checkedMuxes) Valid() bool {
	for _, s := range *m {
		if checked := checkedStatus(s); !checked.Valid() {
			return false
		}
	}
	return *m != nil
}
