package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/child"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// The benchmarks compare the agent, as a process of its own, with what a user would have instead. Both sides run in one
// go, interleaved, and only the ratio of their medians says anything: `go test -run '^$' -bench . -benchtime 1x ./agent`.

const (
	vmSet  = "vms17-8"
	rounds = 9
)

// compare runs the sides in turns and returns the median time of each.
func compare(b *testing.B, sides ...func()) []time.Duration {
	b.Helper()
	times := make([][]time.Duration, len(sides))
	for round := range rounds + 1 {
		for i, side := range sides {
			started := time.Now()
			side()
			if round > 0 { // the first one warms up
				times[i] = append(times[i], time.Since(started))
			}
		}
	}
	medians := make([]time.Duration, len(sides))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = times[i][rounds/2]
	}
	return medians
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// report sets the metrics of a comparison; ns/op of a benchmark that runs once means nothing.
func report(b *testing.B, metrics map[string]float64) {
	b.ReportMetric(0, "ns/op")
	for name, v := range metrics {
		b.ReportMetric(v, name)
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// bareAnswer is the environment variable that makes this binary the bare handler, which answers with its value.
const bareAnswer = "MUX_BARE_ANSWER"

func TestMain(m *testing.M) {
	if answer := os.Getenv(bareAnswer); answer != "" {
		if err := serveBare(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(agentproc.Main{M: m}.Run())
}

// startAgent runs the agent on a switch until it is stopped or the benchmark ends, and returns when it is ready.
func startAgent(b *testing.B, o *ovstest.OVS, args ...string) *agentproc.Agent {
	b.Helper()
	return agentproc.StartReady(b, agentproc.Config{VMSet: vmSet, RunDir: o.RunDir, Args: append([]string{"--log-level", "error"}, args...)})
}

// keepingClient is a client that keeps its connections.
func keepingClient(b *testing.B) *http.Client {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	b.Cleanup(client.CloseIdleConnections)
	return client
}

// do sends a request and wants 200.
func do(client *http.Client, method, url, body string) ([]byte, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, answer)
	}
	return answer, err
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

const toggle = `{"active_side":"toggle"}`

// sane fails a benchmark whose agent does not do what it says: of the first muxes, packets must go as the status tells.
func sane(b *testing.B, o *ovstest.OVS, a *agentproc.Agent, muxes []ovstest.Mux) {
	b.Helper()
	all := a.Statuses()
	for _, m := range muxes[:3] {
		cabletest.Switch(o.Trace).Check(b, m, all[m.Bridge].ActiveSide)
	}
}

// calm returns when a process has almost nothing to do for half a second. An agent that is ready still looks at each bridge
// once more, when it is told of the bridge's flows.
func calm(b *testing.B, pid int) {
	b.Helper()
	wait.For(b, "the agent has nothing to do", func() bool {
		before := cpuTime(b, pid)
		time.Sleep(500 * time.Millisecond)
		return cpuTime(b, pid)-before < 10*time.Millisecond
	})
}

// rss is the resident memory of a process in MiB.
func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(b, err)
	for line := range strings.Lines(string(text)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
			return kb / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// An execSwitch toggles as the replaced service does: two ovs-ofctl processes for each mux.
type execSwitch struct {
	o     *ovstest.OVS
	muxes []ovstest.Mux
	lower []bool
}

func newExecSwitch(o *ovstest.OVS, muxes []ovstest.Mux) *execSwitch {
	return &execSwitch{o, muxes, make([]bool, len(muxes))}
}

func (s *execSwitch) toggle(i int) error {
	m := s.muxes[i]
	from, to := m.Upper, m.Lower
	if s.lower[i] {
		from, to = to, from
	}
	s.lower[i] = !s.lower[i]
	for _, args := range [][]string{
		{"--names", "del-flows", m.Bridge, fmt.Sprintf("in_port=%q", from)},
		{"--names", "add-flow", m.Bridge, fmt.Sprintf("in_port=%q,actions=output:%q", to, m.NIC)},
	} {
		if out, err := s.o.Command("ovs-ofctl", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ovs-ofctl %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// toggleAll toggles all muxes, so many at once.
func (s *execSwitch) toggleAll(b *testing.B, atOnce int) {
	b.Helper()
	next := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				if err := s.toggle(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range s.muxes {
		next <- i
	}
	close(next)
	workers.Wait()
}

// BenchmarkToggleAll: all ports over HTTP, against ovs-ofctl by the replaced service's pool of 4.
func BenchmarkToggleAll(b *testing.B) {
	o := ovstest.Start(b)
	muxes := o.AddMuxes(vmSet, 120)
	a := startAgent(b, o)
	ex := newExecSwitch(o, muxes)
	for b.Loop() {
		slow := compare(b, func() { a.ToggleAll() }, func() { ex.toggleAll(b, 4) })
		a.Stop() // two agents on one vm_set would each adopt what the other does
		ofctl := startAgent(b, o, "--driver", "ovs-ofctl")
		library := compare(b, func() { ofctl.ToggleAll() })
		sane(b, o, ofctl, muxes)
		report(b, map[string]float64{
			"agent-ms": ms(slow[0]), "exec-ms": ms(slow[1]), "x-faster-than-exec": ms(slow[1]) / ms(slow[0]), "go-openvswitch-ms": ms(library[0]),
		})
	}
}

// BenchmarkLimit: all ports over HTTP, against the limit. An agent watches every bridge, and would take the core from a
// limit that is measured beside it: so nothing else has the switch while one of them is measured, and they take turns.
func BenchmarkLimit(b *testing.B) {
	const turns, toggles = 5, 9
	for _, n := range []int{120, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := ovstest.Start(b)
			muxes := o.AddMuxes(vmSet, n)
			startAgent(b, o).Stop() // sets fail_mode
			agent := func(args ...string) func(measure func(toggleAll func())) {
				return func(measure func(func())) {
					a := agentproc.StartReady(b, agentproc.Config{VMSet: vmSet, RunDir: o.RunDir, Args: args})
					calm(b, a.PID())
					measure(a.ToggleAll)
					sane(b, o, a, muxes)
					a.Stop()
				}
			}
			sides := map[string]func(measure func(toggleAll func())){
				"limit": func(measure func(func())) {
					lim := newLimit(b, o, muxes)
					measure(func() { lim.toggleAll(b) })
					lim.close()
				},
				// As the testbed's scripts and the role start it, as it starts by itself, and without a word.
				"deployed": agent("--log-file", filepath.Join(b.TempDir(), "mux.log"), "--verbose", "--log-level", "debug"),
				"plain":    agent(),
				"silent":   agent("--log-level", "error"),
				// Not told of changes, and so not of its own.
				"untold": agent("--log-level", "error", "--watch", "poll"),
			}
			for b.Loop() {
				// By side, a median for each turn. Other work on the machine comes and goes: it hits the sides of one turn alike,
				// more than those of different turns.
				medians := map[string][]float64{}
				for range turns {
					for name, side := range sides {
						side(func(toggleAll func()) {
							for range 3 {
								toggleAll() // warms up
							}
							var times []time.Duration
							for range toggles {
								started := time.Now()
								toggleAll()
								times = append(times, time.Since(started))
							}
							slices.Sort(times)
							medians[name] = append(medians[name], ms(times[len(times)/2]))
						})
					}
				}
				metrics := map[string]float64{}
				for name, all := range medians {
					ratios := make([]float64, turns)
					for turn := range ratios {
						ratios[turn] = all[turn] / medians["limit"][turn]
					}
					metrics[name+"-ms"] = median(all)
					if name != "limit" {
						metrics["x-limit-"+name] = median(ratios)
					}
				}
				report(b, metrics)
			}
		})
	}
}

// BenchmarkToggleOne: one port over HTTP on a quiet switch, against a bare barrier round trip on one bridge,
// and against the bundle alone, without the agent.
func BenchmarkToggleOne(b *testing.B) {
	o := ovstest.Start(b)
	muxes := o.AddMuxes(vmSet, 120)
	a := startAgent(b, o)
	lim := newLimit(b, o, muxes)
	url, client := a.URL+api.PortPath(vmSet, 7), keepingClient(b)
	const each = 50
	for b.Loop() {
		d := compare(b, func() {
			for range each {
				_, err := do(client, http.MethodPost, url, toggle)
				must(b, err)
			}
		}, func() {
			for range each {
				lim.barrier(b, 7)
			}
		}, func() {
			for range each {
				lim.toggleOne(b, 7)
			}
		})
		report(b, map[string]float64{
			"agent-ms": ms(d[0]) / each, "barrier-ms": ms(d[1]) / each, "x-barrier": ms(d[0]) / ms(d[1]),
			"bundle-ms": ms(d[2]) / each, "x-bundle": ms(d[0]) / ms(d[2]),
		})
	}
}

// BenchmarkRounds: what an agent's connections and monitors cost those who change one bridge. Open vSwitch looks at all its
// bridges in turns; who asks again at once is answered before the next round, and who comes a moment later waits for it. Each
// is measured with nobody else there, with a silent connection to every bridge, with a flow monitor on every bridge, and with
// an agent.
func BenchmarkRounds(b *testing.B) {
	const turns, asks = 5, 60
	o := ovstest.Start(b)
	muxes := o.AddMuxes(vmSet, 120)
	startAgent(b, o).Stop() // sets fail_mode
	sides := map[string]func() (end func()){
		"nobody": func() func() { return func() {} },
		"connections": func() func() {
			return newLimit(b, o, muxes).close
		},
		"monitors": func() func() {
			all := newLimit(b, o, muxes)
			all.monitor(b)
			return all.close
		},
		"agent": func() func() {
			a := startAgent(b, o)
			calm(b, a.PID())
			return a.Stop
		},
	}
	for b.Loop() {
		times := map[string][]time.Duration{}
		for range turns {
			for name, begin := range sides {
				end := begin()
				one := newLimit(b, o, muxes[7:8])
				ask := func(what string, pause time.Duration, ask func(*testing.B, int)) {
					for range asks {
						time.Sleep(pause)
						started := time.Now()
						ask(b, 0)
						times[name+"-"+what] = append(times[name+"-"+what], time.Since(started))
					}
				}
				ask("again", 0, one.barrier)
				ask("later", 3*time.Millisecond, one.barrier)
				ask("toggle", 3*time.Millisecond, one.toggleOne)
				one.close()
				end()
			}
		}
		metrics := map[string]float64{}
		for name, all := range times {
			slices.Sort(all)
			metrics[name+"-ms"] = ms(all[len(all)/2])
		}
		report(b, metrics)
	}
}

// BenchmarkSingleToggles: 2,000 single toggles by 20 clients, a new connection each, against the exec way (200 of them).
func BenchmarkSingleToggles(b *testing.B) {
	o := ovstest.Start(b)
	muxes := o.AddMuxes(vmSet, 120)
	a := startAgent(b, o)
	ex := newExecSwitch(o, muxes)
	const clients, agentToggles, execToggles = 20, 2000, 200
	inTurns := func(n int, one func(i int) error) {
		var running sync.WaitGroup
		for c := range clients {
			running.Go(func() {
				for i := c; i < n; i += clients {
					if err := one(i % clients); err != nil { // each client has a port of its own
						b.Error(err)
					}
				}
			})
		}
		running.Wait()
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for b.Loop() {
		d := compare(b, func() {
			inTurns(agentToggles, func(i int) error {
				_, err := do(fresh, http.MethodPost, a.URL+api.PortPath(vmSet, i), toggle)
				return err
			})
		}, func() { inTurns(execToggles, ex.toggle) })
		agent, exec := agentToggles/d[0].Seconds(), execToggles/d[1].Seconds()
		report(b, map[string]float64{"agent/s": agent, "exec/s": exec, "x-exec": agent / exec})
	}
}

// bareHandler serves an answer as net/http alone does, in a process of its own: this one, called again.
func bareHandler(b *testing.B, answer []byte) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareAnswer+"="+string(answer))
	out, err := cmd.StdoutPipe()
	must(b, err)
	stdin, err := cmd.StdinPipe()
	must(b, err)
	proc, err := child.Start(cmd)
	must(b, err)
	b.Cleanup(func() {
		_ = stdin.Close()
		if err := proc.Err(); err != nil {
			b.Errorf("the bare handler: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	return strings.TrimSpace(line)
}

// serveBare is the process of bareHandler.
func serveBare(answer string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
		_ = server.Close()
	}()
	fmt.Printf("http://%s/\n", l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// BenchmarkGet: GET of one port, by a new connection each and kept alive, against a bare handler with the same bytes.
func BenchmarkGet(b *testing.B) {
	o := ovstest.Start(b)
	o.AddMuxes(vmSet, 120)
	a := startAgent(b, o)
	url, client := a.URL+api.PortPath(vmSet, 7), keepingClient(b)
	answer, err := do(client, http.MethodGet, url, "")
	must(b, err)
	bare := bareHandler(b, answer)
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(client *http.Client, url string, n int) func() {
		return func() {
			for range n {
				_, err := do(client, http.MethodGet, url, "")
				must(b, err)
			}
		}
	}
	for b.Loop() {
		const n = 1000
		kept := compare(b, get(client, url, n), get(client, bare, n))
		each := compare(b, get(fresh, url, n), get(fresh, bare, n))
		report(b, map[string]float64{
			"kept-alive-x-bare-rate": ms(kept[1]) / ms(kept[0]), "kept-alive/s": n / kept[0].Seconds(),
			"new-conn-x-bare-rate": ms(each[1]) / ms(each[0]), "new-conn/s": n / each[0].Seconds(),
		})
	}
}

// BenchmarkGetUnderLoad: the 99th percentile of a GET while all ports are toggled without a pause, against the bare handler
// under the same toggles.
func BenchmarkGetUnderLoad(b *testing.B) {
	o := ovstest.Start(b)
	o.AddMuxes(vmSet, 120)
	a := startAgent(b, o)
	url, client := a.URL+api.PortPath(vmSet, 7), keepingClient(b)
	answer, err := do(client, http.MethodGet, url, "")
	must(b, err)
	bare := bareHandler(b, answer)
	ctx, cancel := context.WithCancel(b.Context())
	var load sync.WaitGroup
	load.Go(func() {
		for ctx.Err() == nil {
			if _, err := do(client, http.MethodPost, a.URL+api.VMSetPath(vmSet), toggle); err != nil {
				b.Error(err)
				return
			}
		}
	})
	p99 := func(url string) time.Duration {
		times := make([]time.Duration, 1000)
		for i := range times {
			started := time.Now()
			_, err := do(client, http.MethodGet, url, "")
			must(b, err)
			times[i] = time.Since(started)
		}
		slices.Sort(times)
		return times[len(times)*99/100]
	}
	for b.Loop() {
		var agent, plain []time.Duration
		for range rounds {
			agent = append(agent, p99(url))
			plain = append(plain, p99(bare))
		}
		slices.Sort(agent)
		slices.Sort(plain)
		report(b, map[string]float64{
			"agent-p99-ms": ms(agent[rounds/2]), "bare-p99-ms": ms(plain[rounds/2]), "x-bare": ms(agent[rounds/2]) / ms(plain[rounds/2]),
		})
	}
	cancel()
	load.Wait()
}

// BenchmarkStart: from the start of the process to /readyz with 120 bridges, against dialing all bridges, reading their
// flows and writing two, in parallel. Also the memory that the agent then has.
func BenchmarkStart(b *testing.B) {
	o := ovstest.Start(b)
	muxes := o.AddMuxes(vmSet, 120)
	first := startAgent(b, o) // sets fail_mode, which only the first agent of a testbed has to do
	first.ToggleAll()
	memory := rss(b, first.PID())
	first.Stop()
	for b.Loop() {
		var ready []time.Duration
		d := compare(b, func() {
			started := time.Now()
			a := startAgent(b, o)
			ready = append(ready, time.Since(started))
			a.Stop()
		}, func() { dialReadWrite(b, o, muxes) })
		slices.Sort(ready)
		d[0] = ready[len(ready)/2] // without the stop
		report(b, map[string]float64{"agent-ms": ms(d[0]), "dial-read-write-ms": ms(d[1]), "x-dial-read-write": ms(d[0]) / ms(d[1]), "rss-MiB": memory})
	}
}
