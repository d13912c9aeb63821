// Command terraform-provider-directory is an OpenTofu provider for tests. It stores every resource as a file in a
// directory, so that a test can see which resources exist. It can be paused at named points of a run, so that a test
// can kill or interrupt it there without sleeping.
package main

import (
	"context"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// address is the source address with which paks declare this provider.
const address = "registry.terraform.io/service-adapter/directory"

func main() {
	weigh()
	serve := func() provider.Provider { return &directoryProvider{} }
	if err := providerserver.Serve(context.Background(), serve,
		providerserver.ServeOpts{Address: address}); err != nil {
		log.Fatal(err)
	}
}

// directoryProvider has the resources directory_entry and directory_claim. Its configuration imitates the login to a
// server: if the file password_file exists, only the password in this file is accepted.
type directoryProvider struct{}

// Metadata sets the name of the provider, which is the prefix of its resources.
func (p *directoryProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "directory"
	resp.Version = "1.0.0"
}

// Schema declares the configuration of the provider.
func (p *directoryProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Keeps resources as files of a directory.",
		Attributes: map[string]schema.Attribute{
			"password":      schema.StringAttribute{Optional: true},
			"password_file": schema.StringAttribute{Optional: true},
		},
	}
}

// Configure imitates a login. It adds an error if the password file exists and contains another password.
func (p *directoryProvider) Configure(ctx context.Context, req provider.ConfigureRequest,
	resp *provider.ConfigureResponse,
) {
	var config struct {
		Password     types.String `tfsdk:"password"`
		PasswordFile types.String `tfsdk:"password_file"`
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	accepted, err := os.ReadFile(config.PasswordFile.ValueString())
	if err == nil && string(accepted) != config.Password.ValueString() {
		resp.Diagnostics.AddError("Login refused", "the password is not accepted")
	}
}

// DataSources returns nil, because the provider has none.
func (p *directoryProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

// Resources returns the resources of the provider.
func (p *directoryProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &entry{} },
		func() resource.Resource { return &claim{} },
	}
}
