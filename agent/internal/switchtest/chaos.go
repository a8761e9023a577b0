package switchtest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// Faults are what a Chaos does to a switch beyond what Hands do.
type Faults interface {
	// Restart ends the switch and starts it again.
	Restart(t testing.TB)
	// Stall makes it hang until the returned function is called.
	Stall(t testing.TB) (resume func())
	// RestartToRestore restarts it with flow-restore-wait, until the returned function is called.
	RestartToRestore(t testing.TB) (end func())
	// TakeDevice takes the device of a port away until the returned function is called.
	TakeDevice(t testing.TB, bridge, port string) (back func())
	// Block has a port receive nothing until the returned function is called.
	Block(t testing.TB, bridge, port string) (unblock func())
	// Disturb does one of what else happens to a bridge of such a switch, by a number that is drawn, and leaves a mux.
	Disturb(t testing.TB, n int, bridge, port string)
}

// ChaosTimeout is how long an engine in a Chaos waits for the switch. The switch under test should wait as long.
const ChaosTimeout = time.Second

// chaosTime is how long a Chaos runs: MUX_TEST_CHAOS, such as 10m, or little.
func chaosTime(t *testing.T) time.Duration {
	text := os.Getenv("MUX_TEST_CHAOS")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MUX_TEST_CHAOS: %v", err)
	}
	return d
}

// chaosSeed is MUX_TEST_SEED, or a new one. The same seed does the same things; how they meet differs.
func chaosSeed(t *testing.T) uint64 {
	text := os.Getenv("MUX_TEST_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("MUX_TEST_SEED: %v", err)
	}
	return seed
}

// Chaos runs an engine on a switch, and random changes and faults at the same time. Whenever all has become quiet, each
// mux's status must be what its packets do, its events must follow each other without a gap, and its counter must be what
// they add up to; and a reset must make it proper. It is not to run beside other tests, since it counts open files.
func Chaos(t *testing.T, start func(t *testing.T) (engine.Switch, Hands, Faults)) {
	seed := chaosSeed(t)
	t.Logf("MUX_TEST_SEED=%d", seed)
	sw, hands, faults := start(t)
	c := &chaos{
		suite: &suite{T: t, sw: sw, hands: hands}, faults: faults,
		rand: rand.New(rand.NewPCG(seed, 0)), last: map[int]*engine.Moment{}, flaps: map[int]int{},
	}
	for i := range chaosMuxes {
		c.addMux(i)
	}
	stuck := &stuckLog{rand: rand.New(rand.NewPCG(seed, 1))}
	c.e = c.startEngine(ChaosTimeout, slog.New(stuck))
	c.quiet()
	files := openFiles(t)
	rounds := 0
	for deadline := time.Now().Add(chaosTime(t)); time.Now().Before(deadline) && !t.Failed(); rounds++ {
		c.did = nil
		for range 1 + c.rand.IntN(8) {
			c.act()
		}
		c.calls.Wait()
		c.quiet()
		c.resetAll()
	}
	if got := openFiles(t); got > files {
		t.Errorf("%d files are open, %d were before", got, files)
	}
	t.Logf("%d rounds", rounds)
}

const chaosMuxes = 6

// stuckLog is a log that now and then takes nothing for a while, for which no change may wait.
type stuckLog struct {
	mu   sync.Mutex
	rand *rand.Rand
}

// Enabled, WithAttrs and WithGroup are slog.Handler's.
func (*stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (s *stuckLog) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s *stuckLog) WithGroup(string) slog.Handler          { return s }

// Handle is slog.Handler's.
func (s *stuckLog) Handle(context.Context, slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rand.IntN(20) == 0 {
		time.Sleep(time.Duration(s.rand.IntN(500)) * time.Millisecond)
	}
	return nil
}

type chaos struct {
	*suite
	e      *engine.Engine
	faults Faults
	rand   *rand.Rand
	calls  sync.WaitGroup // of the API, under way
	did    []string       // in this round

	seq   uint64                 // of the last event that was checked
	last  map[int]*engine.Moment // after that, by port index
	flaps map[int]int            // that the events add up to
}

