package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// A problem is what a diagnostic says: a short title, then what happened and what to do.
type problem struct{ title, detail string }

// explain turns a failure into words for the person who runs the testbed. asked says what Terraform wanted, such as
// "reading port 3 of vms17-8".
func explain(asked string, err error) problem {
	if m := (*mismatchError)(nil); errors.As(err, &m) {
		return problem{"The port did not stay as it was set", fmt.Sprintf("%s: %s.\n\n"+
			"Probably linkmgrd on the ToR switched it back: set the mux mode to manual there, or drift_policy = %q here.",
			upperFirst(asked), m, driftIgnore)}
	}
	e := (*client.Error)(nil)
	if !errors.As(err, &e) {
		return problem{upperFirst(asked) + " failed", sentence(err)}
	}
	title, todo := advice(e)
	return problem{title, fmt.Sprintf("%s failed. %s\n\n%s", upperFirst(asked), todo, facts(e))}
}

// advice returns the title of a failed call and what to do about it.
func advice(e *client.Error) (title, todo string) {
	if e.Stopped != nil {
		return "Stopped before it was done", "The operation was cancelled, or the resource's timeouts were too short for it."
	}
	switch e.Code {
	case api.CodeUnknownVMSet:
		return "The agent serves another vm_set", "Check that endpoint and vm_set belong to the same testbed."
	case api.CodeUnknownPort:
		return "No such port", "Check port_index, and that the testbed has been set up: the agent finds no bridge for this port."
	case api.CodeRejectedMux:
		return "The bridge is not a mux", "Mend the bridge on the test server; the agent takes it up by itself."
	case api.CodeSwitch, api.CodePartial:
		return "The switch refused the change",
			"The port was left as it was. Mend on the test server what Open vSwitch names below, then apply again."
	case client.CodeTimeout:
		if e.Status != 0 {
			return "The switch did not confirm the change in time",
				"It may still take effect. Check that ovs-vswitchd on the test server responds, then apply again, which changes nothing twice."
		}
		return "No answer from the agent", "Check that the agent's host is up and not overloaded. A slow agent may need a longer request_timeout."
	case client.CodeUnreachable:
		return "Cannot reach the agent", "Check that mux-agent runs and listens at this address, and that no firewall or proxy is in the way."
	case api.CodeNotReady:
		return "The agent is not ready",
			"It has not read the switch yet. Check that Open vSwitch runs on the test server; a longer retry.max_elapsed waits longer."
	case client.CodeUnauthorised:
		return "The agent refuses this machine", "Check who may call it: mux-agent's --allow-cidr, or the proxy before it."
	case client.CodeNotAnAgent:
		return "No mux agent at this endpoint", "Something else answered. Check the endpoint's scheme, host and port, and the proxy settings of this machine."
	}
	return "The agent refused the request", "If its answer below does not say what to change, the agent and this provider may be of versions that don't fit."
}

// facts are what a bug report needs.
func facts(e *client.Error) string {
	lines := []string{fmt.Sprintf("Request: %s %s", e.Method, e.URL), "Failure: " + e.Reason()}
	if e.Stopped != nil {
		lines = append(lines, "Stopped by: "+e.Stopped.Error())
	}
	if e.ReqID != "" {
		lines = append(lines, "Request id: "+e.ReqID)
	}
	return strings.Join(append(lines, fmt.Sprintf("Attempts: %d", e.Attempts)), "\n")
}

// sentence writes an error as a sentence.
func sentence(err error) string { return upperFirst(err.Error()) + "." }

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// ranges writes port indexes shortly: "0-11, 14".
func ranges(ports []int) string {
	slices.Sort(ports)
	var words []string
	for i := 0; i < len(ports); {
		last := i
		for last+1 < len(ports) && ports[last+1] == ports[last]+1 {
			last++
		}
		word := fmt.Sprint(ports[i])
		if last > i {
			word += fmt.Sprintf("-%d", ports[last])
		}
		words = append(words, word)
		i = last + 1
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ", ")
}
