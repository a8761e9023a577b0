package provider_test

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	mux "github.com/sonic-mux/terraform-provider-mux/provider"
)

// nothing is a provider that does nothing: what a resource costs in Terraform and in the framework alone.
type nothing struct{}

func (nothing) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "nothing"
}

func (nothing) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (nothing) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (nothing) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (nothing) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return nothingPort{} }}
}

// nothingPort is nothing_port, with the schema of mux_port. What that computes has to be in the configuration, as far as it
// can be.
type nothingPort struct{}

func (nothingPort) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_port"
}

func (nothingPort) Schema(ctx context.Context, req resource.SchemaRequest, resp *resource.SchemaResponse) {
	mux.New("test")().Resources(ctx)[0]().Schema(ctx, req, resp)
}

func (nothingPort) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("healthy"), true)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("original"), struct {
		ActiveSide string   `tfsdk:"active_side"`
		Dropped    []string `tfsdk:"dropped"`
	}{"upper_tor", []string{}})...)
}

func (nothingPort) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (nothingPort) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

func (nothingPort) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
