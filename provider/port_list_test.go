package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// list returns what a list block finds.
func (p *plugin) list(set attrs, resources bool, limit int64) []tfprotov6.ListResourceResult {
	p.t.Helper()
	server, ok := p.server.(tfprotov6.ListResourceServer)
	if !ok {
		p.t.Fatal("the provider lists nothing")
	}
	typ := object(p.t, p.schemas.ListResourceSchemas[p.typeName].ValueType())
	stream := must(server.ListResource(p.t.Context(), &tfprotov6.ListResourceRequest{
		TypeName: p.typeName, Config: p.pack(typ, p.value(typ, set)), IncludeResource: resources, Limit: limit,
	}))(p.t)
	var all []tfprotov6.ListResourceResult
	for r := range stream.Results {
		all = append(all, r)
	}
	return all
}

func TestListPorts(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	a.Flip(1)
	p := newPlugin(t)
	p.use(a)
	results := p.list(attrs{}, true, 3)
	if len(results) != 3 {
		t.Fatalf("got %d ports, want 3", len(results))
	}
	for i, r := range results {
		p.quiet(r.Diagnostics)
		side, name := "upper_tor", "Port 0 of vms17-8, upper_tor"
		if i == 1 {
			side, name = "lower_tor", "Port 1 of vms17-8, lower_tor"
		}
		if i < 2 && r.DisplayName != name {
			t.Errorf("port %d is shown as %q, want %q", i, r.DisplayName, name)
		}
		identity := p.unpack(p.identity, r.Identity.IdentityData)
		if want := p.value(p.identity, attrs{"vm_set": "vms17-8", "port_index": i}); !identity.Equal(want) {
			t.Errorf("got identity %s, want %s", identity, want)
		}
		resource := p.unpack(p.port, r.Resource)
		if want := p.value(p.port, attrs{"vm_set": "vms17-8", "port_index": i, "active_side": side, "dropped": []string{}}); !p.bare(resource).Equal(want) {
			t.Errorf("got resource %s, want %s", resource, want)
		}
		// What the list finds can be imported.
		s := p.imported(tfprotov6.ImportResourceStateRequest{Identity: r.Identity})
		if !s.value.Equal(resource) {
			t.Errorf("the import is %s, want %s", s.value, resource)
		}
	}
	other := agenttest.Start(t, agenttest.VMSet("vms21-1"), agenttest.Ports(1))
	results = p.list(attrs{"endpoint": other.URL, "vm_set": "vms21-1"}, false, 100)
	if len(results) != 1 || results[0].Resource != nil {
		t.Fatalf("got %+v", results)
	}
	identity := p.unpack(p.identity, results[0].Identity.IdentityData)
	if want := p.value(p.identity, attrs{"endpoint": other.URL, "vm_set": "vms21-1", "port_index": 0}); !identity.Equal(want) {
		t.Errorf("got identity %s, want %s", identity, want)
	}
}

// Terraform reads as many results as its limit says, and a result that has no identity beside them.
func TestListOfMoreThanTheLimit(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(117))
	p := newPlugin(t)
	p.use(a)
	results := p.list(attrs{}, false, 100)
	if len(results) != 101 || results[0].Identity != nil {
		t.Fatalf("got %d results, want the warning and 100 ports: %+v", len(results), results[0])
	}
	mustSay(t, said(results[0].Diagnostics), "WARNING: Not all ports of vms17-8 are listed: There are 117, and the list block's limit is 100",
		"Set limit = 117")
	for _, r := range results[1:] {
		p.quiet(r.Diagnostics)
	}
}

func TestListTestbeds(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(3))
	p := newPluginFor(t, "mux_ports")
	p.quiet(p.configure(attrs{"endpoint": a.URL}, false).Diagnostics) // the agent knows its vm_sets
	for _, config := range []attrs{{}, {"vm_set": "vms17-8"}} {
		results := p.list(config, true, 100)
		if len(results) != 1 || results[0].DisplayName != "Ports 0-2 of vms17-8" {
			t.Fatalf("got %+v", results)
		}
		p.quiet(results[0].Diagnostics)
		identity := p.unpack(p.identity, results[0].Identity.IdentityData)
		if want := p.value(p.identity, attrs{"vm_set": "vms17-8"}); !identity.Equal(want) {
			t.Errorf("got identity %s, want %s", identity, want)
		}
		s := p.imported(tfprotov6.ImportResourceStateRequest{Identity: results[0].Identity})
		if got := p.unpack(p.port, results[0].Resource); !s.value.Equal(got) {
			t.Errorf("the import is %s, want %s", s.value, got)
		}
	}
	mustSay(t, said(p.list(attrs{"vm_set": "vms99-1"}, false, 100)[0].Diagnostics), "ERROR: The agent serves another vm_set")

	p = newPluginFor(t, "mux_ports")
	p.useFor(before(t, a, oldService), a.VMSet)
	if results := p.list(attrs{}, false, 100); len(results) != 1 || results[0].DisplayName != "Ports 0-2 of vms17-8" {
		t.Errorf("on mux_simulator.py: got %+v", results)
	}
}

func TestListPortsThatFails(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	p := newPlugin(t)
	p.use(a)
	results := p.list(attrs{"vm_set": "vms99-1"}, false, 100)
	if len(results) != 1 {
		t.Fatalf("got %d results, want the error", len(results))
	}
	mustSay(t, said(results[0].Diagnostics), "ERROR: The agent serves another vm_set", "it serves vms17-8")

	p = newPlugin(t)
	p.quiet(p.configure(attrs{}, false).Diagnostics)
	mustSay(t, said(p.list(attrs{}, false, 100)[0].Diagnostics), "ERROR: No endpoint")
}
