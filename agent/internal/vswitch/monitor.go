package vswitch

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"time"
)

// The pauses between attempts to connect to the database.
const (
	firstRedial = 5 * time.Millisecond
	lastRedial  = time.Second
)

// follow calls changed, which must not block, whenever the database may have changed in what a Sight is made of: when it was
// connected, when it says so, and, with told false, when the connection is lost. It returns when ctx ends. go-openvswitch's
// client has no monitor (RFC 7047, 4.1.5), and does not wait for a database that is away.
func (d database) follow(ctx context.Context, changed func(told bool)) {
	pause := firstRedial
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.runDir, "db.sock"))
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			if listen(conn, changed) {
				pause = firstRedial
				changed(false)
			}
			stop()
			conn.Close()
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastRedial)
		case <-ctx.Done():
		}
	}
}

// A notice is what the database sends on a connection with a monitor: the answer to the request, changes, and the question
// whether anybody is there (RFC 7047, 4.1.6 and 4.1.11).
type notice struct {
	ID     any    `json:"id"`
	Method string `json:"method"`
	Error  any    `json:"error"`
}

// listen asks for changes and calls changed at each, until the connection ends. It is false when it never heard anything.
func listen(conn net.Conn, changed func(told bool)) (heard bool) {
	columns := func(names ...string) []any {
		return []any{map[string]any{"columns": names, "select": map[string]bool{"initial": false}}}
	}
	write, read := json.NewEncoder(conn), json.NewDecoder(conn)
	err := write.Encode(map[string]any{"id": "follow", "method": "monitor", "params": []any{rootTable, nil, map[string]any{
		"Bridge":    columns("name", "ports", "protocols", "fail_mode"),
		"Port":      columns("name", "interfaces", "external_ids"),
		"Interface": columns("name", "type", "ofport", "ifindex", "error", "external_ids"),
	}}})
	for err == nil {
		var n notice
		if err = read.Decode(&n); err != nil {
			break
		}
		switch {
		case n.Method == "echo":
			err = write.Encode(map[string]any{"id": n.ID, "result": []any{}, "error": nil})
		case n.Error == nil:
			heard = true
			changed(true)
		}
	}
	return heard
}

// A cache keeps the bridges that a look at the database found, until the database tells of a change.
type cache struct {
	mu      sync.Mutex
	told    bool   // the database would tell
	changes uint64 // that it told
	bridges []bridge
	valid   bool
}

func (c *cache) changed(told bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.valid = told, false
	c.changes++
}

// read returns what is kept, or else what look finds.
func (c *cache) read(look func() ([]bridge, error)) ([]bridge, error) {
	c.mu.Lock()
	before := c.changes
	bridges, valid := c.bridges, c.valid
	c.mu.Unlock()
	if valid {
		return bridges, nil
	}
	bridges, err := look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bridges, c.valid = bridges, err == nil && c.told && c.changes == before
	return bridges, err
}
