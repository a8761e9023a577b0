package ovsdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// The tables and columns that are read, and no others: statistics and the like change all the time.
const (
	tableBridge    = "Bridge"
	tablePort      = "Port"
	tableInterface = "Interface"
	tableMirror    = "Mirror"
	tableRoot      = "Open_vSwitch" // has one row
)

func columns() map[string][]string {
	return map[string][]string{
		tableBridge: {"name", "ports", "mirrors", "protocols", "fail_mode", "stp_enable", "rstp_enable", "controller", "external_ids"},
		tablePort:   {"name", "interfaces", "external_ids", "status", "rstp_status"},
		tableInterface: {
			"name", "type", "ofport", "ifindex", "error", "admin_state", "link_state", "external_ids",
		},
		tableMirror: {"output_port"},
		tableRoot:   {"other_config"},
	}
}

// A UUID names a row.
type UUID string

type bridgeRow struct {
	Name        text    `json:"name"`
	Ports       ids     `json:"ports"`
	Mirrors     ids     `json:"mirrors"`
	Protocols   texts   `json:"protocols"`
	FailMode    text    `json:"fail_mode"`
	STP         bool    `json:"stp_enable"`
	RSTP        bool    `json:"rstp_enable"`
	Controllers ids     `json:"controller"`
	ExternalIDs textMap `json:"external_ids"`
}

type portRow struct {
	Name        text    `json:"name"`
	Interfaces  ids     `json:"interfaces"`
	ExternalIDs textMap `json:"external_ids"`
	Status      textMap `json:"status"`
	RSTPStatus  textMap `json:"rstp_status"`
}

type interfaceRow struct {
	Name        text    `json:"name"`
	Type        text    `json:"type"`
	OFPort      number  `json:"ofport"`
	IfIndex     number  `json:"ifindex"`
	Error       text    `json:"error"`
	AdminState  text    `json:"admin_state"`
	LinkState   text    `json:"link_state"`
	ExternalIDs textMap `json:"external_ids"`
}

type mirrorRow struct {
	OutputPort ids `json:"output_port"`
}

type rootRow struct {
	OtherConfig textMap `json:"other_config"`
}

func (r rootRow) restoreWait() bool { return r.OtherConfig["flow-restore-wait"] == "true" }

// The following read a column's value (RFC 7047, 5.1), in which a set of one member is written as that member.

// set returns the members of a set.
func set(raw []byte) ([]json.RawMessage, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return []json.RawMessage{raw}, nil
	}
	tag, value, err := pair(raw)
	if err != nil {
		return nil, err
	}
	if tag != "set" { // the one member is a uuid
		return []json.RawMessage{raw}, nil
	}
	var members []json.RawMessage
	err = json.Unmarshal(value, &members)
	return members, err
}

// pair returns the tag and the value of ["uuid",…], ["set",…] or ["map",…].
func pair(raw []byte) (tag string, value json.RawMessage, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", nil, err
	}
	if len(parts) != 2 {
		return "", nil, fmt.Errorf("%.40q is not a value of a column", raw)
	}
	err = json.Unmarshal(parts[0], &tag)
	return tag, parts[1], err
}

type text string // "" when the set is empty

func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(t))
	}
	members, err := set(raw)
	if err != nil || len(members) == 0 {
		*t = ""
		return err
	}
	return json.Unmarshal(members[0], (*string)(t))
}

type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	members, err := set(raw)
	if err != nil {
		return err
	}
	*t = nil
	for _, m := range members {
		var s string
		if err := json.Unmarshal(m, &s); err != nil {
			return err
		}
		*t = append(*t, s)
	}
	return nil
}

type number int64 // 0 when the set is empty

func (n *number) UnmarshalJSON(raw []byte) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, (*int64)(n))
	}
	members, err := set(raw)
	if err != nil || len(members) == 0 {
		*n = 0
		return err
	}
	return json.Unmarshal(members[0], (*int64)(n))
}

type ids []UUID

func (l *ids) UnmarshalJSON(raw []byte) error {
	if id, ok := plainUUID(raw); ok {
		*l = ids{id}
		return nil
	}
	members, err := set(raw)
	if err != nil {
		return err
	}
	*l = nil
	for _, m := range members {
		if id, ok := plainUUID(m); ok {
			*l = append(*l, id)
			continue
		}
		tag, value, err := pair(m)
		if err != nil {
			return err
		}
		var id UUID
		if err := json.Unmarshal(value, &id); err != nil {
			return err
		}
		if tag != "uuid" {
			return fmt.Errorf("%.40q is not a uuid", m)
		}
		*l = append(*l, id)
	}
	return nil
}

