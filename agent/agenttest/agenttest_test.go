package agenttest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// The port of a stopped agent may be taken by a connection of another test for a moment.
func TestResumeWaitsForItsAddress(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	a.Stop()
	taken, err := net.Listen("tcp", strings.TrimPrefix(a.URL, "http://"))
	if err == nil { // else somebody has it really
		time.AfterFunc(100*time.Millisecond, func() { _ = taken.Close() })
	}
	a.Resume()
	a.WaitServed(0)
}
