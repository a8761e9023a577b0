package ovsdb

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func names(v View) []string {
	var list []string
	for _, b := range v.Bridges {
		list = append(list, b.Name)
	}
	return list
}

// TestViewIsWhatTheDatabaseHolds compares what is told with what is read, after each of many changes.
func TestViewIsWhatTheDatabaseHolds(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	muxes := o.AddMuxes("vms17-8", 3)
	m, n := muxes[0], muxes[1]
	d, changes := open(t, o.RunDir+"/db.sock", wait.Limit)
	if err := d.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := wait.Receive(t, "what has changed", changes); !c.All {
		t.Errorf("told %+v, want that all was read", c)
	}
	for _, act := range []struct {
		name    string
		args    []string
		concern []string // bridges that must be named
	}{
		{"protocols", []string{"set", "Bridge", m.Bridge, "protocols=OpenFlow10,OpenFlow14"}, []string{m.Bridge}},
		{"fail_mode", []string{"set-fail-mode", m.Bridge, "secure"}, []string{m.Bridge}},
		{"a controller", []string{"set-controller", m.Bridge, "unix:" + o.RunDir + "/nobody"}, []string{m.Bridge}},
		{"stp", []string{"set", "Bridge", m.Bridge, "stp_enable=true"}, []string{m.Bridge}},
		{"no stp", []string{"set", "Bridge", m.Bridge, "stp_enable=false"}, []string{m.Bridge}},
		{"a side", []string{"set", "Port", m.Upper, "external_ids:mux-side=lower_tor"}, []string{m.Bridge}},
		{"a side of an interface", []string{"set", "Interface", m.Lower, "external_ids:mux-side=upper_tor"}, []string{m.Bridge}},
		{"a number", []string{"set", "Interface", m.Lower, "ofport_request=77"}, []string{m.Bridge}},
		{"a port gone", []string{"del-port", m.NIC}, []string{m.Bridge}},
		{"a bond", []string{"add-bond", m.Bridge, "bond0", "x1", "x2", "--", "set", "Interface", "x1", "type=dummy", "--", "set", "Interface", "x2", "type=dummy"}, []string{m.Bridge}},
		{"a mirror", []string{
			"--", "--id=@p", "get", "Port", n.Upper, "--", "--id=@m", "create", "Mirror", "name=m0", "select_all=true", "output_port=@p",
			"--", "set", "Bridge", n.Bridge, "mirrors=@m",
		}, []string{n.Bridge}},
		{"no mirror", []string{"clear", "Bridge", n.Bridge, "mirrors"}, []string{n.Bridge}},
		{"a bridge", []string{"add-br", "br-other", "--", "set", "Bridge", "br-other", "datapath_type=dummy"}, []string{"br-other"}},
		{"a bridge gone", []string{"del-br", n.Bridge}, []string{n.Bridge}},
		{"waiting for a restore", []string{"set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true"}, nil},
		{"not waiting", []string{"remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait"}, nil},
	} {
		drain(changes)
		o.Vsctl(act.args...)
		got, stale, err := d.Look(t.Context(), everyBridge)
		if err != nil || stale {
			t.Fatalf("%s: stale %v, error %v", act.name, stale, err)
		}
		told, err := d.View(everyBridge)
		if diff := cmp.Diff(got, told); diff != "" || err != nil {
			t.Errorf("%s: error %v, told (-read +told):\n%s", act.name, err, diff)
		}
		var named []string
		all := false
		for _, c := range drain(changes) {
			named = append(named, c.Bridges...)
			all = all || c.All
		}
		for _, bridge := range act.concern {
			if !slices.Contains(named, bridge) {
				t.Errorf("%s: told of %v, want %s", act.name, named, bridge)
			}
		}
		if slices.Contains(named, muxes[2].Bridge) || all != (act.concern == nil) {
			t.Errorf("%s: told of %v, all %v; want only what changed", act.name, named, all)
		}
	}
}

func drain(changes chan Change) (all []Change) {
	for {
		select {
		case c := <-changes:
			all = append(all, c)
		default:
			return all
		}
	}
}

// TestReconnect: an empty database, or one that is away, is no deletion of bridges.
func TestReconnect(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes("vms17-8", 1)[0]
	d, changes := open(t, o.RunDir+"/db.sock", wait.Limit)
	if err := d.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.Receive(t, "what has changed", changes)
	for range 3 {
		o.Server.Kill()
		for c := wait.Receive(t, "what has changed", changes); !c.All; c = wait.Receive(t, "what has changed", changes) {
		}
		// What was told may still have been the last fill.
		wait.For(t, "the database is away", func() bool {
			v, err := d.View(everyBridge)
			if err == nil && !slices.Equal(names(v), []string{m.Bridge}) {
				t.Errorf("bridges %v, want the one that was there, or an error", names(v))
			}
			return err != nil
		})
		if err := d.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "is ovsdb-server running") {
			t.Errorf("error %v, want what to do", err)
		}
		o.Server.Start()
		deadline := time.Now().Add(wait.Limit)
		for d.Connect(t.Context()) != nil && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if v, err := d.View(everyBridge); err != nil || !slices.Equal(names(v), []string{m.Bridge}) {
			t.Errorf("bridges %v, error %v; want the one that is there", names(v), err)
		}
	}
}

func TestSecureAndForget(t *testing.T) {
	t.Parallel()
	o := ovstest.Start(t)
	m := o.AddMuxes("vms17-8", 1)[0]
	o.Vsctl("set", "Bridge", m.Bridge, "external_ids:mux-agent-side=upper_tor", "external_ids:other=kept")
	d, _ := open(t, o.RunDir+"/db.sock", wait.Limit)
	if err := d.Secure(t.Context(), []Secured{{Bridge: m.Bridge, ExternalIDs: map[string]string{"mux-agent-side": "lower_tor"}}}); err != nil {
		t.Fatal(err)
	}
	ids := func() string { return strings.TrimSpace(o.Vsctl("get", "Bridge", m.Bridge, "external_ids")) }
	if got, want := ids(), `{mux-agent-side=lower_tor, other=kept}`; got != want {
		t.Errorf("external_ids %s, want %s", got, want)
	}
	if got := strings.TrimSpace(o.Vsctl("get-fail-mode", m.Bridge)); got != "secure" {
		t.Errorf("fail_mode %q, want secure", got)
	}
	if err := d.Forget(t.Context(), "mux-agent-side", []string{m.Bridge}); err != nil {
		t.Fatal(err)
	}
	if got, want := ids(), `{other=kept}`; got != want {
		t.Errorf("external_ids %s, want %s", got, want)
	}
}
