package openflow

import "github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"

// program returns flows as a mux writes them.
func program(flows ...cable.Flow) cable.Program {
	p := make(cable.Program, len(flows))
	for i, f := range flows {
		p[i] = cable.Entry{Flow: f, Cookie: cable.NewCookie(cable.Base, 0)}
	}
	return p
}

// plain returns the flows of entries.
func plain(entries []cable.Entry) []cable.Flow {
	flows := make([]cable.Flow, len(entries))
	for i, e := range entries {
		flows[i] = e.Flow
	}
	return flows
}
