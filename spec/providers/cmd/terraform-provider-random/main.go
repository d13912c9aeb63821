// Command terraform-provider-random is a test double of the provider hashicorp/random, for machines that cannot
// download the real provider. It has the resources random_string and random_password with the arguments that paks use.
// It does not replace the real provider: it has no min_* arguments, no keepers, no bcrypt hash and no other resources.
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

// address is the source address of the provider that this program replaces.
const address = "registry.terraform.io/hashicorp/random"

func main() {
	serve := func() provider.Provider { return &randomProvider{} }
	if err := providerserver.Serve(context.Background(), serve,
		providerserver.ServeOpts{Address: address, ProtocolVersion: 5}); err != nil {
		log.Fatal(err)
	}
}

// randomProvider has no configuration.
type randomProvider struct{}

// Metadata sets the name of the provider, which is the prefix of its resources.
func (p *randomProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "random"
	resp.Version = "3.6.0"
}

// Schema declares an empty configuration.
func (p *randomProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{Description: "A test double of hashicorp/random."}
}

// Configure does nothing.
func (p *randomProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

// DataSources returns nil, because the double has none.
func (p *randomProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

// Resources returns random_string and random_password.
func (p *randomProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &randomString{name: "random_string"} },
		func() resource.Resource { return &randomString{name: "random_password", sensitive: true} },
	}
}
