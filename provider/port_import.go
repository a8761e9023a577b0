package provider

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// ImportState names the port; the read that follows fills in the rest.
func (r *portResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var id portIdentity
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
	} else {
		endpoint, ref, err := parsePortID(req.ID)
		if err != nil {
			resp.Diagnostics.AddError("Bad import id", sentence(err))
			return
		}
		id.VMSet, id.PortIndex = types.StringValue(ref.vmSet), types.Int64Value(int64(ref.port))
		// The provider's own endpoint is left out, as a configuration that relies on it does.
		if endpoint != "" && !r.meta.isProviders(endpoint) {
			id.Endpoint = types.StringValue(endpoint)
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("endpoint"), id.Endpoint)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vm_set"), id.VMSet)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("port_index"), id.PortIndex)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, id)...)
}

func (m *meta) isProviders(endpoint string) bool {
	if m == nil {
		return false
	}
	own, err := client.ParseEndpoint(m.endpoint.ValueString())
	return err == nil && own == endpoint
}

// parsePortID reads "vms17-8/3" or the URL of a port, "http://host:8080/mux/vms17-8/3". endpoint is "" for the first.
func parsePortID(id string) (endpoint string, ref portRef, err error) {
	endpoint, rest, err := splitID(id)
	if err != nil {
		return "", portRef{}, err
	}
	vmSet, index, _ := strings.Cut(rest, "/")
	if vmSet, err = url.PathUnescape(vmSet); err == nil && vmSetPattern.MatchString(vmSet) {
		if port, err := strconv.ParseUint(index, 10, 31); err == nil {
			return endpoint, portRef{vmSet: vmSet, port: int(port)}, nil
		}
	}
	return "", portRef{}, fmt.Errorf("%q names no port; write <vm_set>/<port_index>, such as \"vms17-8/3\", or the port's URL, "+
		"such as \"http://10.0.0.64:8080/mux/vms17-8/3\"", id)
}

// parseVMSetID reads "vms17-8" or the URL of a vm_set, "http://host:8080/mux/vms17-8". endpoint is "" for the first.
func parseVMSetID(id string) (endpoint, vmSet string, err error) {
	endpoint, rest, err := splitID(id)
	if err != nil {
		return "", "", err
	}
	if vmSet, err = url.PathUnescape(rest); err == nil && vmSetPattern.MatchString(vmSet) {
		return endpoint, vmSet, nil
	}
	return "", "", fmt.Errorf("%q names no vm_set; write it like \"vms17-8\", or its URL, such as \"http://10.0.0.64:8080/mux/vms17-8\"", id)
}

// splitID splits a URL of the mux API into the endpoint and what follows "/mux/"; anything else is returned as it is.
func splitID(id string) (endpoint, rest string, err error) {
	u, err := url.Parse(id)
	if err != nil || u.Host == "" {
		return "", id, nil
	}
	if endpoint, err = client.ParseEndpoint(u.Scheme + "://" + u.Host); err != nil {
		return "", "", err
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), api.PathOverview+"/")
	if !ok || u.RawQuery != "" {
		return "", id, nil
	}
	return endpoint, rest, nil
}
