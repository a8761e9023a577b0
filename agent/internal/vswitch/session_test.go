package vswitch_test

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
)

// serveDatabase is an ovsdb-server that answers every request with the same result. A result that is no whole JSON value is
// sent as it is, without the rest of an answer, and then the connection is closed. It returns its run directory.
func serveDatabase(t *testing.T, result string) (runDir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ovsdb") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "db.sock"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				requests := json.NewDecoder(conn)
				for {
					var request struct {
						ID string `json:"id"`
					}
					if requests.Decode(&request) != nil {
						return
					}
					if !json.Valid([]byte(result)) {
						_, _ = io.WriteString(conn, result)
						return
					}
					answer := map[string]any{"id": request.ID, "error": nil, "result": json.RawMessage(result)}
					if json.NewEncoder(conn).Encode(answer) != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
		os.RemoveAll(dir)
	})
	return dir
}

// TestRefusedOperationIsNoEmptySwitch is about errors of single operations, which go-openvswitch drops: what is left looks
// like a switch without bridges.
func TestRefusedOperationIsNoEmptySwitch(t *testing.T) {
	t.Parallel()
	dir := serveDatabase(t, `[{"error":"unknown column","details":"No column fail_mode in table Bridge.","syntax":"\"fail_mode\""},null]`)
	checkDiscoverError(t, vswitch.New(config(t, dir)), "refused the request")
}

// TestLostDatabaseConnection is about go-openvswitch's client, which lets a request wait when its connection has ended, and
// when that was in the middle of a message reads on without end.
func TestLostDatabaseConnection(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"", `{"id":"1","err`} {
		t.Run(sent, func(t *testing.T) {
			t.Parallel()
			checkDiscoverError(t, vswitch.New(config(t, serveDatabase(t, sent))), "connection lost")
		})
	}
}

func TestDatabaseError(t *testing.T) {
	t.Parallel()
	dir := serveDatabase(t, `{"error":"unknown database","details":"get_schema request specifies unknown database Open_vSwitch","syntax":""}`)
	checkDiscoverError(t, vswitch.New(config(t, dir)), "unknown database")
}
