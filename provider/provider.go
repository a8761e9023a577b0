// Package provider is the Terraform provider for the muxes of SONiC dual-ToR testbeds.
//
// It is flat: one file for each resource. It owns what Terraform sees: schemas, plans, state, and diagnostics that say
// what was asked, what the agent said and what to do. How an agent is called, and what is tried again, is
// internal/client's.
package provider

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

var (
	_ provider.Provider                  = (*muxProvider)(nil)
	_ provider.ProviderWithFunctions     = (*muxProvider)(nil)
	_ provider.ProviderWithActions       = (*muxProvider)(nil)
	_ provider.ProviderWithListResources = (*muxProvider)(nil)
)

// Environment variables that stand in for the attributes of the same name.
const (
	envEndpoint = "MUX_ENDPOINT"
	envVMSet    = "MUX_VM_SET"
	envToken    = "MUX_TOKEN"
)

// New returns what makes a provider of the given version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &muxProvider{version: version} }
}

type muxProvider struct{ version string }

type providerModel struct {
	Endpoint              types.String `tfsdk:"endpoint"`
	VMSet                 types.String `tfsdk:"vm_set"`
	Token                 types.String `tfsdk:"token"`
	CACertPEM             types.String `tfsdk:"ca_cert_pem"`
	ClientCertPEM         types.String `tfsdk:"client_cert_pem"`
	ClientKeyPEM          types.String `tfsdk:"client_key_pem"`
	InsecureSkipVerify    types.Bool   `tfsdk:"insecure_skip_verify"`
	RequestTimeout        types.String `tfsdk:"request_timeout"`
	Retry                 types.Object `tfsdk:"retry"`
	MaxConcurrentRequests types.Int64  `tfsdk:"max_concurrent_requests"`
	DriftPolicy           types.String `tfsdk:"drift_policy"`
}

type retryModel struct {
	MaxElapsed types.String `tfsdk:"max_elapsed"`
	MinDelay   types.String `tfsdk:"min_delay"`
	MaxDelay   types.String `tfsdk:"max_delay"`
}

func (p *muxProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "mux"
	resp.Version = p.version
}

func (p *muxProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages the simulated Y-cables (muxes) of SONiC dual-ToR testbeds through `mux-agent`, which runs on the " +
			"test server. One configuration can drive many agents: set `endpoint` on the resources.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				MarkdownDescription: "Base URL of the agent, such as `http://10.0.0.64:8080`, for all resources that name none. " +
					"May be set by the environment variable `" + envEndpoint + "`.",
				Optional:   true,
				Validators: []validator.String{endpointValidator{}},
			},
			"vm_set": schema.StringAttribute{
				MarkdownDescription: "The testbed's vm_set, such as `vms17-8`, for all resources that name none. " +
					"May be set by the environment variable `" + envVMSet + "`.",
				Optional:   true,
				Validators: []validator.String{vmSetValidator()},
			},
			"token": schema.StringAttribute{
				MarkdownDescription: "Bearer token for agents that ask for one (`mux-agent serve --token-file`). Over `http` it can be read on the way. " +
					"May be set by the environment variable `" + envToken + "`.",
				Optional:  true,
				Sensitive: true,
			},
			"ca_cert_pem": schema.StringAttribute{
				MarkdownDescription: "Certificates of the authority that signed the agents' certificates, as PEM. By default those that the system trusts.",
				Optional:            true,
			},
			"client_cert_pem": schema.StringAttribute{
				MarkdownDescription: "Certificate to show to agents that ask for one (`mux-agent serve --client-ca`), as PEM. Goes with `client_key_pem`.",
				Optional:            true,
			},
			"client_key_pem": schema.StringAttribute{
				MarkdownDescription: "Private key of `client_cert_pem`, as PEM.",
				Optional:            true,
				Sensitive:           true,
			},
			"insecure_skip_verify": schema.BoolAttribute{
				MarkdownDescription: "Trust every certificate. Who can reach the network can then read the token and answer in the agent's place.",
				Optional:            true,
			},
			"request_timeout": schema.StringAttribute{
				MarkdownDescription: "How long one try of a request may take, as a duration. Default `" + client.DefaultRequestTimeout.String() + "`.",
				Optional:            true,
				Validators:          []validator.String{durationValidator{}},
			},
			"retry": schema.SingleNestedAttribute{
				MarkdownDescription: "When to give up. Reads and writes are safe to repeat and are tried again after failures that may pass.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"max_elapsed": schema.StringAttribute{
						MarkdownDescription: "The time for all tries of one request. Default `" + client.DefaultMaxElapsed.String() + "`.",
						Optional:            true,
						Validators:          []validator.String{durationValidator{}},
					},
					"min_delay": schema.StringAttribute{
						MarkdownDescription: "The wait after the first try is drawn from zero to this; the range doubles with each try. Default `" +
							client.DefaultMinDelay.String() + "`.",
						Optional:   true,
						Validators: []validator.String{durationValidator{}},
					},
					"max_delay": schema.StringAttribute{
						MarkdownDescription: "The longest wait between two tries, also when the agent asks for a longer one. Default `" +
							client.DefaultMaxDelay.String() + "`.",
						Optional:   true,
						Validators: []validator.String{durationValidator{}},
					},
				},
			},
			"max_concurrent_requests": schema.Int64Attribute{
				MarkdownDescription: fmt.Sprintf("How many requests may be on their way to one agent at once. Default `%d`.", client.DefaultMaxConcurrent),
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(1, 1000)},
			},
			"drift_policy": schema.StringAttribute{
				MarkdownDescription: "What to do when a port is not as it was applied, for all resources that don't say: `correct` (default) shows the drift " +
					"in the plan and puts it right at the next apply; `ignore` leaves it, for testbeds where linkmgrd switches sides by itself.",
				Optional:   true,
				Validators: []validator.String{stringvalidator.OneOf(driftCorrect, driftIgnore)},
			},
		},
	}
}

