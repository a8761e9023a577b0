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
		if endpoint != "" && !r.isProviders(endpoint) {
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
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyImported, []byte("true"))...)
}

func (r *portResource) isProviders(endpoint string) bool {
	if r.meta == nil {
		return false
	}
	own, err := client.ParseEndpoint(r.meta.endpoint.ValueString())
	return err == nil && own == endpoint
}

// parsePortID reads "vms17-8/3" or the URL of a port, "http://host:8080/mux/vms17-8/3". endpoint is "" for the first.
func parsePortID(id string) (endpoint string, ref portRef, err error) {
	rest := id
	if u, uerr := url.Parse(id); uerr == nil && u.Host != "" {
		path, ok := strings.CutPrefix(u.EscapedPath(), api.PathOverview+"/")
		if endpoint, err = client.ParseEndpoint(u.Scheme + "://" + u.Host); err != nil {
			return "", portRef{}, err
		}
		if ok && u.RawQuery == "" {
			rest = path
		}
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
