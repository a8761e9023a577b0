package openflow

import (
	"fmt"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// Commands of a flow mod (ofp_flow_mod_command).
const (
	flowAdd          = 0
	flowDelete       = 3
	flowDeleteStrict = 4
)

// Values that mean everything or nothing (OFPTT_ALL, OFPP_ANY, OFPG_ANY, OFP_NO_BUFFER).
const (
	allTables = 0xff
	anyPort   = 0xffffffff
	anyGroup  = 0xffffffff
	noBuffer  = 0xffffffff
)

// lastPort is the highest number of a port that OVS gives to an interface. Numbers above are reserved, or refused.
const lastPort = 0xfeff

// Codes inside a flow mod (ofp_match_type, ofp_instruction_type, ofp_action_type).
const (
	matchOXM          = 1
	oxmInPort         = 0x80000004 // class basic, field in_port, no mask, 4 bytes
	instrApplyActions = 4
	actionOutput      = 0
	outputLen         = 16
)

// Codes of a bundle (ofp_bundle_ctrl_type, ofp_bundle_flags).
const (
	bundleOpen    = 0
	bundleCommit  = 4
	bundleDiscard = 6
	// bundleFlags make all messages of a bundle take effect in their order, and all or none.
	bundleFlags = 1<<0 | 1<<1
)

// appendFlowMod appends a flow mod, of the entry's table, priority and in-port. Deletes concern flows of any cookie, and have
// no instructions, nor has an add that drops.
func appendFlowMod(b []byte, xid uint32, command uint8, f *cable.Entry) []byte {
	start := len(b)
	b = appendHeader(b, typeFlowMod, xid)
	b = be.AppendUint64(b, uint64(f.Cookie))
	b = be.AppendUint64(b, 0) // the mask of a delete: any cookie
	b = append(b, f.Table, command)
	b = be.AppendUint16(b, f.IdleTimeout)
	b = be.AppendUint16(b, f.HardTimeout)
	b = be.AppendUint16(b, f.Priority)
	b = be.AppendUint32(b, noBuffer)
	b = be.AppendUint32(b, anyPort)
	b = be.AppendUint32(b, anyGroup)
	b = be.AppendUint16(b, f.Flags)
	b = be.AppendUint16(b, 0) // importance
	b = be.AppendUint16(b, matchOXM)
	if f.InPort == 0 {
		b = be.AppendUint16(b, 4)
		b = append(b, 0, 0, 0, 0)
	} else {
		b = be.AppendUint16(b, 12)
		b = be.AppendUint32(b, oxmInPort)
		b = be.AppendUint32(b, f.InPort)
		b = append(b, 0, 0, 0, 0)
	}
	if command == flowAdd && f.Out[0] != 0 {
		b = appendOutputs(b, f.Out)
	}
	return patchLength(b, start)
}

func appendOutputs(b []byte, out [2]uint32) []byte {
	n := 1
	if out[1] != 0 {
		n = 2
	}
	b = be.AppendUint16(b, instrApplyActions)
	b = be.AppendUint16(b, uint16(8+n*outputLen))
	b = append(b, 0, 0, 0, 0)
	for _, port := range out[:n] {
		b = be.AppendUint16(b, actionOutput)
		b = be.AppendUint16(b, outputLen)
		b = be.AppendUint32(b, port)
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return b
}

func appendBundleControl(b []byte, xid, id uint32, kind uint16) []byte {
	start := len(b)
	b = appendHeader(b, typeBundleControl, xid)
	b = be.AppendUint32(b, id)
	b = be.AppendUint16(b, kind)
	b = be.AppendUint16(b, bundleFlags)
	return patchLength(b, start)
}

// appendBundled appends a flow mod inside the message that adds it to a bundle. Both must carry one xid.
func appendBundled(b []byte, xid, id uint32, command uint8, f *cable.Entry) []byte {
	start := len(b)
	b = appendHeader(b, typeBundleAdd, xid)
	b = be.AppendUint32(b, id)
	b = be.AppendUint16(b, 0)
	b = be.AppendUint16(b, bundleFlags)
	b = appendFlowMod(b, xid, command, f)
	return patchLength(b, start)
}

// everything is what a flush deletes.
var everything = cable.Entry{Flow: cable.Flow{Table: allTables}}

// appendUpdate appends the bundle that does u: open, deletes, adds, commit. The messages bear the xids from xid on, of
// which it returns the last; the first one is the bundle's id. An error says what cannot be written, and then nothing is
// to be sent.
func appendUpdate(b []byte, xid uint32, u cable.Update) (frames []byte, last uint32, err error) {
	flush, del, add := u.Steps()
	for i := range u.Want {
		if err := addable(&u.Want[i].Flow); err != nil {
			return b, xid, err
		}
	}
	for _, f := range del {
		// Whatever cannot be told apart on the wire goes by a flush: only the wanted flows may remain.
		flush = flush || !deletable(f)
	}
	if flush {
		del, add = nil, u.Want
	}

	id := xid
	b = appendBundleControl(b, xid, id, bundleOpen)
	if flush {
		xid++
		b = appendBundled(b, xid, id, flowDelete, &everything)
	}
	for _, f := range del {
		xid++
		b = appendBundled(b, xid, id, flowDeleteStrict, &cable.Entry{Flow: f})
	}
	for i := range add {
		xid++
		b = appendBundled(b, xid, id, flowAdd, &add[i])
	}
	xid++
	return appendBundleControl(b, xid, id, bundleCommit), xid, nil
}

// addable says why this package does not add a flow. Above all one without an in-port, which would take every
// packet.
func addable(f *cable.Flow) error {
	switch {
	case f.Match != "" || f.Action != "":
		return fmt.Errorf("%w: %v is more than an in-port and outputs", errUnfit, f)
	case f.InPort == 0 || f.InPort > lastPort && f.InPort != cable.Local:
		return fmt.Errorf("%w: %v enters at no port of the bridge", errUnfit, f)
	case f.Out[0] > lastPort || f.Out[1] > lastPort || (f.Out[0] == 0 && f.Out[1] != 0):
		return fmt.Errorf("%w: %v leaves by no port of the bridge", errUnfit, f)
	case f.Table == allTables:
		return fmt.Errorf("%w: %v is in no table", errUnfit, f)
	}
	return nil
}

// deletable reports whether the flow can be named in a strict delete.
func deletable(f cable.Flow) bool {
	return f.Match == "" && (f.InPort <= lastPort || f.InPort == cable.Local) && f.Table != allTables
}

// appendTrial appends a bundle of every shape of flow mod that appendUpdate writes, and discards it. It uses the xids
// from xid on and returns the last. OVS checks a message when it is added to a bundle, by its bytes alone; but when it
// refuses one in a bundle that is already followed by its commit, it commits the rest. So shapes are tried beforehand.
func appendTrial(b []byte, xid uint32) (frames []byte, last uint32) {
	id := xid
	b = appendBundleControl(b, xid, id, bundleOpen)
	add := func(inPort uint32, kind cable.Kind, out ...uint32) cable.Entry {
		return cable.Entry{Flow: cable.NewFlow(inPort, out...), Cookie: cable.NewCookie(kind, 1)}
	}
	for _, shape := range [...]struct {
		command uint8
		entry   cable.Entry
	}{
		{flowDelete, everything},
		{flowDeleteStrict, cable.Entry{}},
		{flowDeleteStrict, cable.Entry{Flow: cable.NewFlow(1)}},
		{flowAdd, add(1, cable.Base)},
		{flowAdd, add(1, cable.Base, 2)},
		{flowAdd, add(1, cable.Base, 2, 3)},
		{flowAdd, add(cable.Local, cable.Placeholder)},
	} {
		xid++
		b = appendBundled(b, xid, id, shape.command, &shape.entry)
	}
	xid++
	return appendBundleControl(b, xid, id, bundleDiscard), xid
}

// appendFlowsRequest asks for all flows of all tables (ofp_flow_stats_request).
func appendFlowsRequest(b []byte, xid uint32) []byte {
	start := len(b)
	b = appendMultipartRequest(b, xid, multipartFlow)
	b = append(b, allTables, 0, 0, 0)
	b = be.AppendUint32(b, anyPort)
	b = be.AppendUint32(b, anyGroup)
	b = append(b, make([]byte, 4+16)...) // padding, any cookie
	b = be.AppendUint16(b, matchOXM)
	b = be.AppendUint16(b, 4)
	b = append(b, 0, 0, 0, 0)
	return patchLength(b, start)
}
