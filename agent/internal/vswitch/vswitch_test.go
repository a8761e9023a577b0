package vswitch_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/switchtest"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ofctl"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/cabletest"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(agentproc.Main{M: m})
}

const vmSet = "vms17-8"

func newSwitch(t testing.TB, o *ovstest.OVS, change ...func(*vswitch.Config)) *vswitch.Switch {
	t.Helper()
	return switchOf(t, config(t, o.RunDir, change...))
}

// switchOf returns a switch that is closed when the test ends.
func switchOf(t testing.TB, cfg vswitch.Config) *vswitch.Switch {
	t.Helper()
	s := vswitch.New(cfg)
	t.Cleanup(s.Close)
	return s
}

func config(t testing.TB, runDir string, change ...func(*vswitch.Config)) vswitch.Config {
	t.Helper()
	names, err := cable.NewNames(vmSet)
	if err != nil {
		t.Fatal(err)
	}
	cfg := vswitch.Config{
		RunDir: runDir, Names: names, Conn: ofctl.New(ofctl.Config{RunDir: runDir, Timeout: wait.Limit}),
		Timeout: wait.Limit, PollInterval: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

func keepFailMode(cfg *vswitch.Config) { cfg.KeepFailMode = true }

func discover(t *testing.T, s *vswitch.Switch) map[string]cable.Sight {
	t.Helper()
	sights, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byBridge := map[string]cable.Sight{}
	for _, sight := range sights {
		if sight.Err != nil {
			t.Errorf("%s: %v", sight.Bridge, sight.Err)
		}
		byBridge[sight.Bridge] = sight
	}
	return byBridge
}

func read(t *testing.T, s *vswitch.Switch, bridge string) cable.Sight {
	t.Helper()
	sight, err := s.Read(t.Context(), bridge)
	if err != nil {
		t.Fatal(err)
	}
	if sight.Err != nil {
		t.Fatal(sight.Err)
	}
	return sight
}

// apply does updates and returns the error of each.
func apply(t *testing.T, s *vswitch.Switch, updates ...cable.Update) []error {
	t.Helper()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(updates))
	s.Apply(updates, func(i int, err error) { answers <- answer{i, err} })
	errs := make([]error, len(updates))
	for range updates {
		select {
		case a := <-answers:
			errs[a.i] = a.err
		case <-time.After(wait.Limit):
			t.Fatal("an update was never answered")
		}
	}
	return errs
}

// settle makes the flows of a mux those of state, whatever is there.
func settle(t *testing.T, s *vswitch.Switch, m cable.Mux, state cable.State) {
	t.Helper()
	if err := apply(t, s, cable.Update{Bridge: m.Bridge, Want: m.Ports.Program(state, 0)})[0]; err != nil {
		t.Fatal(err)
	}
}

// checkCable asks the switch where packets go.
func checkCable(t *testing.T, o *ovstest.OVS, m ovstest.Mux, want cable.State) {
	t.Helper()
	cabletest.Switch(o.Trace).Check(t, m, want.Active.String(), switchtest.Names(want.Dropped)...)
}

func TestDiscoverAdoptsWhatStands(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	muxes := o.AddMuxes(vmSet, 120)
	o.AddMuxes("vms17", 2) // another testbed's, whose name begins alike
	o.SetTestbedFlows(muxes[:3]...)
	p := o.Ports(muxes[1].Bridge)
	o.Ofctl("del-flows", muxes[1].Bridge, "table=0,in_port="+fmt.Sprint(p[muxes[1].Upper]))
	o.Ofctl("add-flow", muxes[1].Bridge, fmt.Sprintf("in_port=%d,actions=output:%d", p[muxes[1].Lower], p[muxes[1].NIC]))

	s := newSwitch(t, o)
	sights := discover(t, s)
	if len(sights) != len(muxes) {
		t.Errorf("got %d bridges, want %d: %v", len(sights), len(muxes), slices.Sorted(maps.Keys(sights)))
	}
	for i, m := range muxes {
		sight := sights[m.Bridge]
		number := o.Ports(m.Bridge)
		want := cable.Mux{VMSet: vmSet, Index: i, Bridge: m.Bridge, Ports: cable.Ports{
			cable.NIC:   {Name: m.NIC, Number: number[m.NIC]},
			cable.Upper: {Name: m.Upper, Number: number[m.Upper]},
			cable.Lower: {Name: m.Lower, Number: number[m.Lower]},
		}}
		if diff := cmp.Diff(want, sight.Mux); diff != "" || sight.Rejected != "" {
			t.Errorf("%s: rejected %q, mux (-want +got):\n%s", m.Bridge, sight.Rejected, diff)
		}
		if !sight.Flushed {
			t.Errorf("%s: its flows were removed when fail_mode was set, but it is not said", m.Bridge)
		}
	}
	for i, want := range map[int]cable.Side{0: cable.UpperToR, 1: cable.LowerToR} {
		sight := sights[muxes[i].Bridge]
		if r := sight.Mux.Read(sight.Flows, cable.Settings{}, cable.State{Active: want.Other()}); !r.Proper || r.State != (cable.State{Active: want}) {
			t.Errorf("mux %d: flows %v read as %+v, want a proper cable with %v active", i, sight.Flows, r, want)
		}
	}
	if got, want := plain(sights[muxes[5].Bridge].Flows), []cable.Flow{{Action: cable.Normal}}; !slices.Equal(got, want) {
		t.Errorf("an untouched bridge has the flows %v, want %v", got, want)
	}
	if got := o.Ofctl("dump-flows", muxes[0].Bridge); strings.Contains(got, "actions") {
		t.Errorf("fail_mode is said to have removed the flows, but there are\n%s", got)
	}
	if got, want := strings.TrimSpace(o.Vsctl("get-fail-mode", muxes[119].Bridge)), "secure"; got != want {
		t.Errorf("fail_mode: got %q, want %q", got, want)
	}

	var updates []cable.Update
	for _, m := range muxes {
		updates = append(updates, cable.Update{Bridge: m.Bridge, Want: sights[m.Bridge].Mux.Ports.Program(cable.State{Active: cable.LowerToR}, 0)})
	}
	for i, err := range apply(t, s, updates...) {
		if err != nil {
			t.Errorf("mux %d: %v", i, err)
		}
	}
	for _, i := range []int{0, 5, 119} {
		checkCable(t, o, muxes[i], cable.State{Active: cable.LowerToR})
	}

	// Now nothing is left to prepare, and what was written is read back.
	for bridge, sight := range discover(t, s) {
		want := sight.Mux.Ports.Program(cable.State{Active: cable.LowerToR}, 0)
		if sight.Flushed || !want.Stands(sight.Flows) {
			t.Errorf("%s: flushed %v, flows %v; want them kept, and %v", bridge, sight.Flushed, sight.Flows, want)
		}
	}
}

func TestKeepFailMode(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 1)[0]
	o.SetTestbedFlows(m)
	if sight := discover(t, newSwitch(t, o, keepFailMode))[m.Bridge]; sight.Flushed {
		t.Error("flows were removed though fail_mode is to be kept")
	}
	if got := strings.TrimSpace(o.Vsctl("get-fail-mode", m.Bridge)); got != "" {
		t.Errorf("fail_mode: got %q, want none", got)
	}
	checkCable(t, o, m, cable.State{Active: cable.UpperToR})
}

