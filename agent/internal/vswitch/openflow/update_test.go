package openflow

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A toggle of a mux whose NIC is port 1 and whose ToRs are 2 and 3.
func toggle() cable.Update {
	up := cable.NewFlow(1, 2, 3)
	return cable.Update{
		Bridge: "br0",
		Have:   [2]cable.Flow{up, cable.NewFlow(2, 1)},
		Want:   [2]cable.Flow{up, cable.NewFlow(3, 1)},
		Known:  true,
	}
}

func checkFlows(t *testing.T, got []cable.Flow, want [2]cable.Flow) {
	t.Helper()
	byPort := func(a, b cable.Flow) int { return cmp.Compare(a.InPort, b.InPort) }
	slices.SortFunc(got, byPort)
	slices.SortFunc(want[:], byPort)
	if diff := gocmp.Diff(want[:], got); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}

func TestToggle(t *testing.T) {
	u := toggle()
	p := (&peer{flows: slices.Clone(u.Have[:])}).start(t)
	if err := set(t, p.dial(), u); err != nil {
		t.Fatal(err)
	}
	checkFlows(t, p.has(), u.Want)
}

func TestUnfitUpdateSendsNothing(t *testing.T) {
	p := (&peer{}).start(t)
	u := toggle()
	u.Want[1].InPort = 0
	if err := p.dial().Start(u, time.Now().Add(wait.Limit), func(error) { t.Error("done was called") }); !errors.Is(err, errUnfit) {
		t.Errorf("error %v, want %v", err, errUnfit)
	}
}

// A message that OVS refuses when it is added to a bundle is left out, and the rest of a pipelined bundle is committed. So
// a refused shape must show before anything is changed.
func TestRefusedShapeShowsAtDial(t *testing.T) {
	for name, shape := range map[string]func(command uint8, f cable.Flow) bool{
		"flush":       func(command uint8, _ cable.Flow) bool { return command == flowDelete },
		"delete":      func(command uint8, f cable.Flow) bool { return command == flowDeleteStrict && f.InPort != 0 },
		"drop":        func(command uint8, f cable.Flow) bool { return command == flowAdd && f.Out[0] == 0 },
		"one output":  func(command uint8, f cable.Flow) bool { return command == flowAdd && f.Out[0] != 0 && f.Out[1] == 0 },
		"two outputs": func(command uint8, f cable.Flow) bool { return command == flowAdd && f.Out[1] != 0 },
	} {
		t.Run(name, func(t *testing.T) {
			p := (&peer{refuses: func(_ int, command uint8, f cable.Flow) *Error {
				if shape(command, f) {
					return &Error{Type: 5, Code: 6}
				}
				return nil
			}}).start(t)
			before := toggle().Have
			p.flows = slices.Clone(before[:])
			_, err := Dial(wait.Context(t), p.path)
			var refused *Error
			if !errors.As(err, &refused) || refused.Name() != "OFPFMFC_BAD_COMMAND" {
				t.Errorf("error %v, want OFPFMFC_BAD_COMMAND", err)
			}
			checkFlows(t, p.has(), before)
		})
	}
}

func TestRefusedUpdate(t *testing.T) {
	u := toggle()
	badPort := &Error{Type: 2, Code: 4}
	refuseAdds := func(bundles ...int) func(int, uint8, cable.Flow) *Error {
		return func(bundle int, command uint8, _ cable.Flow) *Error {
			if command == flowAdd && slices.Contains(bundles, bundle) {
				return badPort
			}
			return nil
		}
	}
	unknown := u
	unknown.Known = false

	for name, c := range map[string]struct {
		peer   *peer
		update cable.Update
		words  []string // of the error; none for no error
		unsure bool
		flows  []cable.Flow // that stand afterwards
	}{
		"at the commit, which rolls back": {
			peer:   &peer{fails: &Error{Type: 5, Code: 1}},
			update: u, words: []string{"set flows on br0: OFPFMFC_TABLE_FULL"}, flows: u.Have[:],
		},
		"at an add, the delete is committed": {
			peer:   &peer{refuses: refuseAdds(1)},
			update: u, words: []string{"OFPBAC_BAD_OUT_PORT"}, flows: u.Have[:],
		},
		"at an add, and again when the old flow is restored": {
			peer:   &peer{refuses: refuseAdds(1, 2)},
			update: u, words: []string{"OFPBAC_BAD_OUT_PORT", "could not be restored"}, unsure: true, flows: u.Have[:1],
		},
		"at an add, and nobody knows what stood there": {
			peer:   &peer{refuses: refuseAdds(1)},
			update: unknown, words: []string{"OFPBAC_BAD_OUT_PORT"}, unsure: true,
		},
		"at an add, and the flows cannot be read": {
			peer: &peer{refuses: refuseAdds(1), hears: func(c net.Conn, m message) bool {
				if m.kind == typeMultipartReq {
					c.Close()
				}
				return false
			}},
			update: u, words: []string{"OFPBAC_BAD_OUT_PORT", "could not be read back", errHangUp.Error()}, unsure: true, flows: u.Have[:1],
		},
		"in words alone, the wanted flows stand": {
			peer:   &peer{flows: slices.Clone(u.Want[:]), fails: &Error{Type: 17, Code: 14}},
			update: u, flows: u.Want[:],
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.peer.flows == nil {
				c.peer.flows = slices.Clone(c.update.Have[:])
			}
			p := c.peer.start(t)
			err := set(t, p.dial(), c.update)
			if (err == nil) != (c.words == nil) {
				t.Errorf("error %v, want %q", err, c.words)
			}
			var failed *cable.SwitchError
			if err != nil && (!errors.As(err, &failed) || failed.Unknown != c.unsure) {
				t.Errorf("error %#v, want Unknown %t", err, c.unsure)
			}
			for _, words := range c.words {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("error %q does not say %q", err, words)
				}
			}
			if diff := gocmp.Diff(c.flows, p.has(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConnectionLostAmidAnUpdate(t *testing.T) {
	p := (&peer{hears: func(c net.Conn, m message) bool {
		if m.kind == typeBundleControl && be.Uint16(m.body[4:]) == bundleCommit {
			c.Close()
			return true
		}
		return false
	}}).start(t)
	c := p.dial()
	err := set(t, c, toggle())
	var failed *cable.SwitchError
	if !errors.As(err, &failed) || !failed.Unknown || !failed.Retryable || !errors.Is(err, errHangUp) {
		t.Errorf("error %#v, want an Unknown and Retryable %v", err, errHangUp)
	}
	if c.Alive() {
		t.Error("the connection lives on")
	}
}
