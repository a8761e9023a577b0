package agentproc_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

func TestMain(m *testing.M) { os.Exit(agentproc.Main{M: m}.Run()) }

func simulated() agentproc.Config {
	return agentproc.Config{VMSet: "vms17-8", Args: []string{"--driver", "simulated", "--simulate-ports", "3"}}
}

func TestAnAgentStartsServesAndStops(t *testing.T) {
	a := agentproc.StartReady(t, simulated())
	if s := a.Status(1); s.ActiveSide != api.UpperToR || s.PortIndex != 1 {
		t.Errorf("port 1 is %+v", s)
	}
	if s := a.Toggle(1); s.ActiveSide != api.LowerToR {
		t.Errorf("port 1, toggled, is %+v", s)
	}
	a.ToggleAll()
	if all := a.Statuses(); len(all) != 3 || all["mbr-vms17-8-1"].ActiveSide != api.UpperToR {
		t.Errorf("all ports: %+v", all)
	}
	if code, text := a.Post("/mux/vms17-8/9", `{"active_side":"toggle"}`); code != 404 {
		t.Errorf("port 9: %d %s", code, text)
	}
	a.Stop()
	a.Stop()
	if !strings.Contains(a.Log(), "stopped") && !strings.Contains(a.Log(), "stopping") {
		t.Errorf("its log says nothing of the end:\n%s", a.Log())
	}

	same := simulated()
	same.Listen = a.Address()
	again := agentproc.StartReady(t, same)
	if again.URL != a.URL {
		t.Errorf("the second agent is on %s, want %s", again.URL, a.URL)
	}
	if err := syscall.Kill(again.PID(), 0); err != nil {
		t.Error(err)
	}
	again.Kill()
	if err := syscall.Kill(again.PID(), 0); err == nil {
		t.Errorf("process %d, killed, is still there", again.PID())
	}
}