func TestApplyFromStateToState(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 1)[0]
	s := newSwitch(t, o)
	mux := discover(t, s)[m.Bridge].Mux

	states := []cable.State{
		{Active: cable.UpperToR},
		{Active: cable.LowerToR},
		{Active: cable.LowerToR, Dropped: cable.RolesOf(cable.NIC)},
		{Active: cable.UpperToR, Dropped: cable.RolesOf(cable.NIC, cable.Upper)},
		{Active: cable.UpperToR, Dropped: cable.RolesOf(cable.Upper)},
		{Active: cable.LowerToR, Dropped: cable.AllRoles},
		{Active: cable.UpperToR},
	}
	settle(t, s, mux, states[0])
	checkCable(t, o, m, states[0])
	for i, state := range states[1:] {
		have, want := mux.Ports.Program(states[i], 0), mux.Ports.Program(state, 0)
		if err := apply(t, s, cable.Update{Bridge: m.Bridge, Want: want, Have: have, Known: true})[0]; err != nil {
			t.Fatalf("%v to %v: %v", states[i], state, err)
		}
		checkCable(t, o, m, state)
		if r := mux.Read(read(t, s, m.Bridge).Flows, cable.Settings{}, cable.State{Active: state.Active.Other()}); !r.Proper || r.State != state {
			t.Errorf("%v was written, and reads as %+v", state, r)
		}
	}
}

