package provider_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
)

// refs010 name version 0.1.0 in the repository: its tag, or its last commit where the clone has no tags.
var refs010 = []string{"v0.1.0", "1d50419dc21e77662fc8c60a64a94930ea654f0c"}

// release is a provider and an agent of another version.
type release struct{ provider, agent string }

// release010 are the binaries of version 0.1.0, built once from the repository's own history. A tree without that history is
// a reason to skip, and a failure in CI, which clones with all of it.
func release010(t *testing.T) release {
	t.Helper()
	lack.Program(t, "git", "install git")
	lack.Program(t, "tar", "install tar")
	r, err := build010()
	switch {
	case errors.Is(err, errNoHistory):
		lack.Of(t, err.Error())
	case err != nil:
		t.Fatal(err)
	}
	return r
}

var errNoHistory = errors.New("version 0.1.0 can't be built here: it takes a git clone with its history (fetch-depth: 0 in a workflow, git fetch --unshallow --tags elsewhere)")

var build010 = sync.OnceValues(func() (release, error) {
	git := func(args ...string) *exec.Cmd { // the clone may be another user's
		return exec.Command("git", append([]string{"-C", "..", "-c", "safe.directory=*"}, args...)...)
	}
	var ref string
	for _, r := range refs010 {
		if git("cat-file", "-e", r+"^{commit}").Run() == nil {
			ref = r
			break
		}
	}
	if ref == "" {
		return release{}, errNoHistory
	}
	dir := filepath.Join(os.Getenv(envTestDir), "0.1.0")
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(source, 0o700); err != nil {
		return release{}, err
	}
	archive := filepath.Join(dir, "source.tar")
	for _, cmd := range []*exec.Cmd{
		git("archive", "--output="+archive, ref),
		exec.Command("tar", "-xf", archive, "-C", source),
		exec.Command("go", "build", "-C", source, "-o", dir+"/", "-ldflags", "-X main.version=0.1.0", ".", "./agent/cmd/mux-agent"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return release{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return release{filepath.Join(dir, "terraform-provider-mux"), filepath.Join(dir, "mux-agent")}, nil
})

// start runs an agent's binary on a simulated switch until the test ends.
func (r release) start(t *testing.T) (url string) {
	t.Helper()
	cmd := exec.Command(r.agent, "serve", "--listen", "127.0.0.1:0", "--driver", "simulated", "--simulate-ports", "12", "--vm-set", "vms17-8")
	said := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "mux-agent: listening on "); ok {
			go func() {
				for lines.Scan() { // so that it never waits for us
				}
			}()
			return url
		}
	}
	t.Fatal("the agent ended without listening")
	return ""
}

// This provider with the agent of 0.1.0: it tells no conditions and no dropped, and all else works.
func TestAgentOf010(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, address string) {
		a := &agenttest.Agent{URL: release010(t).start(t), VMSet: "vms17-8"}
		if _, err := dial(t, a).Drop(t.Context(), a.VMSet, 3, "upper_tor"); err != nil {
			t.Fatal(err)
		}
		sides := func(want string) {
			t.Helper()
			if s := look(t, a, 3); s.ActiveSide != want || s.Dropped != nil {
				t.Errorf("the port is on %s, with dropped %v", s.ActiveSide, s.Dropped)
			}
		}
		w := newWorkspace(t, settings(a)+resource(restore))
		w.apply()
		sides("lower_tor")
		w.planned()
		if _, err := dial(t, a).SetSide(t.Context(), a.VMSet, 3, "upper_tor"); err != nil {
			t.Fatal(err)
		}
		saysInWords(t, w.apply(), "1 changed")
		sides("lower_tor")
		w.ok("taint", address)
		w.apply()
		w.destroy()
		sides("upper_tor")
	})
}

// The provider of 0.1.0 with this agent.
func TestProviderOf010(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		old := release010(t)
		a := agenttest.Start(t)
		was(t, a)
		w := newWorkspaceBy(t, old.provider, settings(a)+resource(restore))
		w.apply()
		w.planned()
		a.Flip(3)
		saysInWords(t, w.apply(), "1 changed")
		isBack(t, a, w.destroy())
	})
}

// State that the provider of 0.1.0 has written, the private state included: the plan is empty, and a destroy restores.
func TestStateWrittenBy010(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, address string) {
		for _, tainted := range []bool{false, true} {
			old := release010(t)
			a := agenttest.Start(t)
			was(t, a)
			w := newWorkspaceBy(t, old.provider, settings(a)+resource(restore))
			w.apply()
			w.env = newWorkspace(t, "").env // this provider, on the same state
			if tainted {
				w.ok("taint", address)
				w.apply()
			}
			mustNotSay(t, w.planned(), "Warning")
			isBack(t, a, w.destroy())
		}
	})
}

// And without a refresh the plan says what the apply does, which terraform checks.
func TestStateWrittenBy010IsChangedWithoutARefresh(t *testing.T) {
	either(t, func(t *testing.T, resource func(...string) string, _ string) {
		old := release010(t)
		a := agenttest.Start(t)
		was(t, a)
		w := newWorkspaceBy(t, old.provider, settings(a)+resource(restore))
		w.apply()
		w.env = newWorkspace(t, "").env
		w.write(strings.ReplaceAll(settings(a)+resource(restore), "lower_tor", "upper_tor"))
		w.apply("-refresh=false")
		if err := agentHas(t, a, 3, "upper_tor", 2, api.UpperToR)(nil); err != nil {
			t.Error(err)
		}
		w.planned()
		isBack(t, a, w.destroy())
	})
}
