package vswitch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/digitalocean/go-openvswitch/ovsdb"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A database is Open vSwitch's configuration, served by ovsdb-server. It is dialled for each use: go-openvswitch's client
// does not reconnect.
type database struct {
	runDir  string
	timeout time.Duration // for one answer
}

// A bridge is what the database says of one, without its local port.
type bridge struct {
	name      string
	secure    bool // its fail_mode
	protocols []string
	ports     []cable.Candidate
}

// bridges reads those bridges whose name fits, or only the one that is named, with their ports.
//
// It takes three steps. What vanishes between two of them makes it start again.
func (d database) bridges(ctx context.Context, only string, fits func(name string) bool) ([]bridge, error) {
	var found []bridge
	err := d.session(ctx, func(s *session) (err error) {
		for range 3 {
			if found, err = s.bridges(only, fits); !errors.Is(err, errVanished) {
				return err
			}
		}
		return err
	})
	return found, err
}

var errVanished = errors.New("rows vanished while they were read")

func (s *session) bridges(only string, fits func(name string) bool) ([]bridge, error) {
	query := selectAll("Bridge", "name", "ports", "protocols", "fail_mode")
	if only != "" {
		query["where"] = []any{[]any{"name", "==", only}}
	}
	rows, err := s.transact(query)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row ovsdb.Row) bool { return !fits(str(row["name"])) })

	var portIDs, ifaceIDs []string
	for _, row := range rows {
		portIDs = append(portIDs, ids(row["ports"])...)
	}
	ports, err := s.byID("Port", portIDs, "name", "interfaces", "external_ids")
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		ifaceIDs = append(ifaceIDs, ids(port["interfaces"])...)
	}
	ifaces, err := s.byID("Interface", ifaceIDs, "name", "type", "ofport", "ifindex", "error", "external_ids")
	if err != nil {
		return nil, err
	}

	found := make([]bridge, len(rows))
	for i, row := range rows {
		b := bridge{name: str(row["name"]), secure: str(row["fail_mode"]) == "secure"}
		for _, p := range set(row["protocols"]) {
			b.protocols = append(b.protocols, str(p))
		}
		for _, id := range ids(row["ports"]) {
			if port := ports[id]; str(port["name"]) != b.name {
				b.ports = append(b.ports, candidate(port, ifaces))
			}
		}
		found[i] = b
	}
	return found, nil
}

// candidate reads a port, of which Open vSwitch keeps the device as an interface.
func candidate(port ovsdb.Row, ifaces map[string]ovsdb.Row) cable.Candidate {
	c := cable.Candidate{Port: cable.Port{Name: str(port["name"])}, Side: lookup(port["external_ids"], cable.SideKey)}
	interfaces := ids(port["interfaces"])
	if len(interfaces) != 1 {
		c.Fault = fmt.Sprintf("it is a bond of %d interfaces", len(interfaces))
		return c
	}
	iface := ifaces[interfaces[0]]
	if c.Side == "" {
		c.Side = lookup(iface["external_ids"], cable.SideKey)
	}
	// ofport is absent until Open vSwitch tried the device, and -1 when that failed.
	n, _ := iface["ofport"].(float64)
	// The userspace datapath keeps the number of a device that has gone from the kernel, and shows no index of it.
	index, _ := iface["ifindex"].(float64)
	gone := index == 0 && (str(iface["type"]) == "" || str(iface["type"]) == "system")
	switch {
	case n <= 0:
		c.Fault = str(iface["error"])
	case gone:
		c.Fault = "its network device is gone"
	default:
		c.Number = uint32(n)
	}
	return c
}

// secure makes fail_mode secure on bridges, in one step, and waits until ovs-vswitchd has done it.
func (d database) secure(ctx context.Context, bridges []string) error {
	ctx, cancel := context.WithTimeout(ctx, reconfigureTimeout)
	defer cancel()
	return d.session(ctx, func(s *session) error {
		var ops []op
		for _, name := range bridges {
			ops = append(ops, op{
				"op": "update", "table": "Bridge", "where": []any{[]any{"name", "==", name}}, "row": map[string]any{"fail_mode": "secure"},
			})
		}
		// ovs-vswitchd copies next_cfg to cur_cfg when it has done what the database said at that number.
		ops = append(ops, op{
			"op": "mutate", "table": rootTable, "where": []any{}, "mutations": []any{[]any{"next_cfg", "+=", 1}},
		}, selectAll(rootTable, "next_cfg"))
		rows, err := s.transact(ops...)
		if err != nil {
			return err
		}
		if len(rows) != 1 {
			return errRefused
		}
		want, _ := rows[0]["next_cfg"].(float64)
		for {
			rows, err := s.transact(selectAll(rootTable, "cur_cfg"))
			if err != nil {
				return fmt.Errorf("wait for ovs-vswitchd, is it running? %w", err)
			}
			if cur, _ := rows[0]["cur_cfg"].(float64); cur >= want {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("ovs-vswitchd has not done it within %v; is it running?", reconfigureTimeout)
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
}

// reconfigureTimeout is for ovs-vswitchd to take a change of a thousand bridges.
const reconfigureTimeout = 30 * time.Second
