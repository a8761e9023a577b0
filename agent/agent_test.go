package agent_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// Clients leave connections behind on which they never asked anything; the agent must not wait for them when it stops.
func TestSilentConnectionsDoNotKeepTheAgentFromStopping(t *testing.T) {
	a := agenttest.Start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a.WaitServed(0) // the server has taken the connection before this answer's
	a.Stop()        // fails the test when requests are still open at its end
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the silent connection: %v, want it closed", err)
	}
}
