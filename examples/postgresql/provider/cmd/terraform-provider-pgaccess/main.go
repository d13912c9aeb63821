// Command terraform-provider-pgaccess is an OpenTofu provider for databases of a PostgreSQL server and for login roles.
// The login roles of a group share the objects that they create.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"service-adapter/terraform-provider-pgaccess/provider"
)

// address is the source address with which templates declare this provider.
const address = "registry.terraform.io/service-adapter/pgaccess"

func main() {
	options := providerserver.ServeOpts{Address: address}
	if err := providerserver.Serve(context.Background(), provider.New(os.Getenv), options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
