// Package ovsdb is the database of an Open vSwitch (OVSDB, RFC 7047): typed rows of its bridges, kept as it tells them
// (monitor), and transactions that are checked.
//
// It owns one connection to db.sock, which whoever needs it opens again when it has ended. What the rows mean for a mux it
// must not know. It trusts the peer in nothing: what is not an answer, or longer than answers are, ends the connection.
//
// ovn-kubernetes/libovsdb v0.8.1 was tried for this. It ends the whole process at {"id":null}, at null, and at an update3
// without parameters, which its own goroutine reads; an endless string took 2.3 GB in five seconds; after a loss its cache
// answers with the old rows, and Connected with true; what it could not read of an update it drops without a word.
package ovsdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Bridge is what the database says of one, with its ports but for the local one.
type Bridge struct {
	Row         UUID
	Name        string
	Secure      bool // its fail_mode
	Protocols   []string
	STP, RSTP   bool
	Controller  bool
	ExternalIDs map[string]string
	Ports       []Port
}

// A Port of a bridge has one interface, unless it is a bond.
type Port struct {
	Name                string
	ExternalIDs         map[string]string
	STPState, RSTPState string // "" where no spanning tree runs
	Mirror              bool   // a mirror of the bridge sends its packets here
	Interfaces          []Interface
}

// An Interface is a network device.
type Interface struct {
	Name, Type            string
	OFPort                int // 0 until Open vSwitch tried the device, negative when that failed
	IfIndex               int // 0 where there is none
	Error                 string
	AdminState, LinkState string // "up", "down", or "" where nobody knows
	ExternalIDs           map[string]string
}

// A View is bridges at one moment.
type View struct {
	Bridges     []Bridge
	RestoreWait bool // other_config:flow-restore-wait of Open vSwitch is true
}

// A Change is what the database told, or that it tells no more.
type Change struct {
	All     bool     // anything may have changed: the rows were read anew, or the connection is lost
	Bridges []string // that are concerned, by name
}

// Config is what a DB needs.
type Config struct {
	Path    string        // of the socket
	Timeout time.Duration // for one answer
	// Changed is called for each change while there is a connection. It must not block, nor call the DB.
	Changed func(Change)
}

// A DB is the database. All methods may be called at the same time.
type DB struct {
	cfg Config

	opening sync.Mutex // held while a connection is made
	failed  error      // why the last attempt failed
	nextTry time.Time  // before which that is not done again
	pause   time.Duration

	mu     sync.RWMutex
	conn   *conn // nil while there is none
	rows   *rows // of conn
	closed bool
}

// New returns a DB without a connection.
func New(cfg Config) *DB { return &DB{cfg: cfg} }

// The pauses between attempts to connect. Each is drawn between a half and the whole, so that many agents don't come at once.
// A peer that is not a database costs work at each attempt, and gets longer ones.
const (
	firstRedial = 5 * time.Millisecond
	lastRedial  = time.Second
	unfitRedial = 5 * time.Second
)

// Close ends the connection. The DB is of no use any more.
func (d *DB) Close() {
	d.mu.Lock()
	c := d.conn
	d.closed, d.conn = true, nil
	d.mu.Unlock()
	if c != nil {
		c.close()
	}
	d.opening.Lock() // an attempt under way ends by itself
	d.failed = errClosed
	d.opening.Unlock()
}

// Connect sees to it that there is a connection and that all rows are known. The error of an attempt stands until it is time
// for the next one.
func (d *DB) Connect(ctx context.Context) error {
	if d.connected() {
		return nil
	}
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.connected() {
		return nil
	}
	if d.failed != nil && time.Now().Before(d.nextTry) {
		return d.failed
	}
	err := d.explain(d.open(ctx))
	if ctx.Err() != nil && err != nil {
		return err // somebody gave up: no word on the database
	}
	d.failed = err
	if err == nil {
		return nil
	}
	longest := lastRedial
	if errors.Is(err, errUnfit) {
		longest = unfitRedial
	}
	d.pause = min(max(2*d.pause, firstRedial), longest)
	d.nextTry = time.Now().Add(d.pause/2 + rand.N(d.pause/2))
	return err
}

// Pause is how long it takes until Connect tries again after it failed.
func (d *DB) Pause() time.Duration {
	d.opening.Lock()
	defer d.opening.Unlock()
	return time.Until(d.nextTry)
}

func (d *DB) connected() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.conn != nil && d.conn.failure() == nil
}

