// Package ovstest starts a private Open vSwitch for a test or a benchmark: its own database, its own ovs-vswitchd, in a
// folder of its own. Any number run at the same time. Nothing of a system's Open vSwitch is touched.
//
// It speaks to the switch by Open vSwitch's own tools only, so that tests check our code against something that shares
// nothing with it.
package ovstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// OVS is a running Open vSwitch. Its methods fail the test on any error, so they belong in the test's own goroutine.
type OVS struct {
	// RunDir holds db.sock and <bridge>.mgmt, as /var/run/openvswitch does on a server.
	RunDir string
	// Server is ovsdb-server, Vswitchd is ovs-vswitchd.
	Server, Vswitchd *Daemon

	tb       testing.TB
	datapath string // datapath_type of bridges: dummy, netdev or system
	netns    string // path of the network namespace; "" for the test's own
	nextVLAN int
	far      map[string]string // the far ends of ports, by port; nil without Veths
	gone     map[string]bool   // ports whose device was deleted
	runs     uint32            // of Send
}

// An Option changes how Start sets up the switch.
type Option func(*OVS)

// Userspace asks for the userspace datapath, which forwards real packets, in a network namespace of its own. Without it
// the datapath is the dummy one, which needs no root and no device. The test is skipped when it does not run as root.
func Userspace() Option { return func(o *OVS) { o.datapath = "netdev" } }

// DatapathVariable is the environment variable that puts every switch on another datapath than the test asks for, with veths
// for its ports: "system" is the kernel's, for machines that have the module; "netdev" is the userspace one. Tests are skipped
// where it cannot be had.
const DatapathVariable = "MUX_TEST_DATAPATH"

// kernelModule is there while the kernel's datapath is loaded.
const kernelModule = "/sys/module/openvswitch"

// Start starts a switch without bridges. It is stopped when the test ends; if the test failed, its logs are shown. Without
// Open vSwitch on the machine the test is skipped, or fails when CI=true.
func Start(tb testing.TB, opts ...Option) *OVS {
	tb.Helper()
	o := &OVS{tb: tb, nextVLAN: firstVLAN, datapath: "dummy"}
	for _, opt := range opts {
		opt(o)
	}
	switch want := os.Getenv(DatapathVariable); want {
	case "":
	case "system", "netdev":
		Veths()(o)
		o.datapath = want
	default:
		tb.Fatalf("%s=%q: want system, netdev, or nothing", DatapathVariable, want)
	}
	if _, err := lookTool("ovs-vswitchd"); err != nil {
		lack.Of(tb, "open vswitch is not installed: apt-get install openvswitch-switch")
	}
	if o.datapath != "dummy" && os.Geteuid() != 0 {
		lack.Of(tb, "this datapath of open vswitch needs root: "+o.datapath)
	}
	if _, err := os.Stat(kernelModule); err != nil && o.datapath == "system" {
		lack.Of(tb, "the kernel's datapath is not loaded: modprobe openvswitch")
	}

	// Not tb.TempDir: a unix socket's path holds at most 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "ovs")
	if err != nil {
		tb.Fatal(err)
	}
	o.RunDir = dir
	tb.Cleanup(o.cleanup)

	o.Server = &Daemon{o: o, name: "ovsdb-server", args: []string{
		o.path("conf.db"), "--remote=punix:" + o.path("db.sock"),
	}}
	o.Vswitchd = &Daemon{o: o, name: "ovs-vswitchd", args: []string{"unix:" + o.path("db.sock")}}
	if o.datapath != "dummy" {
		o.newNetns()
		o.Vswitchd.netns = o.netns
	} else {
		o.Vswitchd.args = append(o.Vswitchd.args, "--enable-dummy")
	}

	o.run("ovsdb-tool", "create", o.path("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema")
	o.Server.Start()
	o.run("ovs-vsctl", "--no-wait", "init")
	o.Vswitchd.Start()
	return o
}

// Vsctl runs ovs-vsctl, which waits until ovs-vswitchd has done what it says, and returns what it printed.
func (o *OVS) Vsctl(args ...string) string {
	o.tb.Helper()
	return o.run("ovs-vsctl", args...)
}

// Ofctl runs ovs-ofctl and returns what it printed.
func (o *OVS) Ofctl(args ...string) string {
	o.tb.Helper()
	return o.run("ovs-ofctl", args...)
}

// Appctl runs ovs-appctl on ovs-vswitchd and returns what it printed.
func (o *OVS) Appctl(args ...string) string {
	o.tb.Helper()
	return o.run("ovs-appctl", args...)
}

// Command returns a command that runs in the switch's environment: its OVS_RUNDIR, and its network namespace when it has
// one. The command is killed when it hangs, and when the test ends.
func (o *OVS) Command(name string, args ...string) *exec.Cmd {
	o.tb.Helper()
	return o.command(o.tb.Context(), o.netns, name, args...)
}

func (o *OVS) command(ctx context.Context, netns, name string, args ...string) *exec.Cmd {
	o.tb.Helper()
	path, err := lookTool(name)
	if err != nil {
		o.tb.Fatal(err)
	}
	argv := append([]string{path}, args...)
	if netns != "" {
		argv = append([]string{"nsenter", "--net=" + netns}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+o.RunDir, "OVS_LOGDIR="+o.RunDir, "OVS_DBDIR="+o.RunDir, "OVS_SYSCONFDIR="+o.RunDir)
	return cmd
}

func (o *OVS) run(name string, args ...string) string {
	o.tb.Helper()
	ctx, cancel := context.WithTimeout(o.tb.Context(), wait.Limit)
	defer cancel()
	cmd := o.command(ctx, "", name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		line := strings.Join(append([]string{name}, args...), " ")
		o.tb.Fatalf("%.300s: %v\n%s", line, errors.Join(err, context.Cause(ctx)), stderr.Bytes())
	}
	return string(out)
}

func (o *OVS) path(name string) string { return filepath.Join(o.RunDir, name) }

func (o *OVS) cleanup() {
	for _, d := range []*Daemon{o.Vswitchd, o.Server} {
		if d != nil && d.running() {
			d.Kill()
		}
	}
	if o.tb.Failed() {
		for _, name := range []string{"ovsdb-server.log", "ovs-vswitchd.log"} {
			o.tb.Logf("%s:\n%s", name, tail(o.path(name), 60))
		}
	}
	if err := os.RemoveAll(o.RunDir); err != nil {
		o.tb.Error(err)
	}
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// lookTool finds a program. The daemons live in sbin, which is not on everybody's PATH.
func lookTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// NetNS returns the path of the switch's network namespace, "" when it runs in the test's own.
func (o *OVS) NetNS() string { return o.netns }
