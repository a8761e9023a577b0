package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// settleDelay is how long a port that was switched back at once is left alone before it is looked at again.
const settleDelay = 300 * time.Millisecond

// set brings a port to the desired state and makes sure that it is in it. What differs right after the write is looked
// at again, then written once more by a call of its own, and then a *mismatchError. All other failures are the client's.
func set(ctx context.Context, agent *client.Client, ref portRef, want api.Desired) error {
	if want.ActiveSide == nil && want.Dropped == nil {
		return nil
	}
	for try := 1; ; try++ {
		got, err := agent.Set(ctx, ref.vmSet, ref.port, want)
		if err != nil {
			if e := (*client.Error)(nil); errors.As(err, &e) && try > 1 {
				e.MayHaveLanded = true // the first write has
			}
			return err
		}
		if satisfies(got, want) {
			return nil
		}
		mismatch := &mismatchError{want: want, got: got}
		tflog.Info(ctx, "mux port differs from what was just set", map[string]any{"port": ref.String(), "difference": mismatch.Error()})
		select {
		case <-ctx.Done():
			return mismatch
		case <-time.After(settleDelay):
		}
		if got, err = agent.Status(ctx, ref.vmSet, ref.port); err == nil {
			if satisfies(got, want) {
				return nil
			}
			mismatch.got = got
		}
		if try == 2 {
			return mismatch
		}
	}
}

// judgeAbsence finds out what an agent means that answers 404 for a port: the port is truly absent (gone), or there is a
// problem that somebody has to look at. Any other failure is a problem too.
func judgeAbsence(ctx context.Context, agent *client.Client, ref portRef, asked string, err error) (gone bool, p problem) {
	p = explain(asked, err)
	code := client.Code(err)
	switch code {
	case api.CodeUnknownVMSet, api.CodeUnknownPort, api.CodeRejectedMux:
	default:
		return false, p
	}
	overview, oerr := agent.Overview(ctx)
	switch client.Code(oerr) {
	case "":
	case api.CodeNotFound: // mux_simulator.py has no overview: its answer must do
		return code == api.CodeUnknownPort, p
	default:
		return false, explain("asking the agent for its vm_sets", oerr)
	}

	served, ok := overview.VMSets[ref.vmSet]
	if !ok {
		p.title = "The agent serves another vm_set"
		p.detail = fmt.Sprintf("The agent at %s does not serve %s; it serves %s. Check that endpoint and vm_set belong to the same testbed.\n\n%s",
			agent.Endpoint(), ref.vmSet, strings.Join(slices.Sorted(maps.Keys(overview.VMSets)), ", "), p.detail)
		return false, p
	}
	for _, rejected := range served.Rejected {
		if rejected.PortIndex == ref.port {
			return false, problem{"The bridge is not a mux", fmt.Sprintf("The agent rejects bridge %s of %s: %s.\n\n%s",
				rejected.Bridge, ref, rejected.Reason, p.detail)}
		}
	}
	if !served.Ready {
		return false, problem{"The agent is not ready", fmt.Sprintf("The agent has not read %s yet: %s.\n\n%s", ref.vmSet, served.Reason, p.detail)}
	}
	return code == api.CodeUnknownPort, p
}

// cannotCreate explains a port that can't be read at its creation; when there is no such port, it names those there are.
func cannotCreate(ctx context.Context, agent *client.Client, ref portRef, err error) diag.Diagnostic {
	gone, p := judgeAbsence(ctx, agent, ref, "reading "+ref.String(), err)
	if gone {
		if all, err := agent.All(ctx, ref.vmSet); err == nil {
			var ports []int
			for _, s := range all {
				ports = append(ports, s.PortIndex)
			}
			p.detail = fmt.Sprintf("%s has no port %d. Ports that exist: %s.\n\n%s", ref.vmSet, ref.port, ranges(ports), p.detail)
		}
	}
	return diag.NewErrorDiagnostic(p.title, p.detail)
}
