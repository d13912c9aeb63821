// Package provider implements an OpenTofu provider with resources for login roles and databases of a PostgreSQL server.
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

// The environment variables with the administrator's name and password. They apply if the provider block omits the
// values.
const (
	userVariable     = "PGACCESS_USER"
	passwordVariable = "PGACCESS_PASSWORD"
)

// New returns a function that creates the provider. getenv returns the value of an environment variable, or "" if the
// variable is not set.
func New(getenv func(name string) string) func() provider.Provider {
	return func() provider.Provider { return &pgaccess{getenv: getenv} }
}

// pgaccess is the provider. It keeps no connection, so that OpenTofu can plan even if the server cannot be reached.
type pgaccess struct{ getenv func(name string) string }

// configuration contains the attributes of the provider block.
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

// The values of omitted attributes of the provider block, and the largest port.
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
				Description: "Names or addresses of the servers of one cluster. If the list contains several, " +
					"the server that accepts writes is used.",
			},
			"port": schema.Int64Attribute{
				Optional: true, Description: "The port of the servers. The default is 5432.",
				Validators: []validator.Int64{between(1, maxPort)},
			},
			"user": schema.StringAttribute{
				Optional: true,
				Description: "The administrator: a superuser, or a role with CREATEROLE that owns the databases. " +
					"The default is the environment variable " + userVariable + ".",
			},
			"password": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "The administrator's password. " +
					"The default is the environment variable " + passwordVariable + ".",
			},
			"database": schema.StringAttribute{
				Optional: true, Description: "The database to connect to for the creation and deletion of databases. " +
					`The default is "postgres".`,
			},
			"sslmode": schema.StringAttribute{
				Optional: true, Description: "The SSL mode: disable, require, verify-ca or verify-full. " +
					"The default is verify-full.",
				Validators: []validator.String{oneOf(postgres.SSLModes()...)},
			},
			"ca_certificate": schema.StringAttribute{
				Optional: true,
				Description: "The certificates of the authorities that may sign the server's certificate, in PEM " +
					"format. The default is the authorities of the operating system.",
			},
			"connect_timeout": schema.Int64Attribute{
				Optional:    true,
				Description: "The time limit for each attempt to connect, in seconds. The default is 5.",
				Validators:  []validator.Int64{between(1, 60)},
			},
		},
	}
}

// Configure passes the server with its login to the resources. It does not connect to the server.
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

// configured is embedded by both resources. It contains the server, which is the zero value until Configure is called
// with the data of a configured provider.
type configured struct{ server postgres.Server }

func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	if req.ProviderData == nil {
		return // OpenTofu validates the configuration before it configures the provider
	}
	server, ok := req.ProviderData.(postgres.Server)
	if !ok {
		resp.Diagnostics.AddError(
			fmt.Sprintf("the provider's configuration has the type %T instead of %T", req.ProviderData, server), "")
	}
	c.server = server
}

// text returns a text of the configuration, or otherwise if the text is null, unknown or empty.
func text(value types.String, otherwise string) string {
	if value.ValueString() == "" {
		return otherwise
	}
	return value.ValueString()
}

// number returns a number of the configuration, or otherwise if the number is null or unknown.
func number(value types.Int64, otherwise int64) int64 {
	if value.IsNull() || value.IsUnknown() {
		return otherwise
	}
	return value.ValueInt64()
}