// act does one thing, and does not wait for changes that it asks for.
func (c *chaos) act() {
	i := c.rand.IntN(chaosMuxes)
	bridge, nic, upper, lower := bridgeName(i), nicName(i), upperName(i), lowerName(i)
	side := []string{upper, lower}[c.rand.IntN(2)]
	did := func(what string) { c.did = append(c.did, fmt.Sprintf("%d %s", i, what)) }
	switch n := c.rand.IntN(100); {
	case n < 55:
		c.call(i)
	case n < 60:
		did("flush")
		c.hands.DelFlows(c, bridge)
	case n < 65:
		did("add downstream of " + side)
		c.hands.AddFlow(c, bridge, 0, side, nic)
	case n < 70:
		did("foreign flow")
		c.hands.AddFlow(c, bridge, 1+c.rand.IntN(65000), side, lower, nic)
	case n < 74:
		did("NORMAL")
		c.hands.AddFlow(c, bridge, 1, nic, "NORMAL")
	case n < 79:
		port := []string{nic, upper, lower}[c.rand.IntN(3)]
		did("port anew " + port)
		c.hands.RemovePort(c, bridge, port)
		c.call(i)
		c.hands.AddPort(c, bridge, port)
	case n < 83:
		did("bridge anew")
		c.hands.RemoveBridge(c, bridge)
		c.call(i)
		c.addMux(i)
	case n < 85:
		did("bridge anew during a reload")
		c.calls.Go(func() {
			_ = c.e.Reload(context.Background()) // of a switch that is away
		})
		c.hands.RemoveBridge(c, bridge)
		c.call(i)
		c.addMux(i)
	case n < 87:
		port := []string{nic, upper, lower}[c.rand.IntN(3)]
		did("device of " + port)
		back := c.faults.TakeDevice(c, bridge, port)
		for range c.rand.IntN(4) {
			c.call(i)
		}
		if c.rand.IntN(3) == 0 {
			c.calls.Wait()
			c.quiet()
		}
		back()
	case n < 89:
		port := []string{nic, upper, lower}[c.rand.IntN(3)]
		did("blocked " + port)
		unblock := c.faults.Block(c, bridge, port)
		c.call(i)
		unblock()
	case n < 91:
		port, n := []string{nic, upper, lower}[c.rand.IntN(3)], c.rand.IntN(1000)
		did(fmt.Sprintf("disturb by %d, port %s", n, port))
		c.faults.Disturb(c, n, bridge, port)
	case n < 94:
		did("pause")
		time.Sleep(time.Duration(c.rand.IntN(30)) * time.Millisecond)
	case n < 96:
		did("restart")
		c.faults.Restart(c)
	case n < 97:
		did("restart to restore")
		end := c.faults.RestartToRestore(c)
		for range c.rand.IntN(4) {
			c.call(c.rand.IntN(chaosMuxes))
		}
		end()
	default:
		did("stall")
		resume := c.faults.Stall(c)
		for range c.rand.IntN(6) {
			c.call(c.rand.IntN(chaosMuxes))
		}
		time.Sleep(time.Duration(c.rand.Int64N(int64(2 * ChaosTimeout))))
		resume()
	}
}

// call asks for a change of one mux, or of all.
func (c *chaos) call(i int) {
	role := cable.Role(c.rand.IntN(3))
	change := []cable.Change{
		{Move: cable.MoveToggle},
		{Move: cable.MoveTo, Side: cable.Side(c.rand.IntN(2))},
		{Move: cable.MoveRandom},
		{Drop: cable.RolesOf(role)},
		{Output: cable.RolesOf(role)},
		cable.Reset(),
	}[c.rand.IntN(6)]
	changes := map[int]cable.Change{i: change}
	if c.rand.IntN(4) == 0 {
		for i := range chaosMuxes {
			changes[i] = change
		}
	}
	c.did = append(c.did, fmt.Sprintf("%d of %d %+v", i, len(changes), change))
	c.calls.Go(func() {
		c.e.Do(context.Background(), changes, engine.Origin{Cause: engine.API}) // refused or not, the status must be true
	})
}