func TestUnknownFlowsAreReplaced(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 1)[0]
	s := newSwitch(t, o)
	mux := discover(t, s)[m.Bridge].Mux
	o.Ofctl("add-flow", m.Bridge, "table=0,priority=7,ip,actions=resubmit(,9)")
	o.Ofctl("add-flow", m.Bridge, "table=9,cookie=0x17,actions=NORMAL")
	o.Ofctl("add-flow", m.Bridge, "priority=40000,in_port=LOCAL,actions=LOCAL")
	if got := len(read(t, s, m.Bridge).Flows); got != 3 {
		t.Errorf("read %d flows, want 3", got)
	}
	settle(t, s, mux, cable.State{})
	checkCable(t, o, m, cable.State{})
	if got := read(t, s, m.Bridge).Flows; len(got) != 2 {
		t.Errorf("flows afterwards: %v, want the two of a mux", got)
	}
}

func TestRefusedChangeLeavesTheFlows(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	muxes := o.AddMuxes(vmSet, 2)
	s := newSwitch(t, o)
	sights := discover(t, s)
	var bad, good cable.Update
	for i, m := range muxes {
		mux := sights[m.Bridge].Mux
		settle(t, s, mux, cable.State{})
		u := cable.Update{Bridge: m.Bridge, Want: mux.Ports.Program(cable.State{Active: cable.LowerToR}, 0), Have: mux.Ports.Program(cable.State{}, 0), Known: true}
		if i == 0 {
			u.Want[1].Table = 254 // OVS keeps it to itself
			bad = u
		} else {
			good = u
		}
	}
	errs := apply(t, s, bad, good)
	refused, ok := errs[0].(*cable.SwitchError)
	if !ok || refused.Unknown || refused.Retryable || !strings.Contains(refused.Error(), "OFPBRC_EPERM") || !strings.Contains(refused.Error(), muxes[0].Bridge) {
		t.Errorf("got %#v, want a final error that names the bridge and has OVS's word OFPBRC_EPERM", errs[0])
	}
	if errs[1] != nil {
		t.Errorf("the other mux: %v", errs[1])
	}
	checkCable(t, o, muxes[0], cable.State{})
	checkCable(t, o, muxes[1], cable.State{Active: cable.LowerToR})
}

