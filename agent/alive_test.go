package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/simswitch"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// An agent that doesn't look at the switch any more is not ready, and says why.
func TestABlindAgentIsNotReady(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{
			Listen: "127.0.0.1:0", VMSets: []string{"vms6-1"}, Log: slog.New(slog.DiscardHandler),
			Listening: func(a net.Addr) { address <- a.String() },
			NewSwitch: func(names *cable.Names) (engine.Switch, func(), error) {
				return stuck{simswitch.New(names, 2)}, func() {}, nil
			},
		})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + wait.Receive(t, "the agent's address", address) + api.PathReadyz
	wait.For(t, "the agent says that it is blind", func() bool {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var r api.Readiness
		if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode == http.StatusServiceUnavailable && !r.Ready && r.ReasonCode == api.NotReadyStuck
	})
}
