// Package httpapi serves the mux HTTP API over one engine for each vm_set.
//
// It owns the routes, the decoding of requests, the encoding of answers and the words of errors, which follow the
// replaced mux_simulator.py where clients can see them. It must not know how a change reaches a switch.
package httpapi

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Config is what a Server needs.
type Config struct {
	Engines []*engine.Engine
	Log     *slog.Logger
	Version api.Version
	// Verbose adds the chain of errors, as `traceback`, to error bodies.
	Verbose bool
	// AllowHosts are the names, beside addresses and localhost, by which browsers may call the agent; one that starts with a dot
	// stands for all below it.
	AllowHosts []string
	// Alive, when not nil, says which switch is no longer read, though it should be.
	Alive func() error
	// Metrics, when not nil, answers GET /metrics, and Observe is told of each request when it is over.
	Metrics http.Handler
	Observe func(Observed)
}

// A Server answers HTTP requests.
type Server struct {
	engines map[string]*engine.Engine
	log     *slog.Logger
	version api.Version
	verbose bool
	router  *mux.Router
	bodies  bodies
	repeats *repeats
	feeds   map[*engine.Engine]*feed
	hosts   hosts
	alive   func() error
	origins http.CrossOriginProtection
	limits  *limits
	zip     func(http.Handler) http.HandlerFunc
	pieces  sync.Pool // of buffers of pieceSize, for streams that write
	refused limiter   // of lines of the log about requests that were refused
	metrics http.Handler
	observe func(Observed)
	ending  context.Context // ends when streams and waits must
	end     context.CancelFunc
}

