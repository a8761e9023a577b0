package agenttest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// The port of a stopped agent may be taken by a connection of another test for a moment.
func TestResumeWaitsForItsAddress(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	a.Stop()
	var taken net.Listener
	wait.For(t, "the address is free", func() (free bool) { // else somebody has it really
		var err error
		taken, err = net.Listen("tcp", strings.TrimPrefix(a.URL, "http://"))
		return err == nil
	})
	time.AfterFunc(100*time.Millisecond, func() { _ = taken.Close() })
	a.Resume()
	a.WaitServed(0)
}
