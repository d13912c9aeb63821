// Command terraform-provider-directory is an OpenTofu provider for tests: it keeps every resource as a file in a directory,
// so that a test can see what exists, and it can be held at named points of a run, so that a test can kill or interrupt it
// exactly there without sleeping.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// address is where paks declare this provider.
const address = "registry.terraform.io/service-adapter/directory"

func main() {
	weigh()
	serve := func() provider.Provider { return &directoryProvider{} }
	if err := providerserver.Serve(context.Background(), serve, providerserver.ServeOpts{Address: address}); err != nil {
		log.Fatal(err)
	}
}

// directoryProvider has no configuration and the resources directory_entry and directory_claim.
type directoryProvider struct{}

func (p *directoryProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "directory"
	resp.Version = "1.0.0"
}

func (p *directoryProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{Description: "Keeps resources as files of a directory."}
}

func (p *directoryProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (p *directoryProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (p *directoryProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &entry{} },
		func() resource.Resource { return &claim{} },
	}
}