func TestBridgesThatAreNoMuxes(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	o.AddMux("mbr-vms17-8-0", "muxy-vms17-8-0", "a", "b")
	o.AddMux("mbr-vms17-8-1", "eth0", "eth1", "eth2")
	o.AddMux("mbr-vms17-8-2", "mu2", "c", "d")
	o.Vsctl("set", "Bridge", "mbr-vms17-8-2", "protocols=OpenFlow10,OpenFlow13")
	o.AddMux("mbr-vms17-8-3", "mu3", "e", "f")
	o.AddPort("mbr-vms17-8-3", "g")
	o.AddMux("mb-vms17-8-0", "mu0", "h", "i")  // the testbed's script would not name it so
	o.AddMux("mb-vms17-8-1", "mu1", "l", "m")  // mbr-vms17-8-1 is not a mux
	o.AddMux("mb-vms17-8-7", "mu7", "n", "o")  // neither is the testbed's
	o.AddMux("mbx-vms17-8-7", "mu8", "p", "q") // name for port 7
	o.AddMux("mbr-vms17-8-5", "mu5", "j", "k")
	o.Vsctl("set", "Bridge", "mbr-vms17-8-5", "protocols=OpenFlow10,OpenFlow14")

	got := map[string]string{}
	s := newSwitch(t, o)
	for bridge, sight := range discover(t, s) {
		got[bridge] = sight.Rejected
	}
	want := map[string]string{
		"mb-vms17-8-0":  "port index 0 is served by bridge mbr-vms17-8-0",
		"mbr-vms17-8-0": "",
		"mb-vms17-8-1":  "",
		"mbr-vms17-8-1": `no NIC: none of its ports (eth0, eth1, eth2) has a name that starts with "mu"`,
		"mbr-vms17-8-2": "its protocols (OpenFlow10,OpenFlow13) lack OpenFlow14: ovs-vsctl clear bridge mbr-vms17-8-2 protocols",
		"mbr-vms17-8-3": "it has 4 ports (e, f, g, mu3), a mux has 3; say which three by external_ids:mux-side of their interfaces",
		"mbr-vms17-8-5": "",
		"mb-vms17-8-7":  "",
		"mbx-vms17-8-7": "port index 7 is served by bridge mb-vms17-8-7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	for bridge, mode := range map[string]string{"mbr-vms17-8-0": "secure", "mb-vms17-8-0": ""} {
		if got := strings.TrimSpace(o.Vsctl("get-fail-mode", bridge)); got != mode {
			t.Errorf("fail_mode of %s: got %q, want %q", bridge, got, mode)
		}
	}
	for _, bridge := range []string{"mb-vms17-8-0", "mbr-vms17-8-0", "mb-vms17-8-7", "mbx-vms17-8-7"} {
		if got := read(t, s, bridge).Rejected; got != want[bridge] {
			t.Errorf("%s read alone: got %q, want %q", bridge, got, want[bridge])
		}
	}
	o.Vsctl("del-br", "mbr-vms17-8-0")
	if got := discover(t, s)["mb-vms17-8-0"].Rejected; got != "" {
		t.Errorf("the other bridge is gone, and this one still rejected: %s", got)
	}

	o.Vsctl("clear", "Bridge", "mbr-vms17-8-2", "protocols")
	if got := read(t, s, "mbr-vms17-8-2"); got.Rejected != "" {
		t.Errorf("still rejected after the command that mends it: %s", got.Rejected)
	}
}

func TestNamesWithoutPunctuation(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMux("mbr-vms17-8-0", "muxy0", "9", "10") // ovs-ofctl prints such names like numbers
	o.Vsctl("set", "Port", "10", "external_ids:mux-side=upper_tor", "--", "set", "Interface", "9", "external_ids:mux-side=lower_tor")
	m.Upper, m.Lower = m.Lower, m.Upper
	s := newSwitch(t, o)
	mux := discover(t, s)[m.Bridge].Mux
	if got := mux.Ports[cable.Upper].Name; got != "10" {
		t.Errorf("upper ToR is %q; external_ids say 10", got)
	}
	settle(t, s, mux, cable.State{Active: cable.LowerToR})
	checkCable(t, o, m, cable.State{Active: cable.LowerToR})
}