// plainUUID reads ["uuid","36-characters"] as ovsdb-server writes it, which is most of what it writes.
func plainUUID(raw []byte) (id UUID, ok bool) {
	const before, length, after = `["uuid","`, 36, `"]`
	if len(raw) != len(before)+length+len(after) || string(raw[:len(before)]) != before || string(raw[len(before)+length:]) != after {
		return "", false
	}
	for _, c := range raw[len(before) : len(before)+length] {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return UUID(raw[len(before) : len(before)+length]), true
}

type textMap map[string]string

func (m *textMap) UnmarshalJSON(raw []byte) error {
	if string(raw) == `["map",[]]` {
		*m = nil
		return nil
	}
	tag, value, err := pair(raw)
	if err != nil {
		return err
	}
	if tag != "map" {
		return fmt.Errorf("%.40q is not a map", raw)
	}
	var pairs [][2]string
	if err := json.Unmarshal(value, &pairs); err != nil {
		return err
	}
	*m = nil
	for _, p := range pairs {
		if *m == nil {
			*m = textMap{}
		}
		(*m)[p[0]] = p[1]
	}
	return nil
}

// rows are the rows of all tables, as far as they were read. A crowded server has many that concern no testbed, so ports and
// interfaces stay as they came until somebody asks for them.
type rows struct {
	bridges    map[UUID]bridgeRow
	ports      map[UUID]json.RawMessage
	interfaces map[UUID]json.RawMessage
	mirrors    map[UUID]mirrorRow
	root       rootRow
	size       int // in bytes, as the rows came
	limit      int // of size

	named map[string]UUID // bridges
	owner map[UUID]UUID   // the bridge of a port or mirror, the port of an interface
	read  map[UUID]any    // ports and interfaces that were asked for
	whole map[UUID]Bridge // bridges that were asked for since the last change
	sizes map[UUID]int
}

// maxRows bounds all rows, in bytes.
const maxRows = 64 << 20

func newRows() *rows {
	return &rows{
		limit:   maxRows,
		bridges: map[UUID]bridgeRow{}, ports: map[UUID]json.RawMessage{}, interfaces: map[UUID]json.RawMessage{},
		mirrors: map[UUID]mirrorRow{}, named: map[string]UUID{}, owner: map[UUID]UUID{}, read: map[UUID]any{}, sizes: map[UUID]int{},
		whole: map[UUID]Bridge{},
	}
}

// updates are rows by table and identity; new is absent where a row went (RFC 7047, 4.1.6).
type updates map[string]map[UUID]struct {
	New json.RawMessage `json:"new"`
}

// fill takes all rows there are.
func (r *rows) fill(all updates) error {
	clear(r.whole)
	for _, table := range []string{tableRoot, tableMirror, tableBridge, tablePort, tableInterface} {
		for id, row := range all[table] {
			if err := r.put(table, id, row.New); err != nil {
				return fmt.Errorf("row %s of table %s: %w", id, table, err)
			}
		}
	}
	return nil
}

// apply takes changes, and returns the names of the bridges that they concern. root is true when they concern all.
func (r *rows) apply(all updates) (bridges []string, root bool, err error) {
	touched := map[string]bool{}
	before := map[UUID]any{}
	for _, changed := range all {
		for id := range changed {
			if old, ok := r.read[id]; ok {
				before[id] = old
			} else {
				touched[r.nameOf(id)] = true
			}
		}
	}
	restoring := r.root.restoreWait()
	if err := r.fill(all); err != nil {
		return nil, false, err
	}
	for table, changed := range all {
		for id := range changed {
			if old, ok := before[id]; ok {
				if now, err := r.typed(table, id); err == nil && same(old, now) {
					continue // but for how long it has been so
				}
			}
			touched[r.nameOf(id)] = true
		}
	}
	delete(touched, "") // what no bridge has; what a bridge lost, it names itself
	return slices.Sorted(maps.Keys(touched)), r.root.restoreWait() != restoring, nil
}

// nameOf returns the name of the bridge that a row belongs to, "" when it belongs to none.
func (r *rows) nameOf(id UUID) string {
	for range 3 { // an interface's port, and that one's bridge
		if b, ok := r.bridges[id]; ok {
			return string(b.Name)
		}
		id = r.owner[id]
	}
	return ""
}

// same compares what is read of two rows.
func same(a, b any) bool {
	p, ok := a.(portRow)
	q, also := b.(portRow)
	if ok && also {
		p.Status, q.Status = stpState(p.Status), stpState(q.Status)
		p.RSTPStatus, q.RSTPStatus = rstpState(p.RSTPStatus), rstpState(q.RSTPStatus)
		return reflect.DeepEqual(p, q)
	}
	return reflect.DeepEqual(a, b)
}

const (
	keySTP  = "stp_state"
	keyRSTP = "rstp_port_state"
)

func stpState(m textMap) textMap  { return textMap{keySTP: m[keySTP]} }
func rstpState(m textMap) textMap { return textMap{keyRSTP: m[keyRSTP]} }

// put takes one row; without raw it goes.
func (r *rows) put(table string, id UUID, raw json.RawMessage) error {
	if string(raw) == "null" {
		raw = nil
	}
	r.size += len(raw) - r.sizes[id]
	r.sizes[id] = len(raw)
	if raw == nil {
		delete(r.sizes, id)
	}
	if r.size > r.limit {
		return fmt.Errorf("the rows hold more than %d kB", r.limit>>10)
	}
	delete(r.read, id)
	switch table {
	case tableBridge:
		return r.putBridge(id, raw)
	case tablePort:
		return r.putPort(id, raw)
	case tableInterface:
		if raw == nil {
			delete(r.interfaces, id)
			return nil
		}
		r.interfaces[id] = raw
	case tableMirror:
		if raw == nil {
			delete(r.mirrors, id)
			return nil
		}
		var row mirrorRow
		err := json.Unmarshal(raw, &row)
		r.mirrors[id] = row
		return err
	case tableRoot:
		r.root = rootRow{}
		if raw != nil {
			return json.Unmarshal(raw, &r.root)
		}
	}
	return nil
}

func (r *rows) putBridge(id UUID, raw json.RawMessage) error {
	if old, ok := r.bridges[id]; ok {
		if r.named[string(old.Name)] == id {
			delete(r.named, string(old.Name))
		}
		r.disown(id, old.Ports)
		r.disown(id, old.Mirrors)
	}
	if raw == nil {
		delete(r.bridges, id)
		return nil
	}
	var row bridgeRow
	if err := json.Unmarshal(raw, &row); err != nil {
		return err
	}
	r.bridges[id] = row
	r.named[string(row.Name)] = id
	r.own(id, row.Ports)
	r.own(id, row.Mirrors)
	return nil
}

func (r *rows) putPort(id UUID, raw json.RawMessage) error {
	if old, ok := r.ports[id]; ok {
		var row struct {
			Interfaces ids `json:"interfaces"`
		}
		_ = json.Unmarshal(old, &row) // it could be read when it came
		r.disown(id, row.Interfaces)
	}
	if raw == nil {
		delete(r.ports, id)
		return nil
	}
	var row struct {
		Interfaces ids `json:"interfaces"`
	}
	if err := json.Unmarshal(raw, &row); err != nil {
		return err
	}
	r.ports[id] = raw
	r.own(id, row.Interfaces)
	return nil
}

func (r *rows) own(id UUID, members []UUID) {
	for _, m := range members {
		r.owner[m] = id
	}
}

func (r *rows) disown(id UUID, members []UUID) {
	for _, m := range members {
		if r.owner[m] == id {
			delete(r.owner, m)
		}
	}
}

// errVanished is about a row that another one names, and that is not there.
var errVanished = errors.New("the row is not there")

// typed returns a port or an interface.
func (r *rows) typed(table string, id UUID) (any, error) {
	if row, ok := r.read[id]; ok {
		return row, nil
	}
	var row any
	var err error
	switch table {
	case tablePort:
		row, err = decode[portRow](r.ports[id])
	case tableInterface:
		row, err = decode[interfaceRow](r.interfaces[id])
	default:
		err = errVanished
	}
	if err != nil {
		return nil, fmt.Errorf("table %s, row %s: %w", table, id, err)
	}
	r.read[id] = row
	return row, nil
}

func decode[T any](raw json.RawMessage) (row T, err error) {
	if raw == nil {
		return row, errVanished
	}
	err = json.Unmarshal(raw, &row)
	return row, err
}

// bridge returns a bridge with its ports, without its local one.
func (r *rows) bridge(id UUID) (Bridge, error) {
	if b, ok := r.whole[id]; ok {
		return b, nil
	}
	b, err := r.compose(id)
	if err == nil {
		r.whole[id] = b
	}
	return b, err
}

func (r *rows) compose(id UUID) (Bridge, error) {
	row := r.bridges[id]
	b := Bridge{
		Row: id, Name: string(row.Name), Secure: row.FailMode == "secure", Protocols: row.Protocols, STP: row.STP, RSTP: row.RSTP,
		Controller: len(row.Controllers) > 0, ExternalIDs: row.ExternalIDs,
	}
	var mirrored ids
	for _, m := range row.Mirrors {
		mirrored = append(mirrored, r.mirrors[m].OutputPort...)
	}
	for _, id := range row.Ports {
		port, err := r.port(id)
		if err != nil {
			return b, fmt.Errorf("bridge %s: %w", b.Name, err)
		}
		if port.Name == b.Name {
			continue
		}
		port.Mirror = slices.Contains(mirrored, id)
		b.Ports = append(b.Ports, port)
	}
	return b, nil
}

func (r *rows) port(id UUID) (Port, error) {
	v, err := r.typed(tablePort, id)
	if err != nil {
		return Port{}, err
	}
	row := v.(portRow)
	p := Port{Name: string(row.Name), ExternalIDs: row.ExternalIDs, STPState: row.Status[keySTP], RSTPState: row.RSTPStatus[keyRSTP]}
	for _, id := range row.Interfaces {
		v, err := r.typed(tableInterface, id)
		if err != nil {
			return p, err
		}
		row := v.(interfaceRow)
		p.Interfaces = append(p.Interfaces, Interface{
			Name: string(row.Name), Type: string(row.Type), OFPort: int(row.OFPort), IfIndex: int(row.IfIndex), Error: string(row.Error),
			AdminState: string(row.AdminState), LinkState: string(row.LinkState), ExternalIDs: row.ExternalIDs,
		})
	}
	return p, nil
}
