package agent_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// What is under way when the agent stops is finished, and what waits behind it was never started.
func TestStopDuringAHungChange(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	resume := a.Stall()
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			res, err := http.Post(a.URL+"/mux/"+a.VMSet+"/0", "application/json", strings.NewReader(`{"active_side":"toggle"}`))
			if err != nil {
				answers <- answer{body: err.Error()}
				return
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			answers <- answer{res.StatusCode, string(body)}
		}()
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.Stop()
	}()
	resume()
	flaps := 0
	for range 2 {
		switch got := <-answers; got.status {
		case http.StatusOK:
			flaps++
		case http.StatusServiceUnavailable, 0: // refused by an agent that stops, or by the system when it has stopped
		default:
			t.Errorf("a toggle during the stop: %d %s", got.status, got.body)
		}
	}
	<-stopped
	a.Resume()
	side := map[bool]string{true: "lower_tor", false: "upper_tor"}[flaps == 1]
	res, err := http.Get(a.URL + "/mux/" + a.VMSet + "/0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"active_side":"`+side+`"`) {
		t.Errorf("after %d toggles that were answered: %s", flaps, body)
	}
	http.DefaultClient.CloseIdleConnections()
}