func TestPortWithoutDevice(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes(vmSet, 1)[0]
	s := newSwitch(t, o)
	old := discover(t, s)[m.Bridge].Mux
	settle(t, s, old, cable.State{})

	o.Vsctl("del-port", m.NIC)
	if o.HasVeths() {
		o.DeleteDevice(m.NIC)
	}
	if got := read(t, s, m.Bridge).Rejected; !strings.Contains(got, "2 ports") {
		t.Errorf("without its NIC the bridge is rejected with %q, want the number of its ports", got)
	}
	// ovs-vsctl says that the device is missing, and leaves the port in the database.
	if out, err := o.Command("ovs-vsctl", "add-port", m.Bridge, m.NIC).CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, out)
	}
	sight := read(t, s, m.Bridge)
	if got := sight.Mux.Ports[cable.NIC].Name + ": " + sight.Mux.Ports[cable.NIC].Fault; !strings.Contains(got, m.NIC) || !strings.Contains(got, "No such device") || sight.Mux.Ports.Numbered() {
		t.Errorf("fault is %q, ports %+v; want OVS's own words on %s", got, sight.Mux.Ports, m.NIC)
	}

	// It comes back under a number of its own; the testbed's test container did just that.
	o.Vsctl("del-port", m.NIC)
	if o.HasVeths() {
		o.MakeDevice(m.NIC)
	}
	o.AddPort(m.Bridge, m.NIC)
	again := read(t, s, m.Bridge).Mux
	if again.Ports[cable.NIC].Number == old.Ports[cable.NIC].Number || !again.Ports.Numbered() {
		t.Errorf("ports are %+v, want a new number for the NIC, which was %d", again.Ports, old.Ports[cable.NIC].Number)
	}
	settle(t, s, again, cable.State{})
	checkCable(t, o, m, cable.State{})
}

func TestReadGone(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	s := newSwitch(t, o)
	discover(t, s)
	sight, err := s.Read(t.Context(), "mbr-vms17-8-4")
	if err != nil || !sight.Gone || sight.Index != 4 {
		t.Errorf("got %+v and error %v, want a bridge with index 4 that is gone", sight, err)
	}
}

func TestReadPreparesOnceTheBridgeStoodStill(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	s := newSwitch(t, o)
	discover(t, s)
	m := o.AddMuxes(vmSet, 1)[0]
	if read(t, s, m.Bridge).Flushed {
		t.Error("a bridge never seen before was prepared at once")
	}
	o.SetTestbedFlows(m)
	if read(t, s, m.Bridge).Flushed {
		t.Error("a bridge that had changed was prepared")
	}
	var sight cable.Sight
	waitFor(t, "the bridge is prepared", func() bool {
		sight = read(t, s, m.Bridge)
		return sight.Flushed
	})
	if r := sight.Mux.Read(sight.Flows, cable.Settings{}, cable.State{Active: cable.LowerToR}); !r.Proper || r.State.Active != cable.UpperToR {
		t.Errorf("flows read as %+v; want the upper side known from before", r)
	}
	if got := read(t, s, m.Bridge); got.Flushed || len(got.Flows) != 0 {
		t.Errorf("afterwards flushed %v, flows %v; want neither", got.Flushed, got.Flows)
	}
	o.Vsctl("del-fail-mode", m.Bridge)
	if got, want := read(t, s, m.Bridge), []cable.Flow{{Action: cable.Normal}}; !got.Flushed || !slices.Equal(plain(got.Flows), want) {
		t.Errorf("without fail_mode again: flushed %v, flows %v; want it prepared at once, and %v", got.Flushed, got.Flows, want)
	}
}

// frozen is a Conn that tells, while it is frozen, what it told last.
type frozen struct {
	vswitch.Conn
	now   atomic.Bool
	flows []cable.Entry
	ports []openflow.Port
}

func (f *frozen) Flows(ctx context.Context, bridge string) (flows []cable.Entry, err error) {
	if !f.now.Load() {
		f.flows, err = f.Conn.Flows(ctx, bridge)
	}
	return f.flows, err
}

func (f *frozen) Ports(ctx context.Context, bridge string, fresh bool) (ports []openflow.Port, err error) {
	if !f.now.Load() {
		f.ports, err = f.Conn.Ports(ctx, bridge, fresh)
	}
	return f.ports, err
}

