package httpapi

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

func (s *Server) getHealthz(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
	return nil
}

func (s *Server) getReadyz(w http.ResponseWriter, r *http.Request) error {
	for _, e := range s.engines {
		if why := e.NotReady(); why != nil {
			setRetryAfter(w)
			write(w, http.StatusServiceUnavailable, encode(api.Readiness{Reason: "vm_set " + e.VMSet() + ": " + why.Reason, ReasonCode: why.Code}))
			return nil
		}
	}
	if s.alive != nil {
		if err := s.alive(); err != nil {
			setRetryAfter(w)
			write(w, http.StatusServiceUnavailable, encode(api.Readiness{Reason: err.Error(), ReasonCode: api.NotReadyStuck}))
			return nil
		}
	}
	write(w, http.StatusOK, encode(api.Readiness{Ready: true}))
	return nil
}

func (s *Server) getVersion(w http.ResponseWriter, r *http.Request) error {
	write(w, http.StatusOK, encode(s.version))
	return nil
}

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(api.OpenAPI)
	return nil
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	if s.metrics == nil {
		return errNotFound()
	}
	s.metrics.ServeHTTP(w, r)
	return nil
}

func (s *Server) getOverview(w http.ResponseWriter, r *http.Request) error {
	overview := api.Overview{VMSets: map[string]api.VMSet{}}
	for name, e := range s.engines {
		v := api.VMSet{Muxes: len(e.Snapshots()), Ready: true, Rejected: []api.Rejected{}}
		if why := e.NotReady(); why != nil {
			v.Ready, v.Reason, v.ReasonCode = false, why.Reason, why.Code
		}
		for _, r := range e.Rejected() {
			v.Rejected = append(v.Rejected, api.Rejected{Bridge: r.Bridge, Code: r.Code, PortIndex: r.Index, Reason: r.Reason})
		}
		overview.VMSets[name] = v
	}
	write(w, http.StatusOK, encode(overview))
	return nil
}

// inVMSet finds the engine of the path's vm_set and refuses while it has not read its switch.
func (s *Server) inVMSet(h func(http.ResponseWriter, *http.Request, *engine.Engine) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := mux.Vars(r)["vm_set"]
		e := s.engines[name]
		if e == nil {
			return errUnknownVMSet(name)
		}
		if why := e.NotReady(); why != nil {
			return errNotReady(name, why)
		}
		return h(w, r, e)
	}
}

// onPort finds the mux of the path's port.
func (s *Server) onPort(h func(http.ResponseWriter, *http.Request, *engine.Engine, *engine.Snapshot) error) func(http.ResponseWriter, *http.Request, *engine.Engine) error {
	return func(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
		port := mux.Vars(r)["port"]
		snap := e.Snapshot(portIndex(port))
		if snap == nil {
			return errUnknownPort(e, port)
		}
		return h(w, r, e, snap)
	}
}

// portIndex reads digits; a number too large for an index is one that no bridge has.
func portIndex(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return n
}

func (s *Server) getAll(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	write(w, http.StatusOK, s.bodies.all(e.Snapshots()))
	return nil
}

func (s *Server) getPort(w http.ResponseWriter, r *http.Request, e *engine.Engine, snap *engine.Snapshot) error {
	if r.URL.RawQuery != "" && r.URL.Query().Has("wait") {
		return s.waitForSide(w, r, e, snap)
	}
	write(w, http.StatusOK, s.bodies.one(snap))
	return nil
}

func (s *Server) postPort(w http.ResponseWriter, r *http.Request, e *engine.Engine, snap *engine.Snapshot) error {
	change, err := decodeSide(w, r)
	if err != nil {
		return err
	}
	return s.changeOne(w, r, e, snap, change)
}

func (s *Server) postAll(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	change, err := decodeSide(w, r)
	if err != nil {
		return err
	}
	return s.changeAll(w, r, e, change)
}

