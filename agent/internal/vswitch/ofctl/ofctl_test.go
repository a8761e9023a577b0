package ofctl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ofctl"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeOfctl puts a shell script in the place of ovs-ofctl. $dir is a folder of its own.
func fakeOfctl(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\ndir='%s'\n%s\n", dir, script)
	if err := os.WriteFile(filepath.Join(dir, "ovs-ofctl"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

func apply(t *testing.T, c *ofctl.Client, updates ...cable.Update) []error {
	t.Helper()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(updates))
	c.Apply(updates, func(i int, err error) { answers <- answer{i, err} })
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

var (
	ports = cable.Ports{cable.NIC: {Name: "mu0", Number: 1}, cable.Upper: {Name: "u", Number: 2}, cable.Lower: {Name: "l", Number: 3}}
	upper = ports.Program(cable.State{}, 0)
	lower = ports.Program(cable.State{Active: cable.LowerToR}, 0)
)

// TestBundle checks what ovs-ofctl is told, and that what would concern packets from everywhere is never told it.
func TestBundle(t *testing.T) {
	dir := fakeOfctl(t, `echo "$@" >>$dir/args; cat >>$dir/bundle`)
	c := ofctl.New(ofctl.Config{RunDir: "/run/x"})
	const adds = "add priority=32768,in_port=1,table=0,idle_timeout=0,cookie=0x6d75000000000000,actions=output:2,output:3\n" +
		"add priority=32768,in_port=3,table=0,idle_timeout=0,cookie=0x6d75000000000000,actions=output:1\n"
	foreign := cable.NewFlow(2, 1)
	foreign.Match = "ip"
	for _, tt := range []struct {
		name   string
		update cable.Update
		want   string // the bundle; "" when nothing may be sent
	}{
		{"swap", cable.Update{Want: lower, Have: upper, Known: true}, "delete in_port=2,table=0\n" + adds},
		{"nobody knows what stands", cable.Update{Want: lower}, "delete table=255\n" + adds},
		{
			"drop",
			cable.Update{Want: ports.Program(cable.State{Active: cable.LowerToR, Dropped: cable.AllRoles}, 0), Have: lower, Known: true},
			"add priority=32768,in_port=1,table=0,idle_timeout=0,cookie=0x6d75000000000000,actions=drop\nadd priority=32768,in_port=3,table=0,idle_timeout=0,cookie=0x6d75000000000000,actions=drop\n",
		},
		{"in-port 0 wanted", cable.Update{Want: cable.Program{upper[0], {Flow: cable.NewFlow(0, 1)}}}, ""},
		{"in-port 0 to delete", cable.Update{Want: lower, Have: cable.Program{upper[0], {Flow: cable.Flow{Priority: 32768}}}, Known: true}, ""},
		{"flow that no mux has", cable.Update{Want: cable.Program{upper[0], {Flow: foreign}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, f := range []string{"args", "bundle"} {
				os.Remove(filepath.Join(dir, f))
			}
			tt.update.Bridge = "mbr-vms1-1-0"
			err := apply(t, c, tt.update)[0]
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			bundle, _ := os.ReadFile(filepath.Join(dir, "bundle"))
			if diff := cmp.Diff(tt.want, string(bundle)); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
			if tt.want == "" {
				if failed, ok := err.(*cable.SwitchError); !ok || failed.Unknown || len(args) > 0 {
					t.Errorf("error %v, ran %q; want a known failure, and nothing run", err, args)
				}
				return
			}
			wantArgs := "--no-names --bundle add-flow --protocols=OpenFlow14 unix:/run/x/mbr-vms1-1-0.mgmt -\n"
			if diff := cmp.Diff(wantArgs, string(args)); diff != "" || err != nil {
				t.Errorf("error %v, arguments (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	type want struct {
		Unknown, Retryable bool
		Words              string
	}
	for _, tt := range []struct {
		name, script string
		want         want
	}{
		{
			"refused", `echo 'Error OFPBAC_BAD_OUT_GROUP for: OFPT_FLOW_MOD' >&2; exit 1`,
			want{false, false, "Error OFPBAC_BAD_OUT_GROUP for: OFPT_FLOW_MOD"},
		},
		{
			"refused by the parser, after a log line", `echo '2026-11-30T10:31:37Z|00001|ofp_port|WARN|port 65400 is reserved' >&2; echo 'ovs-ofctl: -:2: bad' >&2; exit 1`,
			want{false, false, "port 65400 is reserved; ovs-ofctl: -:2: bad"},
		},
		{
			"no bridge", `echo 'ovs-ofctl: connecting to unix:x.mgmt (No such file or directory)' >&2; exit 1`,
			want{false, true, "ovs-ofctl: connecting to unix:x.mgmt (No such file or directory)"},
		},
		{
			"connection broke", `echo 'ovs-ofctl: talking to unix:x.mgmt (End of file)' >&2; exit 1`,
			want{true, true, "ovs-ofctl: talking to unix:x.mgmt (End of file)"},
		},
		{"no word", `exit 3`, want{true, true, "ovs-ofctl: exit status 3"}},
		{"killed", `kill -9 $$`, want{true, true, "ovs-ofctl: signal: killed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeOfctl(t, tt.script)
			c := ofctl.New(ofctl.Config{Timeout: wait.Limit})
			check := func(err error, want want) {
				t.Helper()
				failed, ok := err.(*cable.SwitchError)
				if !ok {
					t.Fatalf("got %#v, want a *cable.SwitchError", err)
				}
				got := failed.Err.Error()
				if failed.Bridge != "br" || failed.Unknown != want.Unknown || failed.Retryable != want.Retryable || got != want.Words {
					t.Errorf("got %+v, want %+v", *failed, want)
				}
			}
			check(apply(t, c, cable.Update{Bridge: "br", Want: upper})[0], tt.want)
			_, err := c.Flows(t.Context(), "br")
			reading := tt.want
			reading.Unknown = false
			check(err, reading)
		})
	}
}

func TestOfctlIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := apply(t, ofctl.New(ofctl.Config{}), cable.Update{Bridge: "br", Want: upper})[0]
	if failed, ok := err.(*cable.SwitchError); !ok || failed.Unknown || !strings.Contains(err.Error(), "apt-get install openvswitch-switch") {
		t.Errorf("got %v, want what to install", err)
	}
}

// TestHangs checks that a hanging ovs-ofctl is killed, and that it is known which change may have been applied: the one
// that ran, not those that waited for their turn.
func TestHangs(t *testing.T) {
	dir := fakeOfctl(t, `touch $dir/ran.$$; exec sleep 600`)
	c := ofctl.New(ofctl.Config{Timeout: 200 * time.Millisecond, Processes: 1})
	updates := make([]cable.Update, 50)
	for i := range updates {
		updates[i] = cable.Update{Bridge: "br", Want: upper}
	}
	var ran, waited int
	for _, err := range apply(t, c, updates...) {
		failed, ok := err.(*cable.SwitchError)
		if !ok || !failed.Retryable {
			t.Fatalf("got %v, want a retryable *cable.SwitchError", err)
		}
		switch {
		case failed.Unknown && strings.Contains(err.Error(), "no answer within 200ms"):
			ran++
		case !failed.Unknown && strings.Contains(err.Error(), "nothing was done"):
			waited++
		default:
			t.Errorf("unknown %v: %v", failed.Unknown, err)
		}
	}
	// More than one may have run, for the moment between the end of one and their own.
	files, err := filepath.Glob(filepath.Join(dir, "ran.*"))
	if err != nil {
		t.Fatal(err)
	}
	if ran < len(files) || ran == 0 || waited == 0 {
		t.Errorf("%d are said to have run and %d to have waited; %d ran", ran, waited, len(files))
	}
}

func TestFlowsEndsWithItsContext(t *testing.T) {
	dir := fakeOfctl(t, `touch $dir/runs; exec sleep 600`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := ofctl.New(ofctl.Config{Timeout: wait.Limit}).Flows(ctx, "br")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestEndlessAnswer(t *testing.T) {
	fakeOfctl(t, `while :; do echo 'OFPST_FLOW reply (OF1.4): and so on and so on and so on and so on and so on and so on'; done | head -c 100000000`)
	c := ofctl.New(ofctl.Config{Timeout: wait.Limit})
	if flows, err := c.Flows(t.Context(), "br"); err == nil || !strings.Contains(err.Error(), "has no end") {
		t.Errorf("%d flows, error %v", len(flows), err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	fakeOfctl(t, `echo 'hello'`)
	if flows, err := ofctl.New(ofctl.Config{}).Flows(t.Context(), "br"); err == nil {
		t.Errorf("got %v, want an error", flows)
	}
}

func TestProcessesAreLimited(t *testing.T) {
	dir := fakeOfctl(t, `mkdir "$dir/runs.$$" && ls -d $dir/runs.* | wc -l >>$dir/count; sleep 0.05; rmdir "$dir/runs.$$"`)
	updates := make([]cable.Update, 20)
	for i := range updates {
		updates[i] = cable.Update{Bridge: "br", Want: upper}
	}
	for _, err := range apply(t, ofctl.New(ofctl.Config{Timeout: wait.Limit, Processes: 4}), updates...) {
		if err != nil {
			t.Fatal(err)
		}
	}
	counts, err := os.ReadFile(filepath.Join(dir, "count"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range strings.FieldsSeq(string(counts)) {
		if len(n) > 1 || n > "4" {
			t.Errorf("%s ran at once, want at most 4", n)
		}
	}
}

// TestReadsWhatOthersWrote reads flows of all sorts back from a real switch.
func TestReadsWhatOthersWrote(t *testing.T) {
	o := ovstest.Start(t)
	m := o.AddMux("br", "mu0", "u", "l")
	c := ofctl.New(ofctl.Config{RunDir: o.RunDir, Timeout: wait.Limit})
	check := func(want ...cable.Flow) {
		t.Helper()
		entries, err := c.Flows(t.Context(), "br")
		var got []cable.Flow
		for _, e := range entries {
			got = append(got, e.Flow)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, flows (-want +got):\n%s", err, diff)
		}
	}
	check(cable.Flow{Action: cable.Normal})

	n := o.Ports("br")
	for flow, want := range map[string]cable.Flow{
		fmt.Sprintf("in_port=%d,actions=output:%d,%d", n[m.NIC], n[m.Upper], n[m.Lower]): cable.NewFlow(n[m.NIC], n[m.Upper], n[m.Lower]),
		"priority=0,actions=NORMAL": {Action: cable.Normal},
		"priority=3,in_port=LOCAL,tcp,tp_dst=0x50/0xfff0,actions=controller:100": {
			Priority: 3, InPort: 0xfffffffe, Match: "tcp,tp_dst=0x50/0xfff0", Action: "CONTROLLER:100",
		},
		"table=7,cookie=0x8,idle_timeout=60,send_flow_rem,ct_state=+trk+est,actions=drop": {
			Table: 7, Priority: 32768, Match: "ct_state=+est+trk", IdleTimeout: 60, Flags: cable.FlagSendFlowRem,
		},
	} {
		o.Ofctl("del-flows", "br")
		o.Ofctl("-OOpenFlow14", "add-flow", "br", flow)
		check(want)
	}
}
