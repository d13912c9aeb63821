// Command terraform-provider-pgaccess is an OpenTofu provider for access to the databases of a PostgreSQL server: login
// roles that share what they make, and databases.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"service-adapter/terraform-provider-pgaccess/provider"
)

// address is where templates declare this provider.
const address = "registry.terraform.io/service-adapter/pgaccess"

func main() {
	options := providerserver.ServeOpts{Address: address}
	if err := providerserver.Serve(context.Background(), provider.New(os.Getenv), options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
