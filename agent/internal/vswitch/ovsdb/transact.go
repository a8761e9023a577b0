package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// An operation of a transaction (RFC 7047, 5.2).
type operation map[string]any

// A result is what came of one: of a select, its rows.
type result struct {
	Rows []json.RawMessage `json:"rows"`
	Error
}

// transact runs operations, all or none, and returns the rows of all selects, one after the other. It fails when one of them
// failed, and when the whole was not committed, as with a full disk.
func (d *DB) transact(ctx context.Context, c *conn, ops ...operation) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	params := []any{tableRoot}
	for _, op := range ops {
		params = append(params, op)
	}
	var rows []json.RawMessage
	var failed error
	err := c.call(ctx, "transact", params, func(raw json.RawMessage) error {
		var results []*result
		if err := json.Unmarshal(raw, &results); err != nil {
			return err
		}
		// What comes after a failed operation is null. One more than there were operations is the commit (RFC 7047, 4.1.3).
		for _, r := range results {
			if r != nil && r.Text != "" {
				failed = &r.Error
				return nil
			}
		}
		if len(results) != len(ops) || slices.Contains(results, nil) {
			return fmt.Errorf("%d results of %d operations", len(results), len(ops))
		}
		for i, r := range results {
			if ops[i]["op"] == "select" && r.Rows == nil {
				return errors.New("a select without rows")
			}
			rows = append(rows, r.Rows...)
		}
		return nil
	})
	if err == nil && failed != nil {
		err = fmt.Errorf("the database refused the request: %w", failed)
	}
	return rows, err
}

func selectAll(table string, columns ...string) operation {
	return operation{"op": "select", "table": table, "where": []any{}, "columns": columns}
}

func where(op operation, column string, value any) operation {
	op["where"] = []any{[]any{column, "==", value}}
	return op
}