// Who reads a bridge while another reading prepares it hears that what it read is flushed, although the database says already
// that fail_mode is secure.
func TestReadWhileTheBridgeIsPrepared(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	var conn frozen
	s := newSwitch(t, o, func(cfg *vswitch.Config) {
		conn.Conn = cfg.Conn
		cfg.Conn = &conn
	})
	discover(t, s)
	m := o.AddMuxes(vmSet, 1)[0]
	o.SetTestbedFlows(m)
	read(t, s, m.Bridge)
	time.Sleep(1100 * time.Millisecond) // it stands still
	conn.now.Store(true)
	o.Vswitchd.Pause()
	sights := make(chan cable.Sight, 2)
	reading := func() {
		sight, err := s.Read(t.Context(), m.Bridge)
		if err != nil {
			t.Error(err)
		}
		sights <- sight
	}
	go reading()
	waitFor(t, "fail_mode is secure in the database", func() bool {
		return strings.TrimSpace(o.Vsctl("--no-wait", "get-fail-mode", m.Bridge)) == "secure"
	})
	go reading()
	select {
	case sight := <-sights:
		t.Errorf("a reading did not wait for the flush: flushed %v, %d flows", sight.Flushed, len(sight.Flows))
		sights <- sight
	case <-time.After(100 * time.Millisecond): // it can't end, but could if it did not wait
	}
	o.Vswitchd.Continue()
	for range 2 {
		if sight := wait.Receive(t, "a reading", sights); !sight.Flushed || sight.Unprepared || len(sight.Flows) != 2 {
			t.Errorf("flushed %v, unprepared %v, %d flows; want the two flows that were flushed", sight.Flushed, sight.Unprepared, len(sight.Flows))
		}
	}
	conn.now.Store(false)
	if sight := read(t, s, m.Bridge); sight.Flushed || len(sight.Flows) != 0 {
		t.Errorf("afterwards flushed %v, flows %v; want neither", sight.Flushed, sight.Flows)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	t.Run("no Open vSwitch", func(t *testing.T) {
		t.Parallel()
		checkDiscoverError(t, switchOf(t, config(t, t.TempDir())), "is it running", "OVS_RUNDIR")
	})
	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		lack.Root(t, "another user's rights are tried")
		o := ovstest.Start(t)
		// The rights of a thread alone, since a process that gave up root could not end the switch.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
		checkDiscoverError(t, newSwitch(t, o), "run as root", "permission denied")
	})
	t.Run("ovsdb-server killed", func(t *testing.T) {
		t.Parallel()
		o := ovstest.Start(t)
		o.Server.Kill()
		checkDiscoverError(t, newSwitch(t, o), "is ovsdb-server running")
	})
	t.Run("ovsdb-server hangs", func(t *testing.T) {
		t.Parallel()
		o := ovstest.Start(t)
		o.AddMuxes(vmSet, 1)
		o.Server.Pause()
		checkDiscoverError(t, newSwitch(t, o, func(cfg *vswitch.Config) { cfg.Timeout = 50 * time.Millisecond }), "no answer", "hang")
	})
	t.Run("ovs-vswitchd stopped", func(t *testing.T) {
		t.Parallel()
		o := ovstest.Start(t)
		o.AddMuxes(vmSet, 2)
		o.Vswitchd.Stop()
		checkDiscoverError(t, newSwitch(t, o), "is ovs-vswitchd running")
	})
}

func checkDiscoverError(t *testing.T, s *vswitch.Switch, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	sights, err := s.Discover(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("got %d bridges and error %v, want a timely error", len(sights), err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

// plain returns the flows of entries.
func plain(entries []cable.Entry) []cable.Flow {
	var flows []cable.Flow
	for _, e := range entries {
		flows = append(flows, e.Flow)
	}
	return flows
}
