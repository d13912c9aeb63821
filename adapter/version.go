package adapter

import (
	"service-adapter/internal/opentofu"
)

// TestedOpenTofu returns the versions of OpenTofu that the tests run, oldest first.
func TestedOpenTofu() []string { return opentofu.Tested() }