func (s *Server) postAllSides(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	change, err := decodeOutSides(w, r, mux.Vars(r)["action"])
	if err != nil {
		return err
	}
	return s.changeAll(w, r, e, change)
}

func (s *Server) postAllReset(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	return s.changeAll(w, r, e, cable.Reset())
}

func (s *Server) postPortAction(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	action, snap := mux.Vars(r)["action"], e.Snapshot(portIndex(mux.Vars(r)["port"]))
	if snap == nil || (action != "output" && action != "drop" && action != "reset") {
		return errUnknownAction(r)
	}
	if action == "reset" {
		return s.changeOne(w, r, e, snap, cable.Reset())
	}
	change, err := decodeOutSides(w, r, action)
	if err != nil {
		return err
	}
	return s.changeOne(w, r, e, snap, change)
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	changes, err := decodePatch(w, r)
	if err != nil {
		return err
	}
	for index := range changes {
		if e.Snapshot(index) == nil {
			return errUnknownPort(e, strconv.Itoa(index))
		}
	}
	return s.changeMany(w, r, e, changes)
}

// change is the one door to the engine for changes that a client asks for.
func change(w http.ResponseWriter, r *http.Request, e *engine.Engine, changes map[int]cable.Change) map[int]engine.Result {
	results := e.Do(r.Context(), changes, origin(r))
	responseOf(w).spent(results)
	return results
}

func (s *Server) changeOne(w http.ResponseWriter, r *http.Request, e *engine.Engine, snap *engine.Snapshot, wanted cable.Change) error {
	res := change(w, r, e, map[int]cable.Change{snap.Index: wanted})[snap.Index]
	if res.Err != nil {
		return errChange(e, snap, res.Err)
	}
	write(w, http.StatusOK, s.bodies.one(res.Snapshot))
	return nil
}

func (s *Server) changeAll(w http.ResponseWriter, r *http.Request, e *engine.Engine, wanted cable.Change) error {
	changes := map[int]cable.Change{}
	for _, snap := range e.Snapshots() {
		changes[snap.Index] = wanted
	}
	nameRejected(w, e)
	return s.changeMany(w, r, e, changes)
}

// changeMany answers with the status of each mux; when some failed, with an error that names each of them.
func (s *Server) changeMany(w http.ResponseWriter, r *http.Request, e *engine.Engine, changes map[int]cable.Change) error {
	snaps := make([]*engine.Snapshot, 0, len(changes))
	failed := map[string]api.Failure{}
	for index, res := range change(w, r, e, changes) {
		if res.Snapshot == nil { // removed while the call was on its way
			bridge := fmt.Sprintf("port %d", index)
			failed[bridge] = api.Failure{Code: api.CodeUnknownPort, ErrMsg: "the bridge was removed"}
			continue
		}
		snaps = append(snaps, res.Snapshot)
		if res.Err != nil {
			failed[res.Snapshot.Bridge] = failure(res.Err)
		}
	}
	if waiting := allRestoring(changes, failed); waiting != nil {
		return waiting
	}
	if len(failed) > 0 {
		return errPartial(len(changes), failed, statuses(snaps))
	}
	write(w, http.StatusOK, s.bodies.all(snaps))
	return nil
}

func (s *Server) postReload(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	if err := e.Reload(r.Context()); err != nil {
		return errReload(err)
	}
	write(w, http.StatusOK, s.bodies.all(e.Snapshots()))
	return nil
}

func (s *Server) postLog(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	message, err := decodeLog(w, r)
	if err != nil {
		return err
	}
	s.log.Info("client's message", "client", clientIP(r), "by", caller(r).Name, "req_id", reqID(r), "message", message)
	write(w, http.StatusOK, encode(map[string]bool{"success": true}))
	return nil
}

func (s *Server) getFlaps(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	write(w, http.StatusOK, encode(flaps(e.Snapshots())))
	return nil
}

