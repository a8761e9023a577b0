package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// A finding is one thing that doctor looked at.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Saw   string `json:"saw"`
	Do    string `json:"do,omitempty"` // what to do about it
}

func newDoctor() *cobra.Command {
	runDir := ""
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong on the test server, and say what to do about it",
		Long: `doctor runs on the test server, beside Open vSwitch and the agent. It looks who listens on the agent's port, whether Open
vSwitch's sockets are there and can be used, which OpenFlow the bridges speak, and what the agent says of its bridges: ports
that are missing, foreign flows, bridges that are not a usable mux. It changes nothing.

The exit code is 3 when it found something to do.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&runDir, "ovs-rundir", defaultRunDir(), "`directory` of Open vSwitch's sockets; also OVS_RUNDIR")
	r := addRemote(cmd)
	cmd.GroupID = groupServe
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := r.config()
		if err != nil {
			return usageError{err}
		}
		cfg.MaxElapsed = min(cfg.MaxElapsed, 3*time.Second) // an agent that is down is a finding, not a hiccup
		if r.client, err = client.New(cfg); err != nil {
			return usageError{err}
		}
		defer r.client.Close()
		d := doctor{remote: r, runDir: runDir}
		d.examine(cmd.Context())
		return d.report(cmd)
	}
	return cmd
}

// doctor gathers findings.
type doctor struct {
	*remote
	runDir   string
	findings []finding
}

func (d *doctor) ok(check, saw string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, OK: true, Saw: fmt.Sprintf(saw, args...)})
}

func (d *doctor) wrong(check, do, saw string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Saw: fmt.Sprintf(saw, args...), Do: do})
}

func (d *doctor) examine(ctx context.Context) {
	driver, overview := d.agent(ctx)
	if driver == simulated {
		d.ok("Open vSwitch", "the agent serves a simulated switch, so nobody looked for the sockets of Open vSwitch")
	} else {
		d.database(ctx)
		d.bridges(ctx)
	}
	d.vmSets(ctx, overview)
}

// database looks at the socket of ovsdb-server.
func (d *doctor) database(ctx context.Context) {
	const check = "OVS database"
	path := filepath.Join(d.runDir, "db.sock")
	if err := dial(ctx, path); err != nil {
		d.wrong(check, adviceOn(err, "start Open vSwitch (systemctl start openvswitch-switch), or name its directory with --ovs-rundir"), "%s: %v", path, reason(err))
		return
	}
	d.ok(check, "%s takes connections", path)
}

// bridges looks at the management sockets of the vm_set's bridges, of all muxes when no vm_set is named.
func (d *doctor) bridges(ctx context.Context) {
	const check = "OVS bridges"
	entries, err := os.ReadDir(d.runDir)
	if err != nil {
		d.wrong(check, adviceOn(err, "name Open vSwitch's directory with --ovs-rundir"), "%s: %v", d.runDir, reason(err))
		return
	}
	named := api.NewBridgeName(d.vmSet)
	var paths []string
	for _, e := range entries {
		bridge, isSocket := strings.CutSuffix(e.Name(), ".mgmt")
		if _, ok := named.Index(bridge); ok && isSocket {
			paths = append(paths, filepath.Join(d.runDir, e.Name()))
		}
	}
	if paths == nil {
		d.wrong(check, "build the testbed (testbed-cli.sh add-topo), or check --vm-set: bridges are called mbr-<vm_set>-<index>",
			"no bridge in %s is named like a mux", d.runDir)
		return
	}
	slices.SortFunc(paths, func(a, b string) int { return byIndex(bridgeOf(a), bridgeOf(b)) })
	var refused, deaf, silent []string
	var first error
	for path, err := range hellos(ctx, paths) {
		switch {
		case err == nil:
			continue
		case errors.Is(err, errNoOpenFlow14):
			deaf = append(deaf, bridgeOf(path))
		case errors.Is(err, errSilent):
			silent = append(silent, bridgeOf(path))
		default:
			refused = append(refused, bridgeOf(path))
		}
		if first == nil {
			first = err
		}
	}
	if refused != nil {
		d.wrong(check, adviceOn(first, "start ovs-vswitchd (systemctl restart openvswitch-switch)"), "%s can't be reached: %v", some(refused), reason(first))
	}
	if silent != nil {
		d.wrong(check, "look whether ovs-vswitchd and ovsdb-server run (ovs-vsctl show hangs when not)", "%s take connections and say nothing", some(silent))
	}
	if deaf != nil {
		d.wrong(check, "ovs-vsctl clear bridge "+deaf[0]+" protocols, and so for each", "%s exclude OpenFlow 1.4 by their protocols", some(deaf))
	}
	if refused == nil && deaf == nil && silent == nil {
		d.ok(check, "%d bridges can be reached and speak OpenFlow 1.4", len(paths))
	}
}

func bridgeOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".mgmt") }

// listener looks who has the agent's port, and reports whether it is worth asking.
func (d *doctor) listener() bool {
	const check = "listener"
	u, err := url.Parse(d.client.Endpoint())
	if err != nil {
		return true
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if !isLocal(host) {
		d.ok(check, "%s is not this server, so nobody looked who listens there", host)
		return true
	}
	who, err := listeners(port)
	switch {
	case err != nil:
		d.ok(check, "can't tell who listens on port %s: %v", port, err)
	case len(who) == 0:
		d.wrong(check, "start the agent (systemctl start mux-agent@<testbed>, or mux-agent serve), or name its address with --endpoint",
			"nobody listens on port %s", port)
		return false
	case slices.ContainsFunc(who, func(l string) bool { return strings.Contains(l, "mux_simulator") }):
		d.wrong(check, "stop the old service (systemctl disable --now mux-simulator-"+port+") and start the agent, or give the agent another port",
			"mux_simulator.py has port %s: %s", port, strings.Join(who, "; "))
	default:
		d.ok(check, "port %s: %s", port, strings.Join(who, "; "))
	}
	return true
}

// simulated is the driver of an agent without Open vSwitch.
const simulated = agent.DriverSimulated

// agent looks for the agent and asks it. driver is "" where it doesn't tell, and overview is nil.
func (d *doctor) agent(ctx context.Context) (driver string, overview *api.Overview) {
	const check = "agent"
	if !d.listener() {
		return "", nil
	}
	v, err := d.client.Version(ctx)
	if err != nil {
		d.wrong(check, "see its log (journalctl -u 'mux-agent@*'), and --endpoint", "%v", d.explain(err))
		return "", nil
	}
	d.ok(check, "mux-agent %s answers at %s", v.Version, d.client.Endpoint())
	all, err := d.client.Overview(ctx)
	if err != nil {
		d.wrong(check, "see its log", "%v", d.explain(err))
		return v.Driver, nil
	}
	return v.Driver, &all
}

// vmSets looks at what the agent serves.
func (d *doctor) vmSets(ctx context.Context, overview *api.Overview) {
	const check = "agent"
	if overview == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(overview.VMSets)) {
		d.served(ctx, name, overview.VMSets[name])
	}
	if _, ok := overview.VMSets[d.vmSet]; !ok && d.vmSet != "" {
		d.wrong(check, "serve it (--vm-set "+d.vmSet+"), or ask the agent that does", "it does not serve vm_set %s", d.vmSet)
	}
}

// served looks at one vm_set through the agent's eyes.
func (d *doctor) served(ctx context.Context, name string, v api.VMSet) {
	check := "vm_set " + name
	if !v.Ready {
		d.wrong(check, "mend what the agent waits for; it looks again by itself", "not ready: %s", v.Reason)
		return
	}
	for _, b := range v.Rejected {
		d.wrong(check, api.CureOfRejection(b.Bridge, b.Code), "bridge %s is not a usable mux: %s", b.Bridge, b.Reason)
	}
	muxes, err := d.client.All(ctx, name)
	if err != nil {
		d.wrong(check, "see the agent's log", "%v", d.explain(err))
		return
	}
	if len(muxes) == 0 {
		d.wrong(check, "build the testbed, or serve another vm_set", "it has no mux")
		return
	}
	healthy := 0
	for _, s := range byPort(muxes) {
		if s.Healthy {
			healthy++
		}
		d.port(check, s)
	}
	d.ok(check, "%d of %d ports are healthy", healthy, len(muxes))
}

// port tells what is to be known of one port. What leaves it healthy is worth a word, and nothing wrong; nor is a drop, which
// somebody asked for.
func (d *doctor) port(check string, s api.Status) {
	for _, c := range conditionsOf(s) {
		switch {
		case !s.Healthy && (api.Unhealthy(c.Code) || c.Code == ""):
			d.wrong(check, c.Cure, "port %d: %s", s.PortIndex, c.Reason)
		case c.Cure != "":
			d.ok(check, "port %d: %s; to mend it: %s", s.PortIndex, c.Reason, c.Cure)
		default:
			d.ok(check, "port %d: %s", s.PortIndex, c.Reason)
		}
	}
	if dropped := s.DroppedSides(); len(dropped) > 0 {
		d.ok(check, "port %d: drops %s, as somebody asked; mux-agent reset %d ends that", s.PortIndex, strings.Join(dropped, ","), s.PortIndex)
	}
}

func (d *doctor) report(cmd *cobra.Command) error {
	bad := 0
	for _, f := range d.findings {
		if !f.OK {
			bad++
		}
	}
	if d.json {
		if err := printJSON(cmd, d.findings); err != nil {
			return err
		}
	} else {
		out := newScreen(cmd.OutOrStdout())
		for _, f := range d.findings {
			mark := out.paint(green, "ok   ")
			if !f.OK {
				mark = out.paint(red, "WRONG")
			}
			_ = out.printf("%s  %-14s %s\n", mark, f.Check, f.Saw)
			if f.Do != "" {
				_ = out.printf("       %-14s %s %s\n", "", out.paint(yellow, "→"), f.Do)
			}
		}
	}
	if bad > 0 {
		return exitError{exitFound, fmt.Errorf("%d of %d findings ask for something to be done", bad, len(d.findings))}
	}
	return nil
}

// adviceOn says what to do about a socket that can't be used.
func adviceOn(err error, otherwise string) string {
	if errors.Is(err, fs.ErrPermission) {
		return "run it as root: Open vSwitch's sockets let nobody else in"
	}
	return otherwise
}

// reason cuts an error of the system to its cause.
func reason(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// some names a few of many.
func some(names []string) string {
	const few = 3
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}
