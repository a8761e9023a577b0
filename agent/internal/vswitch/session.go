package vswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/digitalocean/go-openvswitch/ovsdb"
)

// A session is a few transactions on one connection.
type session struct {
	ctx     context.Context
	timeout time.Duration // for one answer
	conn    net.Conn
	client  *ovsdb.Client
}

func (d database) session(ctx context.Context, do func(*session) error) error {
	path := filepath.Join(d.runDir, "db.sock")
	err := func() error {
		dialing, cancel := context.WithTimeout(ctx, d.timeout)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(dialing, "unix", path)
		if err != nil {
			return err
		}
		ctx, lost := context.WithCancelCause(ctx)
		defer lost(nil)
		client, err := ovsdb.New(&failing{Conn: conn, lost: lost})
		if err != nil {
			conn.Close()
			return err
		}
		defer client.Close()
		return do(&session{ctx: ctx, timeout: d.timeout, conn: conn, client: client})
	}()
	return explain(err, path, d.timeout)
}

// explain says what to do about an error of the database.
func explain(err error, path string, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to open %s: run as root, or as a user who may: %w", path, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no Open vSwitch at %s: is it running, and is its run directory this one (--ovs-rundir, OVS_RUNDIR)? %w", path, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody serves %s: is ovsdb-server running? %w", path, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer on %s within %v; does ovsdb-server hang? %w", path, timeout, err)
	}
	return fmt.Errorf("the database of Open vSwitch at %s: %w", path, err)
}

// failing ends a session when its connection breaks. What waits for an answer, go-openvswitch's client does not tell; and
// it reads again without a pause for ever, unless the error is that of a closed connection: io.EOF too, in mid-message.
type failing struct {
	net.Conn
	lost context.CancelCauseFunc
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if err != nil {
		f.lost(fmt.Errorf("connection lost: %w", err))
		err = net.ErrClosed
	}
	return n, err
}

// rootTable has one row, in every database of Open vSwitch.
const rootTable = "Open_vSwitch"

// errRefused stands for the reason, which go-openvswitch does not tell: it drops the errors of single operations.
var errRefused = errors.New("the database refused the request, or lacks what was asked for")

// transact runs operations, all or none, and returns the rows of all selects.
func (s *session) transact(ops ...op) ([]ovsdb.Row, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	list := make([]ovsdb.TransactOp, len(ops), len(ops)+1)
	for i, o := range ops {
		list[i] = o
	}
	// What is after a failed operation is not run, so this row is the proof that all were.
	list = append(list, selectAll(rootTable, "db_version"))
	// The client's context does not reach its writes, which block when nobody reads.
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })()
	rows, err := s.client.Transact(ctx, rootTable, list)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errRefused
	}
	proof := rows[len(rows)-1]
	if _, ok := proof["db_version"]; !ok {
		return nil, errRefused
	}
	return rows[:len(rows)-1], nil
}

// byID reads the rows of a table that have the wanted identities.
func (s *session) byID(table string, wanted []string, columns ...string) (map[string]ovsdb.Row, error) {
	found := map[string]ovsdb.Row{}
	all := selectAll(table, append(columns, "_uuid")...)
	ops := []op{all}
	if len(wanted) < fewRows {
		ops = nil
		for _, id := range wanted {
			one := maps.Clone(all)
			one["where"] = []any{[]any{"_uuid", "==", []string{"uuid", id}}}
			ops = append(ops, one)
		}
	}
	rows, err := s.transact(ops...)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		for _, id := range ids(row["_uuid"]) {
			found[id] = row
		}
	}
	for _, id := range wanted {
		if found[id] == nil {
			return nil, fmt.Errorf("%w: %s %s", errVanished, table, id)
		}
	}
	return found, nil
}

// fewRows is how many rows are cheaper to ask for one by one than by reading a test server's whole table.
const fewRows = 20

// An op is an operation of a transaction (RFC 7047, 5.2). go-openvswitch's own Select can't name columns, and fetches all.
type op map[string]any

// MarshalJSON implements ovsdb.TransactOp.
func (o op) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any(o)) }

func selectAll(table string, columns ...string) op {
	return op{"op": "select", "table": table, "where": []any{}, "columns": slices.Clone(columns)}
}

// The following read a column's value (RFC 7047, 5.1), with a zero value for what is absent: a set of one member is written
// as that member, an empty one as ["set",[]].

func str(v any) string {
	s, _ := v.(string)
	return s
}

// tagged returns what follows the tag in a two-element list such as ["set",[…]].
func tagged(v any, tag string) (any, bool) {
	pair, ok := v.([]any)
	if !ok || len(pair) != 2 || pair[0] != tag {
		return nil, false
	}
	return pair[1], true
}

func set(v any) []any {
	members, ok := tagged(v, "set")
	if !ok {
		return []any{v}
	}
	list, _ := members.([]any)
	return list
}

func ids(v any) []string {
	var list []string
	for _, member := range set(v) {
		if id, ok := tagged(member, "uuid"); ok {
			list = append(list, str(id))
		}
	}
	return list
}

// lookup returns the value of a key in a map of strings.
func lookup(v any, key string) string {
	pairs, _ := tagged(v, "map")
	list, _ := pairs.([]any)
	for _, pair := range list {
		if value, ok := tagged(pair, key); ok {
			return str(value)
		}
	}
	return ""
}
