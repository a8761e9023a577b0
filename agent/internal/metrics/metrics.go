// Package metrics counts and measures what the agent does, for Prometheus.
//
// It owns the names of the metrics, their labels and their buckets. What it tells of muxes it reads from the engines when
// it is scraped, so that neither a change nor a poll pays for it. It must not know what a request means.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
)

// Config is what the metrics are about.
type Config struct {
	Registry    *prometheus.Registry // all metrics are registered with it, and nothing else
	Engines     []*engine.Engine
	Version     string
	Connections func() int // number of open connections of clients
	// Stale reports by flag whether files of access have changed and can't be used.
	Stale func() map[string]bool
}

// Metrics are the instruments of one agent. All methods may be called at the same time.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	kinds    sync.Map // kind → *instruments, since looking them up by their labels costs each poll more
}

// A kind of requests has instruments of its own.
type kind struct {
	route, method string
	status        int
}

type instruments struct {
	requests prometheus.Counter
	http     prometheus.Observer
}

// Parts of a request's time, values of the label part.
const (
	partHTTP   = "http"   // the agent's own work
	partQueue  = "queue"  // waiting for the changes of the same mux before it
	partSwitch = "switch" // waiting for the switch
)

// New registers the metrics. It panics when the registry has them already, which is a mistake in the program.
func New(cfg Config) *Metrics {
	m := &Metrics{
		registry: cfg.Registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mux_agent_http_requests_total",
			Help: "Requests by the template of their route (none where no route fits), method and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mux_agent_http_request_seconds",
			Help: "Time to answer a request, split into the agent's own work (http), waiting for earlier changes of the mux (queue) " +
				"and waiting for the switch (switch). Streams and waits are not in it.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3},
		}, []string{"route", "method", "part"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mux_agent_connections_refused_total",
			Help: "Connections that were refused, since the address is not allowed (address), there are too many in all (limit) or from one address (client), " +
				"headers cost too much (headers) or TLS failed (tls).",
		}, []string{"reason"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mux_agent_build_info", Help: "1, labelled by the versions of the agent and of Go.",
		ConstLabels: prometheus.Labels{"version": cfg.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mux_agent_connections", Help: "Open connections of clients.",
	}, func() float64 { return float64(cfg.Connections()) })
	if cfg.Stale != nil {
		for flag := range cfg.Stale() {
			cfg.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "mux_agent_stale_files", Help: "1 while the files of a flag have changed and can't be used.",
				ConstLabels: prometheus.Labels{"flag": flag},
			}, func() float64 { return number(cfg.Stale()[flag]) }))
		}
	}
	for _, reason := range []string{RefusedAddress, RefusedLimit, RefusedClient, RefusedHeaders, RefusedTLS} {
		m.refused.WithLabelValues(reason) // see Expect
	}
	cfg.Registry.MustRegister(
		m.requests, m.seconds, m.refused, build, open, newMuxes(cfg.Engines),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Expect makes the counters of a route's failures before there are any. A series that begins with its first burst shows no rise to
// who computes its rate.
func (m *Metrics) Expect(route, method string) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		m.requests.WithLabelValues(route, method, strconv.Itoa(status))
	}
}

// maxScrapes is how many scrapes are answered at once; more of them get 503.
const maxScrapes = 4

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// A Request is what is counted and measured of one.
type Request struct {
	Route, Method string
	Status        int
	Took          time.Duration // from the first byte of it that was handled to the last of the answer
	Queue, Switch time.Duration // parts of Took; both 0 where nothing was to be changed
	Waited        bool          // it was there to wait, for events or for a side, so that its time says nothing
}

// Observe counts and measures one request.
func (m *Metrics) Observe(r Request) {
	if r.Route == "" {
		r.Route = "none"
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodOptions, http.MethodPut, http.MethodDelete:
	default:
		r.Method = "other" // clients may invent them
	}
	is := m.of(kind{r.Route, r.Method, r.Status})
	is.requests.Inc()
	if r.Waited {
		return
	}
	is.http.Observe((r.Took - r.Queue - r.Switch).Seconds())
	if r.Queue+r.Switch > 0 {
		m.seconds.WithLabelValues(r.Route, r.Method, partQueue).Observe(r.Queue.Seconds())
		m.seconds.WithLabelValues(r.Route, r.Method, partSwitch).Observe(r.Switch.Seconds())
	}
}

func (m *Metrics) of(k kind) *instruments {
	if is, ok := m.kinds.Load(k); ok {
		return is.(*instruments)
	}
	is, _ := m.kinds.LoadOrStore(k, &instruments{
		requests: m.requests.WithLabelValues(k.route, k.method, strconv.Itoa(k.status)),
		http:     m.seconds.WithLabelValues(k.route, k.method, partHTTP),
	})
	return is.(*instruments)
}

// Reasons for Refused.
const (
	RefusedAddress = "address"
	RefusedLimit   = "limit"
	RefusedClient  = "client"
	RefusedHeaders = "headers"
	RefusedTLS     = "tls"
)

// Refused counts a connection that was refused.
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }
