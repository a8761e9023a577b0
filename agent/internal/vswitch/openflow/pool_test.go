package openflow

import (
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// newPool returns a pool that is closed when the test ends. A timeout of 0 ends only what hangs.
func newPool(t testing.TB, dir string, timeout time.Duration) *Pool {
	t.Helper()
	if timeout == 0 {
		timeout = wait.Limit
	}
	p := NewPool(Config{Dir: dir, Timeout: timeout})
	t.Cleanup(p.Close)
	return p
}

// apply returns the answers to all updates, and checks that each came once.
func apply(t testing.TB, p *Pool, updates ...cable.Update) []error {
	t.Helper()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, 2*len(updates))
	p.Apply(updates, func(i int, err error) { answers <- answer{i, err} })
	errs := make([]error, len(updates))
	seen := make([]bool, len(updates))
	for range updates {
		select {
		case a := <-answers:
			if seen[a.i] {
				t.Errorf("update %d was answered twice", a.i)
			}
			seen[a.i], errs[a.i] = true, a.err
		case <-time.After(wait.Limit):
			t.Fatalf("answers came only for %v", seen)
		}
	}
	return errs
}

// switchError returns err as what it must be.
func switchError(t testing.TB, err error) *cable.SwitchError {
	t.Helper()
	failed, ok := err.(*cable.SwitchError)
	if !ok {
		t.Fatalf("error %v is a %T, want a *cable.SwitchError", err, err)
	}
	return failed
}

func TestApplyToManyBridges(t *testing.T) {
	u := toggle()
	p := (&peer{flows: plain(u.Have)}).start(t)
	pool := newPool(t, p.dir(), 0)
	unfit, missing := u, u
	unfit.Want = slices.Clone(unfit.Want)
	unfit.Want = slices.Clone(unfit.Want)
	unfit.Want[0].InPort = 0
	missing.Bridge = "br1"

	for _, state := range []string{"not connected yet", "connected"} {
		t.Run(state, func(t *testing.T) {
			errs := apply(t, pool, missing, unfit, u)
			if failed := switchError(t, errs[0]); !errors.Is(failed, fs.ErrNotExist) || !failed.Retryable || failed.Unknown || failed.Bridge != "br1" {
				t.Errorf("a missing bridge: %#v", failed)
			}
			if failed := switchError(t, errs[1]); !errors.Is(failed, errUnfit) || failed.Retryable || failed.Unknown {
				t.Errorf("an update that cannot be sent: %#v", failed)
			}
			if errs[2] != nil {
				t.Error(errs[2])
			}
			checkFlows(t, p.has(), u.Want)
			u.Have, u.Want = u.Want, u.Have
		})
	}
	pool.Apply(nil, func(int, error) { t.Error("an answer to nothing") })
}

func TestFlowsOfAPool(t *testing.T) {
	want := toggle().Have
	p := (&peer{flows: plain(want)}).start(t)
	pool := newPool(t, p.dir(), 0)
	got, err := pool.Flows(t.Context(), "br0")
	if err != nil {
		t.Fatal(err)
	}
	checkFlows(t, plain(got), want)

	_, err = pool.Flows(t.Context(), "br1")
	if failed := switchError(t, err); !errors.Is(failed, fs.ErrNotExist) || !failed.Retryable || failed.Op != "read flows" {
		t.Errorf("a missing bridge: %#v", failed)
	}
}

func TestExcludedBridgeIsNotRetryable(t *testing.T) {
	p := (&peer{hello: []byte{1, typeHello, 0, 8, 0, 0, 0, 9}}).start(t)
	pool := newPool(t, p.dir(), 0)
	_, err := pool.Flows(t.Context(), "br0")
	for _, err := range []error{err, apply(t, pool, toggle())[0]} {
		if failed := switchError(t, err); failed.Retryable || failed.Unknown || !strings.Contains(err.Error(), "ovs-vsctl clear bridge br0 protocols") {
			t.Errorf("%#v", failed)
		}
	}
}

