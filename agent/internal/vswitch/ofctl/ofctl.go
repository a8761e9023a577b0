// Package ofctl reads and writes the flows of bridges with go-openvswitch's client for the program ovs-ofctl: one process
// for each call. It is what `--driver ovs-ofctl` uses, and what tests check the native OpenFlow client against.
//
// It is the only package that runs processes. It must not know what a mux is, nor how bridges are found.
package ofctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
)

// Config says where the switch is and how it is spoken to.
type Config struct {
	RunDir    string        // folder with the bridges' management sockets, <bridge>.mgmt
	Timeout   time.Duration // for one call, waiting for its turn included; 0 means 3 seconds
	Processes int           // how many may run at once; 0 means 16
}

// A Client runs ovs-ofctl. All methods may be called at the same time.
type Client struct {
	cfg   Config
	turns chan struct{} // holds a token for each running process

	mu    sync.Mutex
	ports map[string][]openflow.Port // as they were read last, by bridge
}

// New returns a client. It starts nothing.
func New(cfg Config) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = 3 * time.Second
	}
	if cfg.Processes == 0 {
		cfg.Processes = 16
	}
	return &Client{cfg: cfg, turns: make(chan struct{}, cfg.Processes), ports: map[string][]openflow.Port{}}
}

// Flows returns all flows of a bridge, in all its tables. Errors are *cable.SwitchError.
func (c *Client) Flows(ctx context.Context, bridge string) ([]cable.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	p := &process{ctx: ctx, timeout: c.cfg.Timeout, turns: c.turns}
	_, err := p.client().OpenFlow.DumpFlows(c.target(bridge))
	if err == nil {
		var flows []cable.Entry
		if flows, err = parseDump(p.stdout); err == nil {
			return flows, nil
		}
	}
	failed := p.failure(bridge, "read flows", err)
	failed.Unknown = false // reading changes nothing
	return nil, failed
}

// Ports returns the ports of a bridge: with fresh as ovs-ofctl prints them now, and else as it did last, since each time costs
// a process. Errors are *cable.SwitchError.
func (c *Client) Ports(ctx context.Context, bridge string, fresh bool) ([]openflow.Port, error) {
	c.mu.Lock()
	ports, ok := c.ports[bridge]
	c.mu.Unlock()
	if ok && !fresh {
		return ports, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	p := &process{ctx: ctx, timeout: c.cfg.Timeout, turns: c.turns}
	err := p.run(nil, "ovs-ofctl", []string{"--protocols=OpenFlow14", "dump-ports-desc", c.target(bridge)})
	if err == nil {
		if ports, err = parsePorts(p.stdout); err == nil {
			c.mu.Lock()
			c.ports[bridge] = ports
			c.mu.Unlock()
			return ports, nil
		}
	}
	c.mu.Lock()
	delete(c.ports, bridge)
	c.mu.Unlock()
	failed := p.failure(bridge, "read ports", err)
	failed.Unknown = false
	return nil, failed
}

// Apply makes each bridge's flows those that its update wants, in one bundle per bridge. It returns at once and calls done
// from other goroutines, once for each update, with nil or a *cable.SwitchError.
func (c *Client) Apply(updates []cable.Update, done func(i int, err error)) {
	for i, u := range updates {
		go func() { done(i, c.apply(u)) }()
	}
}

func (c *Client) apply(u cable.Update) error {
	const op = "set flows"
	bundle, err := newBundle(u)
	if err != nil {
		return &cable.SwitchError{Bridge: u.Bridge, Op: op, Err: err}
	}
	// What has started is seen through, whoever asked for it: only the timeout ends it.
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	p := &process{ctx: ctx, timeout: c.cfg.Timeout, turns: c.turns}
	if err := p.client().OpenFlow.AddFlowBundle(c.target(u.Bridge), bundle); err != nil {
		return p.failure(u.Bridge, op, err)
	}
	return nil
}

// target names a bridge by its socket, which spares ovs-ofctl the search for it.
func (c *Client) target(bridge string) string {
	return "unix:" + filepath.Join(c.cfg.RunDir, bridge+".mgmt")
}

// everyTable is OFPTT_ALL, which a delete takes for all tables (OpenFlow 1.4, 7.3.4.1). go-openvswitch has AnyTable for that,
// but refuses a match that says nothing else.
const everyTable = 255

var errNoInPort = errors.New("a flow has no in-port, and would concern packets from everywhere; nothing was done")

// newBundle writes an update down. What it adds is of the shape of a mux's own flows.
//
// ovs-ofctl bundles can delete strictly, but go-openvswitch can't ask for it. A plain delete takes every flow from that
// in-port, so all wanted flows are added again, after it.
func newBundle(u cable.Update) (func(*ovs.FlowTransaction) error, error) {
	flush, del, _ := u.Steps()
	var remove []*ovs.MatchFlow
	if flush {
		remove = append(remove, &ovs.MatchFlow{Table: everyTable})
	}
	for _, f := range del {
		if f.InPort == 0 { // go-openvswitch leaves it out of the match
			return nil, errNoInPort
		}
		remove = append(remove, &ovs.MatchFlow{InPort: inPort(&f), Table: int(f.Table)})
	}
	var add []*ovs.Flow
	for _, f := range u.Want {
		if f.InPort == 0 {
			return nil, errNoInPort
		}
		if f.Match != "" || f.Action != "" || f.HardTimeout != 0 || f.Flags != 0 {
			return nil, fmt.Errorf("flow %v is not a mux's own", f)
		}
		add = append(add, &ovs.Flow{
			Priority: int(f.Priority), InPort: inPort(&f.Flow), Table: int(f.Table), Cookie: uint64(f.Cookie),
			IdleTimeout: int(f.IdleTimeout), Actions: actions(&f.Flow),
		})
	}
	return func(tx *ovs.FlowTransaction) error {
		tx.Delete(remove...)
		tx.Add(add...)
		return tx.Commit()
	}, nil
}

// inPort returns the in-port of a flow as go-openvswitch takes it.
func inPort(f *cable.Flow) int {
	if f.InPort == cable.Local {
		return ovs.PortLOCAL
	}
	return int(f.InPort)
}

func actions(f *cable.Flow) []ovs.Action {
	var outputs []ovs.Action
	for _, port := range f.Out {
		if port != 0 {
			outputs = append(outputs, ovs.Output(int(port)))
		}
	}
	if outputs == nil {
		return []ovs.Action{ovs.Drop()}
	}
	return outputs
}
