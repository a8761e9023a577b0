package provider

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// A problem is what a diagnostic says: a short title, then what happened and what to do.
type problem struct {
	title, detail string
	code          string         // of the client's error
	each          map[int]string // what happened with one port, as far as that is known
}

// reasonOf says what happened with a port that one of the problems is about.
func reasonOf(problems []problem, port int) string {
	for _, p := range problems {
		if words, ok := p.each[port]; ok {
			return words
		}
	}
	last := problems[len(problems)-1]
	return strings.TrimSpace(last.title + ". " + last.detail)
}

func addError(diags *diag.Diagnostics, p problem) { diags.AddError(p.title, p.detail) }

// explain turns a failure into words for the person who runs the testbed. asked says what Terraform wanted, such as
// "reading port 3 of vms17-8".
func explain(asked string, err error) problem {
	if m := (*mismatchError)(nil); errors.As(err, &m) {
		p := problem{title: "The port did not stay as it was set", each: map[int]string{}}
		todo := fmt.Sprintf("Probably linkmgrd on the ToR switched it back: set the mux mode to manual there, or drift_policy = %q here.", driftIgnore)
		if m.stays() {
			p.title = "The port is still not healthy"
			todo = "Setting it again should have mended it. Look at the bridge on the test server: something keeps changing it."
		}
		for port := range m.want {
			p.each[port] = p.title + ": " + strings.Join(m.of(port), "; ") + ". " + todo
		}
		p.detail = fmt.Sprintf("%s: %s.\n\n%s", upperFirst(asked), m, todo)
		return p
	}
	e := (*client.Error)(nil)
	if !errors.As(err, &e) {
		return problem{title: upperFirst(asked) + " failed", detail: sentence(err)}
	}
	title, todo := advice(e)
	p := problem{title: title, code: e.Code, each: map[int]string{}}
	for port, f := range refusals(err) {
		p.each[port] = title + ": " + f.ErrMsg + "."
	}
	if e.Repeated { // one line: the whole story stands in another diagnostic
		p.title = fmt.Sprintf("%s failed as well: %s (%s)", upperFirst(asked), lowerFirst(title), e.URL)
		return p
	}
	p.detail = fmt.Sprintf("%s failed. %s\n\n%s", upperFirst(asked), todo, facts(e))
	return p
}

// repeated reports whether another diagnostic tells the whole story of a failure.
func repeated(err error) bool {
	e := (*client.Error)(nil)
	return errors.As(err, &e) && e.Repeated
}

// endpointUnknown is for what needs an agent at once. why says what does.
func endpointUnknown(why string) problem {
	return problem{title: "The endpoint is not known yet", detail: why + " Apply first what the endpoint is taken from, or write the endpoint out."}
}

// advice returns the title of a failed call and what to do about it.
func advice(e *client.Error) (title, todo string) {
	if e.Stopped != nil {
		return "Stopped before it was done", "The operation was cancelled."
	}
	switch e.Code {
	case api.CodeUnknownVMSet:
		return "The agent serves another vm_set", "Check that endpoint and vm_set belong to the same testbed."
	case api.CodeUnknownPort:
		return "No such port", "Check the port's index, and that the testbed has been set up: the agent finds no bridge for this port."
	case api.CodeRejectedMux:
		return "The bridge is not a usable mux", "Mend the bridge on the test server; the agent takes it up by itself."
	case api.CodeSwitch, api.CodePartial:
		return "The switch refused the change",
			"Mend on the test server what Open vSwitch names below, then apply again. Ports that are not named below are done."
	case client.CodeTimeout:
		if e.Status != 0 {
			return "The switch did not confirm the change in time",
				"It may still take effect. Check that ovs-vswitchd on the test server responds, then apply again, which changes nothing twice."
		}
		return "No answer from the agent", "Check that the agent's host is up and not overloaded. A slow agent may need a longer request_timeout."
	case client.CodeUnreachable:
		if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(e.Err, &untrusted) {
			return "The agent's certificate is not trusted", "Set ca_cert_pem in the provider block to the certificate of the authority that signed it."
		}
		return "Cannot reach the agent", "Check that mux-agent runs and listens at this address, and that no firewall or proxy is in the way."
	case client.CodeUnsendable:
		return "The request could not be made", "Nothing left this machine. Check the values in the provider block that the failure below names."
	case api.CodeNotReady:
		return "The agent is not ready",
			"It has not read the switch yet. Check that Open vSwitch runs on the test server; a longer retry.max_elapsed waits longer."
	case client.CodeUnauthorised:
		return "The agent refuses this machine", "Check token, client_cert_pem and client_key_pem in the provider block, and who may call the agent: its --allow-cidr, or the proxy before it."
	case api.CodeForbidden:
		return "The agent refuses this endpoint", "Call it by its address, or start it with --allow-host for the name."
	}
	switch status := e.Status; {
	case status == http.StatusTooManyRequests:
		return "Too many requests", "The agent, or a proxy before it, asks for fewer. Lower max_concurrent_requests in the provider block, or mend the limit there."
	case status >= http.StatusBadGateway && status <= http.StatusGatewayTimeout:
		return "A proxy answers in place of the agent", "Check that mux-agent runs, and that the proxy before it can reach it."
	case e.Code == client.CodeNotAnAgent:
		return "No mux agent at this endpoint", "Something else answered. Check the endpoint's scheme, host and port, and the proxy settings of this machine."
	case status >= http.StatusInternalServerError:
		return "The agent failed", "The fault is in the agent, or in what it runs on, and not in the configuration. Its log tells more."
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
	if e.Budget > 0 {
		lines = append(lines, fmt.Sprintf("Time for the operation: %s, by the resource's timeouts", e.Budget))
	}
	return strings.Join(append(lines, fmt.Sprintf("Attempts: %d", e.Attempts)), "\n")
}

// sentence writes an error as a sentence.
func sentence(err error) string { return upperFirst(err.Error()) + "." }

func lowerFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[size:]
}

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// portsOf names ports: "port 3 of vms17-8", "ports 0-11, 14 of vms17-8", and "all ports of vms17-8" for none. The vm_set may be
// an agent's word.
func portsOf(vmSet string, ports []int) string {
	vmSet = api.Printable(vmSet)
	switch len(ports) {
	case 0:
		return "all ports of " + vmSet
	case 1:
		return portRef{vmSet, ports[0]}.String()
	}
	return fmt.Sprintf("ports %s of %s", ranges(ports), vmSet)
}

// indexes names ports without their vm_set: "port 3", "ports 0-11, 14".
func indexes(ports []int) string {
	if len(ports) == 1 {
		return "port " + ranges(ports)
	}
	return "ports " + ranges(ports)
}

// ranges writes port indexes shortly: "0-11, 14".
func ranges(ports []int) string {
	if len(ports) == 0 {
		return "none"
	}
	return strings.ReplaceAll(api.PortList(slices.Sorted(slices.Values(ports))).String(), ",", ", ")
}