// open dials, and has the database tell all rows and then all changes of them.
func (d *DB) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	sock, err := new(net.Dialer).DialContext(ctx, "unix", d.cfg.Path)
	if err != nil {
		return err
	}
	var c *conn
	table := newRows()
	told := false
	update := func(params json.RawMessage) error {
		var both []json.RawMessage
		var changed updates
		if err := json.Unmarshal(params, &both); err != nil {
			return err
		}
		if len(both) != 2 || !told {
			return fmt.Errorf("%w: an update of nothing that was asked for", errUnfit)
		}
		if err := json.Unmarshal(both[1], &changed); err != nil {
			return err
		}
		d.mu.Lock()
		bridges, all, err := table.apply(changed)
		d.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		if all || len(bridges) > 0 {
			d.cfg.Changed(Change{All: all, Bridges: bridges})
		}
		return nil
	}
	c = newConn(sock, d.cfg.Timeout, update)
	requests := map[string]any{}
	for table, names := range columns() {
		requests[table] = []any{map[string]any{"columns": names}}
	}
	err = c.call(ctx, "monitor", []any{tableRoot, nil, requests}, func(result json.RawMessage) error {
		var all updates
		if err := json.Unmarshal(result, &all); err != nil {
			return err
		}
		if len(all[tableRoot]) == 0 {
			return errors.New("the database is empty")
		}
		told = true
		return table.fill(all)
	})
	if err != nil {
		c.close()
		return err
	}
	c.reading.Go(func() {
		<-c.ended
		d.cfg.Changed(Change{All: true})
	})
	d.mu.Lock()
	old, closed := d.conn, d.closed
	if !closed {
		d.conn, d.rows = c, table
	}
	d.mu.Unlock()
	if closed {
		c.close()
		return errClosed
	}
	if old != nil {
		old.close()
	}
	d.pause = 0
	d.cfg.Changed(Change{All: true})
	return nil
}

// explain says what to do about an error.
func (d *DB) explain(err error) error {
	path := d.cfg.Path
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
		return fmt.Errorf("no answer on %s within %v; does ovsdb-server hang? %w", path, d.cfg.Timeout, err)
	}
	return fmt.Errorf("the database of Open vSwitch at %s: %w", path, err)
}

// View returns the bridges whose name fits, as the database tells them. It fails while there is no connection.
func (d *DB) View(fits func(name string) bool) (View, error) {
	return d.view(func(r *rows) []UUID {
		var found []UUID
		for name, id := range r.named {
			if fits(name) {
				found = append(found, id)
			}
		}
		return found
	})
}

// Bridge returns one bridge, or none, as View does.
func (d *DB) Bridge(name string) (View, error) {
	return d.view(func(r *rows) []UUID {
		if id, ok := r.named[name]; ok {
			return []UUID{id}
		}
		return nil
	})
}

func (d *DB) view(pick func(*rows) []UUID) (View, error) {
	d.mu.Lock() // rows that nobody asked for yet are read now
	defer d.mu.Unlock()
	if d.conn == nil {
		return View{}, d.explain(errNone)
	}
	if err := d.conn.failure(); err != nil {
		return View{}, d.explain(err)
	}
	v, err := d.rows.view(pick(d.rows))
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnfit, err)
		d.conn.end(err)
		return View{}, d.explain(err)
	}
	return v, nil
}

var errNone = errors.New("there is no connection")

func (r *rows) view(bridges []UUID) (View, error) {
	v := View{RestoreWait: r.root.restoreWait()}
	for _, id := range bridges {
		b, err := r.bridge(id)
		if err != nil {
			return v, err
		}
		v.Bridges = append(v.Bridges, b)
	}
	slices.SortFunc(v.Bridges, func(a, b Bridge) int { return cmp.Compare(a.Name, b.Name) })
	return v, nil
}

// Sync sees to it that View shows what the database holds now. It connects where that is due, and else asks for a sign of
// life: ovsdb-server sends what it has to tell before it takes the next request of a connection.
func (d *DB) Sync(ctx context.Context) error {
	if !d.connected() {
		return d.Connect(ctx)
	}
	return d.use(ctx, func(ctx context.Context, c *conn) error {
		ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
		defer cancel()
		return c.call(ctx, "echo", []any{}, nil)
	})
}

// use runs f on the connection, and ends it when the database does not answer.
func (d *DB) use(ctx context.Context, f func(context.Context, *conn) error) error {
	if err := d.Connect(ctx); err != nil {
		return err
	}
	d.mu.RLock()
	c := d.conn
	d.mu.RUnlock()
	if c == nil {
		return d.explain(errClosed)
	}
	err := f(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		c.end(err)
	}
	return d.explain(err)
}