func TestOneDialForAllWhoWait(t *testing.T) {
	p := (&peer{}).start(t)
	pool := newPool(t, p.dir(), 0)
	read := make(chan error)
	const readers = 20
	for range readers {
		go func() {
			_, err := pool.Flows(t.Context(), "br0")
			read <- err
		}()
	}
	for range readers {
		if err := wait.Receive(t, "flows", read); err != nil {
			t.Error(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) != 1 {
		t.Errorf("%d connections, want 1", len(p.conns))
	}
}

func TestRedial(t *testing.T) {
	p := (&peer{}).start(t)
	pool := newPool(t, p.dir(), 0)
	u := toggle()
	u.Known = false
	if err := apply(t, pool, u)[0]; err != nil {
		t.Fatal(err)
	}
	p.stop()
	if failed := switchError(t, waitForError(t, func() error { return apply(t, pool, u)[0] })); !failed.Retryable {
		t.Errorf("while ovs-vswitchd is away: %#v", failed)
	}
	p.flows = nil
	p.listen()
	if err := apply(t, pool, u)[0]; err != nil {
		t.Fatal(err)
	}
	checkFlows(t, p.has(), u.Want)
	p.hangUp()
	if _, err := pool.Flows(t.Context(), "br0"); err != nil {
		t.Error(err)
	}
}

// waitForError tries until there is an error.
func waitForError(t *testing.T, try func() error) error {
	t.Helper()
	ctx := wait.Context(t)
	for {
		if err := try(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			t.Fatal("no error came")
		}
	}
}

// A change that is not answered is unknown. What the switch does later is its own; the next change works.
func TestUnansweredUpdates(t *testing.T) {
	var late atomic.Bool
	gate := make(chan struct{})
	p := (&peer{hears: func(_ net.Conn, m message) bool {
		if late.Load() && m.kind == typeBundleControl && be.Uint16(m.body[4:]) == bundleOpen {
			<-gate
		}
		return false
	}}).start(t)
	pool := newPool(t, p.dir(), 100*time.Millisecond)
	u := toggle()
	u.Known = false
	apply(t, pool, u) // connected now, or still in time for the next one
	late.Store(true)

	for range 2 {
		failed := switchError(t, apply(t, pool, u)[0])
		if !errors.Is(failed, errNoAnswer) || !failed.Unknown || !failed.Retryable {
			t.Errorf("%#v, want an Unknown and Retryable %v", failed, errNoAnswer)
		}
	}
	late.Store(false)
	close(gate)
	for err := errNoAnswer; err != nil; {
		err = apply(t, pool, u)[0]
	}
	checkFlows(t, p.has(), u.Want)
}

// A switch that accepts connections and says nothing has got no update.
func TestSilentSwitch(t *testing.T) {
	p := (&peer{hears: func(net.Conn, message) bool { return true }}).start(t)
	pool := newPool(t, p.dir(), 20*time.Millisecond)
	for range 2 {
		failed := switchError(t, apply(t, pool, toggle())[0])
		if !errors.Is(failed, errNoAnswer) || failed.Unknown || !failed.Retryable {
			t.Errorf("%#v, want a Retryable %v that is not Unknown", failed, errNoAnswer)
		}
	}
}

func TestClosedPool(t *testing.T) {
	p := (&peer{hears: func(_ net.Conn, m message) bool {
		return m.kind == typeBundleControl && be.Uint16(m.body[4:]) == bundleCommit
	}}).start(t)
	pool := newPool(t, p.dir(), 0)
	if _, err := pool.Flows(t.Context(), "br0"); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 1)
	pool.Apply([]cable.Update{toggle()}, func(_ int, err error) { answers <- err })
	pool.Close()
	select {
	case err := <-answers:
		if failed := switchError(t, err); !failed.Unknown || !errors.Is(failed, errClosed) {
			t.Errorf("%#v, want an Unknown %v", failed, errClosed)
		}
	default:
		t.Error("Close came back before the update was answered")
	}
	if err := apply(t, pool, toggle())[0]; !errors.Is(err, errClosed) {
		t.Errorf("apply: error %v, want %v", err, errClosed)
	}
	if _, err := pool.Flows(t.Context(), "br0"); !errors.Is(err, errClosed) {
		t.Errorf("flows: error %v, want %v", err, errClosed)
	}
}