// quiet waits until each mux shows what the switch does, and checks the events up to then.
func (c *chaos) quiet() {
	c.Helper()
	var why string
	for deadline := time.Now().Add(wait.Limit); ; time.Sleep(10 * time.Millisecond) {
		if why = c.lie(); why == "" {
			break
		}
		if time.Now().After(deadline) {
			c.Fatalf("after %v:\n%s", strings.Join(c.did, "; "), why)
		}
	}
	c.checkEvents()
}

// lie says where a status and the switch differ, "" when nowhere.
func (c *chaos) lie() string {
	for i := range chaosMuxes {
		s := c.e.Snapshot(i)
		if s == nil {
			return fmt.Sprintf("mux %d is not served", i)
		}
		ctx, cancel := context.WithTimeout(c.Context(), wait.Limit)
		sight, err := c.sw.Read(ctx, bridgeName(i))
		cancel()
		if err != nil || sight.Err != nil || sight.Rejected != "" || sight.Flushed || sight.Building || sight.Mux != s.Mux {
			return fmt.Sprintf("mux %d: %+v is seen (error %v), and %+v served", i, sight, err, s)
		}
		if r := s.Read(sight.Flows, sight.Settings, s.State); r.State != s.State || !slices.Equal(r.Conditions, s.Conditions) {
			return fmt.Sprintf("mux %d: %v, %+v is said of %v, which reads as %+v", i, s.State, s.Conditions, sight.Flows, r)
		}
		if len(s.Conditions) > 0 {
			continue
		}
		if astray := c.packets().Astray(muxOf(i), s.State.Active.String(), Names(s.State.Dropped)...); astray != "" {
			return fmt.Sprintf("mux %d: %s", i, astray)
		}
	}
	return ""
}

// checkEvents checks that the events since the last time continue each mux's story, and end in what is served.
func (c *chaos) checkEvents() {
	c.Helper()
	events, last, complete := c.e.Journal.After(c.seq)
	if !complete && c.seq != 0 {
		c.Errorf("events after %d are missing", c.seq)
	}
	c.seq = last
	for _, ev := range events {
		if ev.From.String() != c.last[ev.Index].String() {
			c.Errorf("mux %d was %v, and event %d says that it was %v", ev.Index, c.last[ev.Index], ev.Seq, ev.From)
		}
		c.last[ev.Index] = ev.To
		switch {
		case ev.From == nil:
			c.flaps[ev.Index] = 0
		case ev.To != nil && ev.Cause == engine.API && ev.From.State.Active != ev.To.State.Active:
			c.flaps[ev.Index]++
		}
	}
	for i := range chaosMuxes {
		s := c.e.Snapshot(i)
		if now := (&engine.Moment{State: s.State, Conditions: s.Conditions}); now.String() != c.last[i].String() {
			c.Errorf("mux %d is %v, and its last event says %v", i, now, c.last[i])
		}
		if s.Flaps != c.flaps[i] {
			c.Errorf("mux %d: %d flaps are counted, its events say %d; after %v", i, s.Flaps, c.flaps[i], strings.Join(c.did, "; "))
		}
	}
}

// resetAll makes all muxes proper.
func (c *chaos) resetAll() {
	c.Helper()
	changes := map[int]cable.Change{}
	for i := range chaosMuxes {
		changes[i] = cable.Reset()
	}
	for i, res := range c.e.Do(c.Context(), changes, engine.Origin{Cause: engine.API}) {
		if res.Err != nil {
			c.Errorf("reset of mux %d: %v", i, res.Err)
		} else if !res.Snapshot.Healthy() {
			c.Errorf("mux %d after a reset: %q", i, res.Snapshot.Reason())
		}
	}
	c.quiet()
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
