package vswitch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/openflow"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch/ovsdb"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A look is a Sight of one bridge by itself: another bridge of its port index is not considered.
type look struct {
	cable.Sight
	unprepared bool // its fail_mode is not secure, and shall be
}

// rememberedKey is the key in external_ids of a bridge that holds the side which was read before its flows were removed. Who
// finds an empty table, because the agent was killed in between, takes the side from it. The first change that is written
// removes it.
const rememberedKey = "mux-agent-side"

// openFlow14 is what protocols of a bridge must have, when they are restricted.
const openFlow14 = "OpenFlow14"

// read reads a bridge over OpenFlow and says what it is. With fresh, nothing that was told is believed.
func (s *Switch) read(ctx context.Context, b ovsdb.Bridge, restoreWait, fresh bool) look {
	index, _ := s.cfg.Names.Index(b.Name)
	l := look{unprepared: !b.Secure && !s.cfg.KeepFailMode}
	l.Sight = cable.Sight{
		Bridge: b.Name, Index: index, Asked: time.Now(), Remembered: b.ExternalIDs[rememberedKey], Row: string(b.Row),
		Settings: cable.Settings{
			Standalone: !b.Secure, Protocols: strings.Join(b.Protocols, ","), Controller: b.Controller, RestoreWait: restoreWait,
		},
	}
	switch {
	case b.RSTP:
		l.Settings.SpanningTree = "rstp"
	case b.STP:
		l.Settings.SpanningTree = "stp"
	}
	if !speaksOpenFlow14(b) {
		if _, err := cable.Identify(candidates(b, nil), nil); err != nil {
			l.reject(err) // which no protocols mend
			return l
		}
		l.Code = api.RejectedProtocols
		l.Rejected = fmt.Sprintf("its protocols (%s) lack %s: ovs-vsctl clear bridge %s protocols", l.Settings.Protocols, openFlow14, b.Name)
		return l
	}
	told := s.readOpenFlow(ctx, &l.Sight, fresh)
	ports, err := cable.Identify(candidates(b, told), l.Flows)
	if err != nil && l.Err != nil && len(b.Ports) > len(ports) {
		return l // its flows would tell which ports are the mux's
	}
	if err != nil {
		l.reject(err)
		return l
	}
	if failed, ok := errors.AsType[*cable.SwitchError](l.Err); ok && !failed.Retryable {
		l.Rejected, l.Code, l.Err = failed.Err.Error(), api.RejectedRefused, nil // it will not work until somebody mends it
		if _, excluded := errors.AsType[*openflow.VersionError](failed); excluded {
			l.Code = api.RejectedProtocols
		}
		return l
	}
	l.Mux = cable.Mux{VMSet: s.cfg.Names.VMSet(), Index: index, Bridge: b.Name, Ports: ports}
	m, _ := s.seenLast(b.Name)
	l.Unprepared = l.unprepared && l.Err == nil && m.mayPrepareAgain()
	return l
}

// reject says that the bridge is not a mux, which holds whether its flows could be read or not.
func (l *look) reject(err error) {
	l.Rejected, l.Code, l.Flows, l.Err = err.Error(), api.RejectedPorts, nil, nil
	if r, ok := errors.AsType[*cable.RejectionError](err); ok && r.Code != "" {
		l.Code = r.Code
	}
}

func speaksOpenFlow14(b ovsdb.Bridge) bool {
	return len(b.Protocols) == 0 || slices.Contains(b.Protocols, openFlow14)
}

// readOpenFlow reads the flows of one life of a bridge, and returns what OpenFlow says of its ports.
func (s *Switch) readOpenFlow(ctx context.Context, sight *cable.Sight, fresh bool) (ports []openflow.Port) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for {
		sight.Life = s.life(sight.Bridge)
		if sight.Flows, sight.Err = s.cfg.Conn.Flows(ctx, sight.Bridge); sight.Err == nil {
			ports, sight.Err = s.cfg.Conn.Ports(ctx, sight.Bridge, fresh)
		}
		if sight.Err != nil || s.life(sight.Bridge) == sight.Life {
			break
		}
	}
	slices.SortFunc(sight.Flows, compareFlows)
	return ports
}

// life tells one life of a bridge from another by when ovs-vswitchd made its socket, which it does when it starts, and when
// the bridge is made. It is 0 when there is none.
func (s *Switch) life(bridge string) int64 {
	info, err := os.Stat(filepath.Join(s.cfg.RunDir, bridge+".mgmt"))
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// candidates are the ports of a bridge, by what the database and OpenFlow say of them.
func candidates(b ovsdb.Bridge, told []openflow.Port) []cable.Candidate {
	list := make([]cable.Candidate, len(b.Ports))
	for i, port := range b.Ports {
		list[i] = candidate(b, port)
		c := &list[i]
		if j := slices.IndexFunc(told, func(p openflow.Port) bool { return c.Number != 0 && p.Number == c.Number }); j >= 0 {
			c.Down = c.Down || told[j].Down
			c.NoReceive, c.NoForward = told[j].NoReceive, told[j].NoForward
		}
		c.NoCarrier = c.NoCarrier && !c.Down
	}
	return list
}

func candidate(b ovsdb.Bridge, port ovsdb.Port) cable.Candidate {
	c := cable.Candidate{Port: cable.Port{Name: port.Name}, Side: port.ExternalIDs[cable.SideKey], Mirror: port.Mirror}
	if len(port.Interfaces) != 1 {
		c.Fault = fmt.Sprintf("it is a bond of %d interfaces", len(port.Interfaces))
		return c
	}
	iface := port.Interfaces[0]
	c.Side = cmp.Or(c.Side, iface.ExternalIDs[cable.SideKey])
	// The userspace datapath keeps the number of a device that has gone from the kernel, and shows no index of it.
	ofKernel := iface.Type == "" || iface.Type == "system"
	switch {
	case iface.OFPort <= 0:
		c.Fault = iface.Error
		return c
	case ofKernel && iface.IfIndex == 0:
		c.Fault = "its network device is gone"
		return c
	}
	c.Number = uint32(iface.OFPort)
	c.Down = iface.AdminState == down
	c.NoCarrier = iface.LinkState == down
	c.Blocked = blocked(b, port)
	return c
}

// down is a value of admin_state and link_state.
const down = "down"

// blocked returns the state of a port in which its spanning tree lets nothing pass.
func blocked(b ovsdb.Bridge, port ovsdb.Port) string {
	state := ""
	switch {
	case b.RSTP:
		state = port.RSTPState
	case b.STP:
		state = port.STPState
	}
	// Open vSwitch lets packets pass a port on which the spanning tree is disabled.
	if state = strings.ToLower(state); state == "forwarding" || state == "disabled" {
		return ""
	}
	return state
}

// compareFlows gives flows an order of their own, since Open vSwitch's is that of a hash table.
func compareFlows(a, b cable.Entry) int {
	return cmp.Or(
		cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.InPort, b.InPort),
		cmp.Compare(a.Match, b.Match),
	)
}
