package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
)

// muxes collects the state of all muxes, by vm_set.
type muxes struct {
	engines []*engine.Engine

	ready, count, rejected             *prometheus.Desc
	healthy, flapCounter               *prometheus.Desc
	flaps, external, repair, reconnect *prometheus.Desc
}

func newMuxes(engines []*engine.Engine) *muxes {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mux_agent_"+name, help, append([]string{"vm_set"}, labels...), nil)
	}
	return &muxes{
		engines:     engines,
		ready:       desc("ready", "1 once the switch was read as a whole."),
		count:       desc("muxes", "Muxes by active side and health.", "active_side", "healthy"),
		rejected:    desc("rejected_bridges", "Bridges that are named like a mux and can't be served; GET /mux says why."),
		healthy:     desc("mux_healthy", "1 while nothing is dropped and no condition makes the mux unhealthy.", "port"),
		flapCounter: desc("mux_flaps", "The flap counter of a port, which clients may clear.", "port"),
		flaps:       desc("flaps_total", "Changes of side that clients asked for; never cleared."),
		external:    desc("external_changes_total", "Changes of a mux that were seen on the switch and that no client asked for."),
		reconnect:   desc("reconnects_total", "Bridges that were found anew, after a restart of the switch or because they were made anew."),
		repair:      desc("repairs_total", "Muxes that the agent put right after the switch had lost their flows."),
	}
}

// Describe implements prometheus.Collector.
func (m *muxes) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.ready, m.count, m.rejected, m.healthy, m.flapCounter, m.flaps, m.external, m.repair, m.reconnect,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m *muxes) Collect(out chan<- prometheus.Metric) {
	for _, e := range m.engines {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{e.VMSet()}, labels...)...)
		}
		counter := func(d *prometheus.Desc, v uint64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), e.VMSet())
		}
		gauge(m.ready, number(e.NotReady() == nil))
		gauge(m.rejected, float64(len(e.Rejected())))
		type kind struct {
			side    cable.Side
			healthy bool
		}
		kinds := map[kind]int{}
		for _, s := range e.Snapshots() {
			port := strconv.Itoa(s.Index)
			kinds[kind{s.State.Active, s.Healthy()}]++
			gauge(m.healthy, number(s.Healthy()), port)
			gauge(m.flapCounter, float64(s.Flaps), port)
		}
		for _, side := range []cable.Side{cable.UpperToR, cable.LowerToR} {
			for _, healthy := range []bool{true, false} {
				gauge(m.count, float64(kinds[kind{side, healthy}]), side.String(), strconv.FormatBool(healthy))
			}
		}
		counts := e.Journal.Counts()
		counter(m.flaps, counts.Flaps)
		counter(m.external, counts.External)
		counter(m.repair, counts.Repairs)
		counter(m.reconnect, counts.Reconnects)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