func (s *Server) getPortFlaps(w http.ResponseWriter, r *http.Request, _ *engine.Engine, snap *engine.Snapshot) error {
	write(w, http.StatusOK, encode(flaps([]*engine.Snapshot{snap})))
	return nil
}

func (s *Server) postClearFlaps(w http.ResponseWriter, r *http.Request, e *engine.Engine) error {
	ports, err := decodeClear(w, r)
	if err != nil {
		return err
	}
	var indexes []int
	for _, port := range ports {
		index := portIndex(port)
		if e.Snapshot(index) == nil {
			return errUnknownPort(e, port)
		}
		indexes = append(indexes, index)
	}
	cleared, err := e.ClearFlaps(indexes)
	if err != nil { // its bridge went meanwhile
		return &httpError{code: api.CodeUnknownPort, name: "NotFound", text: err.Error(), err: err}
	}
	write(w, http.StatusOK, encode(flaps(cleared)))
	return nil
}

func flaps(snaps []*engine.Snapshot) map[string]int {
	counters := map[string]int{}
	for _, s := range snaps {
		counters[s.Bridge] = s.Flaps
	}
	return counters
}

func statuses(snaps []*engine.Snapshot) api.Muxes {
	muxes := make(api.Muxes, len(snaps))
	for _, s := range snaps {
		muxes[s.Bridge] = status(s)
	}
	return muxes
}

// status writes a snapshot as the API does.
func status(s *engine.Snapshot) api.Status {
	active, standby := s.State.Active, s.State.Active.Other()
	output := func(to ...cable.Role) []api.Action {
		actions := []api.Action{}
		for _, r := range to {
			if !s.State.Dropped.Has(r) {
				actions = append(actions, api.Action{Action: "output", OutPort: s.Ports[r].Name})
			}
		}
		return actions
	}
	reason, code := worst(s.Conditions)
	return api.Status{
		ActivePort:  s.Ports[active.Role()].Name,
		ActiveSide:  active.String(),
		Bridge:      s.Bridge,
		Conditions:  s.Conditions,
		Dropped:     dropped(s.State),
		FlapCounter: s.Flaps,
		Flows: map[string][]api.Action{
			s.Ports[cable.NIC].Name:     output(cable.Upper, cable.Lower),
			s.Ports[active.Role()].Name: output(cable.NIC),
		},
		Healthy:   s.Healthy(),
		PortIndex: s.Index,
		Ports: api.Ports{
			NIC:      s.Ports[cable.NIC].Name,
			UpperToR: s.Ports[cable.Upper].Name,
			LowerToR: s.Ports[cable.Lower].Name,
		},
		Reason:      reason,
		ReasonCode:  code,
		StandbyPort: s.Ports[standby.Role()].Name,
		StandbySide: standby.String(),
		VMSet:       s.VMSet,
	}
}

// worst returns the first of some conditions, in words and as a code.
func worst(conditions []api.Condition) (reason, code string) {
	if len(conditions) == 0 {
		return "", ""
	}
	return conditions[0].Reason, conditions[0].Code
}

// dropped lists the sides that somebody asked to be dropped.
func dropped(s cable.State) []string {
	names := []string{}
	for _, r := range s.Dropped.List() {
		names = append(names, r.String())
	}
	return names
}

// nameRejected says in a header which bridges a call on all ports does not concern, though their names fit.
func nameRejected(w http.ResponseWriter, e *engine.Engine) {
	var bridges []string
	for _, r := range e.Rejected() {
		bridges = append(bridges, r.Bridge)
	}
	if bridges != nil {
		w.Header().Set(api.RejectedHeader, strings.Join(few(bridges), ", "))
	}
}

func origin(r *http.Request) engine.Origin {
	return engine.Origin{By: caller(r).Name, Cause: engine.API, Client: clientIP(r), ReqID: reqID(r)}
}

// reqID is the client's name for its call, a copy: what is kept of it must not keep the whole line of the request.
func reqID(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return strings.Clone(r.URL.Query().Get("reqId"))
}

func clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
