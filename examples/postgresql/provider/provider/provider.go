// Package provider shows login roles and databases of a PostgreSQL server as resources of OpenTofu.
package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"service-adapter/terraform-provider-pgaccess/postgres"
)

// The environment variables of the administrator, for where the configuration names none.
const (
	userVariable     = "PGACCESS_USER"
	passwordVariable = "PGACCESS_PASSWORD"
)

// New returns what makes the provider. getenv looks up environment variables: "" where there is none.
func New(getenv func(name string) string) func() provider.Provider {
	return func() provider.Provider { return &pgaccess{getenv: getenv} }
}

// pgaccess is the provider. It keeps nothing but its configuration: a server that cannot be reached hinders no plan.
type pgaccess struct{ getenv func(name string) string }

// configuration is the provider block.
type configuration struct {
	Hosts          types.List   `tfsdk:"hosts"`
	Port           types.Int64  `tfsdk:"port"`
	User           types.String `tfsdk:"user"`
	Password       types.String `tfsdk:"password"`
	Database       types.String `tfsdk:"database"`
	SSLMode        types.String `tfsdk:"sslmode"`
	CA             types.String `tfsdk:"ca_certificate"`
	ConnectTimeout types.Int64  `tfsdk:"connect_timeout"`
}

// What holds where the configuration says nothing.
const (
	defaultPort           = 5432
	defaultDatabase       = "postgres"
	defaultConnectTimeout = 5 // seconds
	maxPort               = 65535
)

func (p *pgaccess) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "pgaccess", "1.0.0"
}

func (p *pgaccess) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Login roles and databases of a PostgreSQL server, version 14 or later.",
		Attributes: map[string]schema.Attribute{
			"hosts": schema.ListAttribute{
				Required: true, ElementType: types.StringType,
				Description: "Names or addresses of the servers of one cluster; of several, " +
					"the one that accepts writes is used.",
			},
			"port": schema.Int64Attribute{
				Optional: true, Description: "The port of the servers, 5432 by default.",
				Validators: []validator.Int64{between(1, maxPort)},
			},
			"user": schema.StringAttribute{
				Optional: true,
				Description: "The administrator: a superuser, or a role with CREATEROLE that owns the databases; " +
					userVariable + " of the environment by default.",
			},
			"password": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "The administrator's password; " + passwordVariable + " of the environment by default.",
			},
			"database": schema.StringAttribute{
				Optional: true, Description: `The database to work on databases from, "postgres" by default.`,
			},
			"sslmode": schema.StringAttribute{
				Optional: true, Description: "disable, require, verify-ca or verify-full, which is the default.",
				Validators: []validator.String{oneOf(postgres.SSLModes()...)},
			},
			"ca_certificate": schema.StringAttribute{
				Optional: true,
				Description: "The certificates, PEM, that the server's is verified with; " +
					"those of the system by default.",
			},
			"connect_timeout": schema.Int64Attribute{
				Optional: true, Description: "How long to wait for a connection, in seconds; 5 by default.",
				Validators: []validator.Int64{between(1, 60)},
			},
		},
	}
}

// Configure hands the configuration to the resources. Nothing connects before a resource needs it.
func (p *pgaccess) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var c configuration
	resp.Diagnostics.Append(req.Config.Get(ctx, &c)...)
	var hosts []types.String
	if !c.Hosts.IsUnknown() {
		resp.Diagnostics.Append(c.Hosts.ElementsAs(ctx, &hosts, false)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	server := postgres.Server{
		Port: int(number(c.Port, defaultPort)), Database: text(c.Database, defaultDatabase),
		User: text(c.User, p.getenv(userVariable)), Password: text(c.Password, p.getenv(passwordVariable)),
		SSLMode: text(c.SSLMode, postgres.SSLVerifyFull), CA: c.CA.ValueString(),
		ConnectTimeout: time.Duration(number(c.ConnectTimeout, defaultConnectTimeout)) * time.Second,
	}
	for _, host := range hosts {
		if host.ValueString() == "" && !host.IsUnknown() {
			resp.Diagnostics.AddAttributeError(path.Root("hosts"), "a host must not be empty", "")
		}
		server.Hosts = append(server.Hosts, host.ValueString())
	}
	resp.ResourceData = server
}

func (p *pgaccess) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (p *pgaccess) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &role{} },
		func() resource.Resource { return &database{} },
	}
}

// configured is what both resources have: the server, once the provider is configured.
type configured struct{ server postgres.Server }

func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	if req.ProviderData == nil {
		return // validation
	}
	server, ok := req.ProviderData.(postgres.Server)
	if !ok {
		resp.Diagnostics.AddError(fmt.Sprintf("the provider's configuration is a %T", req.ProviderData), "")
	}
	c.server = server
}

func text(value types.String, otherwise string) string {
	if value.ValueString() == "" {
		return otherwise
	}
	return value.ValueString()
}

func number(value types.Int64, otherwise int64) int64 {
	if value.IsNull() || value.IsUnknown() {
		return otherwise
	}
	return value.ValueInt64()
}