// New returns the handler of the whole API.
func New(cfg Config) *Server {
	s := &Server{
		engines: map[string]*engine.Engine{}, log: cfg.Log, version: cfg.Version, verbose: cfg.Verbose, repeats: newRepeats(),
		feeds: map[*engine.Engine]*feed{}, hosts: newHosts(cfg.AllowHosts), alive: cfg.Alive, metrics: cfg.Metrics, observe: cfg.Observe,
		limits: newLimits(), zip: newZip(),
	}
	for _, e := range cfg.Engines {
		s.engines[e.VMSet()] = e
		s.feeds[e] = newFeed(e)
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.router = s.newRouter()
	return s
}

// EndStreams ends event streams and waits, which would otherwise keep a server from shutting down.
func (s *Server) EndStreams() { s.end() }

// handler answers a request, or returns an error for the one error writer.
type handler func(w http.ResponseWriter, r *http.Request) error

// methods is what a path answers, by method.
type methods map[string]handler

// A route is a path and what it answers.
type route struct {
	path    string
	methods methods
}

// routes lists all of them; the router tries them in this order, so the one that is asked all day is first. Paths match the decoded path, as the replaced service's router did.
func (s *Server) routes() []route {
	return []route{
		{"/mux/{vm_set}/{port:[0-9]+}", methods{"GET": s.inVMSet(s.onPort(s.getPort)), "POST": s.inVMSet(s.onPort(s.postPort))}},
		{api.PathHealthz, methods{"GET": s.getHealthz}},
		{api.PathReadyz, methods{"GET": s.getReadyz}},
		{api.PathVersion, methods{"GET": s.getVersion}},
		{api.PathMetrics, methods{"GET": s.getMetrics}},
		{api.PathOpenAPI, methods{"GET": s.compressed(s.getOpenAPI)}},
		{"/mux", methods{"GET": s.compressed(s.getOverview)}},
		{"/mux/{vm_set}", methods{"GET": s.compressed(s.inVMSet(s.getAll)), "POST": s.inVMSet(s.postAll), "PATCH": s.inVMSet(s.patch)}},
		{"/mux/{vm_set}/{action:output|drop}", methods{"POST": s.inVMSet(s.postAllSides)}},
		{"/mux/{vm_set}/reset", methods{"POST": s.inVMSet(s.postAllReset)}},
		{"/mux/{vm_set}/reload", methods{"POST": s.inVMSet(s.postReload)}},
		{"/mux/{vm_set}/log", methods{"POST": s.inVMSet(s.postLog)}},
		{"/mux/{vm_set}/flap_counter", methods{"GET": s.inVMSet(s.getFlaps)}},
		{"/mux/{vm_set}/clear_flap_counter", methods{"POST": s.inVMSet(s.postClearFlaps)}},
		{"/mux/{vm_set}/events", methods{"GET": s.inVMSet(s.getEvents)}},
		{"/mux/{vm_set}/history", methods{"GET": s.compressed(s.inVMSet(s.getHistory))}},
		{"/mux/{vm_set}/{port:[0-9]+}/history", methods{"GET": s.compressed(s.inVMSet(s.getPortHistory)), "POST": s.inVMSet(s.postPortAction)}},
		// A POST to flap_counter is an unknown action, as it is there.
		{"/mux/{vm_set}/{port:[0-9]+}/flap_counter", methods{"GET": s.inVMSet(s.onPort(s.getPortFlaps)), "POST": s.inVMSet(s.postPortAction)}},
		{"/mux/{vm_set}/{port:[0-9]+}/{action:[^/]+}", methods{"POST": s.inVMSet(s.postPortAction)}},
		{"/", methods{"GET": s.getPage}},
		{"/assets/{asset:[a-z]+\\.[a-z]+}", methods{"GET": s.getAsset}},
	}
}

// Routes yields the template of each path with each method that it answers, as an observer is told of them.
func (s *Server) Routes() iter.Seq2[string, string] {
	return func(yield func(path, method string) bool) {
		for _, route := range s.routes() {
			for method := range route.methods {
				if !yield(route.path, method) {
					return
				}
			}
		}
	}
}

func (s *Server) newRouter() *mux.Router {
	r := mux.NewRouter().SkipClean(true)
	for _, route := range s.routes() {
		r.Handle(route.path, s.dispatch(route))
	}
	r.NotFoundHandler = s.handle(func(http.ResponseWriter, *http.Request) error { return errNotFound() })
	return r
}

// dispatch answers by method: HEAD as GET without a body, OPTIONS with the list.
func (s *Server) dispatch(to route) http.Handler {
	allow := to.methods.allow()
	roles := map[string]api.Roles{}
	for method := range to.methods {
		role, ok := api.RoleOf(method, to.path)
		if !ok {
			panic("httpapi: no role in internal/api for " + method + " " + to.path) // a test lists them all
		}
		roles[method] = role
	}
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		responseOf(w).route = to.path
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if h, ok := to.methods[method]; ok {
			if who := caller(r); !who.Roles.Has(roles[method]) {
				return errRole(who, roles[method])
			}
			release, err := s.limits.enter(w, r, s.weight(to.path))
			if err != nil {
				return err
			}
			defer release()
			if method != http.MethodGet {
				h = s.idempotent(h)
			}
			return h(w, r)
		}
		w.Header().Set("Allow", allow)
		if method == http.MethodOptions {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusOK)
			return nil
		}
		return errMethodNotAllowed()
	})
}

func (s *Server) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.writeError(w, r, err)
		}
	})
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, func() error { return nil })
}

// serve answers a request that permit has no error for.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, permit func() error) {
	x := &response{ResponseWriter: w, started: time.Now()}
	defer s.finish(x, r)
	if err := s.admit(r); err != nil {
		s.writeError(x, r, err)
		return
	}
	if err := permit(); err != nil {
		s.writeError(x, r, err)
		return
	}
	if merged := mergeSlashes(r.URL); merged != "" {
		x.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.Redirect(x, r, merged, http.StatusPermanentRedirect)
		return
	}
	s.router.ServeHTTP(x, r)
}

// allow lists the methods for an Allow header.
func (m methods) allow() string {
	names := []string{http.MethodOptions}
	for name := range m {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
