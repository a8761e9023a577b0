package ovsdb

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer plays ovsdb-server in the ways in which the real one cannot be brought to misbehave. It answers a monitor with rows,
// and everything else as hears says.
type peer struct {
	rows string // of the first answer to a monitor
	// hears answers a request, with write; false ends the connection.
	hears func(method string, id json.RawMessage, write func(string)) bool

	mu    sync.Mutex
	dials int
}

// oneBridge is a database with one bridge, which has one port.
const oneBridge = `{
	"Open_vSwitch":{"00000000-0000-0000-0000-000000000001":{"new":{"other_config":["map",[]]}}},
	"Bridge":{"00000000-0000-0000-0000-000000000002":{"new":{"name":"br0","ports":["uuid","00000000-0000-0000-0000-000000000003"],
		"mirrors":["set",[]],"protocols":["set",[]],"fail_mode":"secure","stp_enable":false,"rstp_enable":false,"controller":["set",[]],
		"external_ids":["map",[["a","b"]]]}}},
	"Port":{"00000000-0000-0000-0000-000000000003":{"new":{"name":"p0","interfaces":["uuid","00000000-0000-0000-0000-000000000004"],
		"external_ids":["map",[]],"status":["map",[]],"rstp_status":["map",[]]}}},
	"Interface":{"00000000-0000-0000-0000-000000000004":{"new":{"name":"p0","type":"","ofport":7,"ifindex":3,"error":["set",[]],
		"admin_state":"up","link_state":"down","external_ids":["map",[]]}}}}`

// start lets the peer listen, and returns the path of its socket.
func (p *peer) start(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "db") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "db.sock")
	stop := ovstest.Serve(t, path, func(c net.Conn) {
		p.mu.Lock()
		p.dials++
		p.mu.Unlock()
		p.serve(c)
	})
	t.Cleanup(func() {
		stop()
		os.RemoveAll(dir)
	})
	return path
}

func (p *peer) dialled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *peer) serve(c net.Conn) {
	requests := json.NewDecoder(c)
	for {
		var m message
		if requests.Decode(&m) != nil {
			return
		}
		write := func(text string) { _, _ = io.WriteString(c, text) }
		if m.Method == "monitor" && p.rows != "" {
			write(`{"id":` + string(m.ID) + `,"error":null,"result":` + p.rows + `}`)
			continue
		}
		if p.hears == nil || !p.hears(m.Method, m.ID, write) {
			return
		}
	}
}

// open returns a DB at a path, and what it tells.
func open(t *testing.T, path string, timeout time.Duration) (*DB, chan Change) {
	t.Helper()
	changes := make(chan Change, 1000)
	d := New(Config{Path: path, Timeout: timeout, Changed: func(c Change) { changes <- c }})
	t.Cleanup(d.Close)
	return d, changes
}

func everyBridge(string) bool { return true }