// Configure works out the configuration. It never connects: a plan must work while an agent is down.
func (p *muxProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var config providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !req.Config.Raw.IsFullyKnown() && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &provider.Deferred{Reason: provider.DeferredReasonProviderConfigUnknown}
	}

	m := &meta{
		endpoint:    orEnv(config.Endpoint, envEndpoint),
		vmSet:       orEnv(config.VMSet, envVMSet),
		driftPolicy: config.DriftPolicy,
		run:         newRun(),
	}
	if config.Endpoint.IsNull() && !m.endpoint.IsNull() {
		if _, err := client.ParseEndpoint(m.endpoint.ValueString()); err != nil {
			resp.Diagnostics.AddError("Bad environment variable "+envEndpoint, sentence(err))
		}
	}
	if config.VMSet.IsNull() && !m.vmSet.IsNull() && !vmSetPattern.MatchString(m.vmSet.ValueString()) {
		resp.Diagnostics.AddError("Bad environment variable "+envVMSet,
			fmt.Sprintf("Its value is %q; a vm_set is written like \"vms17-8\".", m.vmSet.ValueString()))
	}

	var retry retryModel
	if !config.Retry.IsNull() && !config.Retry.IsUnknown() {
		resp.Diagnostics.Append(config.Retry.As(ctx, &retry, objectOptions)...)
	}
	tlsConfig, err := client.TLSConfig(config.CACertPEM.ValueString(), config.ClientCertPEM.ValueString(), config.ClientKeyPEM.ValueString(),
		config.InsecureSkipVerify.ValueBool())
	if err != nil && !config.CACertPEM.IsUnknown() && !config.ClientCertPEM.IsUnknown() && !config.ClientKeyPEM.IsUnknown() {
		resp.Diagnostics.AddError("Bad certificate or key", sentence(err))
	}
	token, err := client.ParseToken(orEnv(config.Token, envToken).ValueString())
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("token"), "Bad token", sentence(err)+" It comes from token in the provider block, or from "+envToken+".")
	}
	if resp.Diagnostics.HasError() {
		return
	}
	m.agents = newAgents(client.Config{
		RequestTimeout: duration(config.RequestTimeout, client.DefaultRequestTimeout),
		MaxElapsed:     duration(retry.MaxElapsed, client.DefaultMaxElapsed),
		MinDelay:       duration(retry.MinDelay, client.DefaultMinDelay),
		MaxDelay:       duration(retry.MaxDelay, client.DefaultMaxDelay),
		MaxConcurrent:  int(config.MaxConcurrentRequests.ValueInt64()),
		Token:          token,
		TLS:            tlsConfig,
		UserAgent:      "terraform-provider-mux/" + p.version,
		OnTry:          logTry,
	})
	if cfg := m.agents.config; cfg.MinDelay > cfg.MaxDelay {
		resp.Diagnostics.AddAttributeError(path.Root("retry"), "min_delay is longer than max_delay",
			fmt.Sprintf("min_delay is %s and max_delay is %s. Set both so that min_delay is the shorter one.", cfg.MinDelay, cfg.MaxDelay))
	}
	resp.ResourceData, resp.DataSourceData, resp.ActionData, resp.ListResourceData = m, m, m, m
}

func (p *muxProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newPort, newPorts}
}

func (p *muxProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newPortDataSource, newPortsDataSource, newFlapCountersDataSource}
}

func (p *muxProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newOtherSide, newParsePortID}
}

func (p *muxProvider) Actions(context.Context) []func() action.Action { return newActions() }

func (p *muxProvider) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{newPortList, newPortsList}
}

// orEnv returns the attribute, or the environment variable when the attribute is not in the configuration. What is
// unknown at plan time stays unknown: it will be known, and may differ from the environment.
func orEnv(attribute types.String, env string) types.String {
	if value := os.Getenv(env); attribute.IsNull() && value != "" {
		return types.StringValue(value)
	}
	return attribute
}

// duration reads an attribute that durationValidator has seen. Unknown at plan time, it is the default.
func duration(attribute types.String, def time.Duration) time.Duration {
	if d, err := time.ParseDuration(attribute.ValueString()); err == nil {
		return d
	}
	return def
}