// Look reads the bridges whose name fits from the database itself. Where that is not what the database told, its connection is
// ended, to be made anew, and stale is true.
func (d *DB) Look(ctx context.Context, fits func(name string) bool) (v View, stale bool, err error) {
	for range 2 { // a change may come in between
		err := d.use(ctx, func(ctx context.Context, c *conn) (err error) {
			for range 3 { // what vanishes between two steps of a look makes it start again
				if v, err = d.look(ctx, c, fits); !errors.Is(err, errVanished) {
					return err
				}
			}
			return err
		})
		if err != nil {
			return View{}, false, err
		}
		told, err := d.View(fits)
		if err != nil || reflect.DeepEqual(told, v) {
			return v, false, err
		}
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.conn != nil {
		d.conn.end(errStale)
	}
	return v, true, nil
}

var errStale = errors.New("the database did not tell of all changes")

func (d *DB) look(ctx context.Context, c *conn, fits func(string) bool) (View, error) {
	table := newRows()
	all := columns()
	d.mu.RLock()
	held := map[string]int{tablePort: len(d.rows.ports), tableInterface: len(d.rows.interfaces), tableMirror: len(d.rows.mirrors)}
	d.mu.RUnlock()
	get := func(kind string, ids []UUID) error {
		columns := append([]string{"_uuid"}, all[kind]...)
		if len(ids) > 0 && held[kind] < fewForeign*len(ids) {
			return d.take(ctx, c, table, kind, []operation{selectAll(kind, columns...)}, len(ids))
		}
		var ops []operation
		for chunk := range slices.Chunk(ids, rowsAtOnce) {
			ops = ops[:0]
			for _, id := range chunk {
				ops = append(ops, where(selectAll(kind, columns...), "_uuid", []any{"uuid", id}))
			}
			if err := d.take(ctx, c, table, kind, ops, len(chunk)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := d.take(ctx, c, table, tableRoot, []operation{selectAll(tableRoot, append([]string{"_uuid"}, all[tableRoot]...)...)}, 1); err != nil {
		return View{}, err
	}
	if err := d.take(ctx, c, table, tableBridge, []operation{selectAll(tableBridge, append([]string{"_uuid"}, all[tableBridge]...)...)}, 0); err != nil {
		return View{}, err
	}
	var bridges, ports, mirrors, interfaces []UUID
	for id, b := range table.bridges {
		if fits(string(b.Name)) {
			bridges, ports, mirrors = append(bridges, id), append(ports, b.Ports...), append(mirrors, b.Mirrors...)
		}
	}
	if err := errors.Join(get(tablePort, ports), get(tableMirror, mirrors)); err != nil {
		return View{}, err
	}
	for _, id := range ports {
		row, err := table.typed(tablePort, id)
		if err != nil {
			return View{}, err
		}
		interfaces = append(interfaces, row.(portRow).Interfaces...)
	}
	if err := get(tableInterface, interfaces); err != nil {
		return View{}, err
	}
	return table.view(bridges)
}

// fewForeign is how many rows of a table may come for one that is wanted, before it is cheaper to ask for each by its identity.
const fewForeign = 4

// rowsAtOnce bounds a transaction, which ovsdb-server does not interrupt.
const rowsAtOnce = 500

// take reads rows of a table, at least so many.
func (d *DB) take(ctx context.Context, c *conn, table *rows, kind string, ops []operation, least int) error {
	found, err := d.transact(ctx, c, ops...)
	if err != nil {
		return err
	}
	if len(found) < least {
		return fmt.Errorf("%w: table %s", errVanished, kind)
	}
	for _, raw := range found {
		var row struct {
			UUID ids `json:"_uuid"`
		}
		if err := json.Unmarshal(raw, &row); err != nil || len(row.UUID) != 1 {
			return fmt.Errorf("%w: a row without identity: %w", errUnfit, err)
		}
		if err := table.put(kind, row.UUID[0], raw); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
	}
	return nil
}

// A Secured bridge is one whose fail_mode is made secure, and what is noted beside.
type Secured struct {
	Bridge      string
	ExternalIDs map[string]string
}

// Secure makes fail_mode secure on bridges and notes external_ids, in one transaction, and waits until ovs-vswitchd has done
// it. An error may come after it was done.
func (d *DB) Secure(ctx context.Context, bridges []Secured) error {
	ctx, cancel := context.WithTimeout(ctx, reconfigureTimeout)
	defer cancel()
	return d.use(ctx, func(ctx context.Context, c *conn) error {
		var ops []operation
		for _, b := range bridges {
			ops = append(ops, where(operation{"op": "update", "table": tableBridge, "row": map[string]any{"fail_mode": "secure"}}, "name", b.Bridge))
			if len(b.ExternalIDs) > 0 {
				ops = append(ops, mutateIDs(b.Bridge, slices.Sorted(maps.Keys(b.ExternalIDs)), b.ExternalIDs))
			}
		}
		// ovs-vswitchd copies next_cfg to cur_cfg when it has done what the database said at that number.
		ops = append(ops, operation{
			"op": "mutate", "table": tableRoot, "where": []any{}, "mutations": []any{[]any{"next_cfg", "+=", 1}},
		}, selectAll(tableRoot, "next_cfg"))
		want, err := d.number(ctx, c, "next_cfg", ops...)
		if err != nil {
			return err
		}
		for {
			cur, err := d.number(ctx, c, "cur_cfg", selectAll(tableRoot, "cur_cfg"))
			if err != nil {
				return fmt.Errorf("wait for ovs-vswitchd, is it running? %w", err)
			}
			if cur >= want {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("ovs-vswitchd has not done it within %v; is it running?", reconfigureTimeout)
			case <-time.After(5 * time.Millisecond): // cur_cfg is not followed, as it changes with each change of anybody
			}
		}
	})
}

// reconfigureTimeout is for ovs-vswitchd to take a change of a thousand bridges.
const reconfigureTimeout = 30 * time.Second

// number runs operations that return one row, and reads a number in it.
func (d *DB) number(ctx context.Context, c *conn, column string, ops ...operation) (int64, error) {
	rows, err := d.transact(ctx, c, ops...)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("%w: %d rows of a table that has one", errUnfit, len(rows))
	}
	var row map[string]number
	if err := json.Unmarshal(rows[0], &row); err != nil {
		return 0, fmt.Errorf("%w: %w", errUnfit, err)
	}
	return int64(row[column]), nil
}

// Forget removes a key from the external_ids of bridges.
func (d *DB) Forget(ctx context.Context, key string, bridges []string) error {
	return d.use(ctx, func(ctx context.Context, c *conn) error {
		var ops []operation
		for _, name := range bridges {
			ops = append(ops, mutateIDs(name, []string{key}, nil))
		}
		_, err := d.transact(ctx, c, ops...)
		return err
	})
}

// mutateIDs removes keys from the external_ids of a bridge, and then adds some.
func mutateIDs(bridge string, remove []string, add map[string]string) operation {
	mutations := []any{[]any{"external_ids", "delete", []any{"set", remove}}}
	if len(add) > 0 {
		var pairs [][2]string
		for _, key := range slices.Sorted(maps.Keys(add)) {
			pairs = append(pairs, [2]string{key, add[key]})
		}
		mutations = append(mutations, []any{"external_ids", "insert", []any{"map", pairs}})
	}
	return where(operation{"op": "mutate", "table": tableBridge, "mutations": mutations}, "name", bridge)
}
