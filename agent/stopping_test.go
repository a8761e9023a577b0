package agent_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// What is under way when the agent stops is finished and answered, and nothing is begun that comes later.
func TestStopDuringAHungChange(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resume := a.Stall()
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	go func() {
		res, err := client.Post(a.URL+"/mux/"+a.VMSet+"/0", "application/json", strings.NewReader(`{"active_side":"toggle"}`))
		if err != nil {
			answers <- answer{body: err.Error()}
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answers <- answer{res.StatusCode, string(body)}
	}()
	a.WaitAsked()

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.Stop()
	}()
	wait.For(t, "the agent takes no more connections", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case got := <-answers:
		t.Errorf("answered before the switch had: %+v", got)
	case <-stopped:
		t.Error("the agent stopped with a change under way")
	default:
	}
	resume()
	if got := <-answers; got.status != http.StatusOK || !strings.Contains(got.body, `"active_side":"lower_tor"`) {
		t.Errorf("the toggle that was under way: %d %s", got.status, got.body)
	}
	<-stopped

	a.Resume()
	res, err := client.Get(a.URL + "/mux/" + a.VMSet + "/0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"active_side":"lower_tor"`) {
		t.Errorf("after one toggle the next agent finds %s", body)
	}
}
