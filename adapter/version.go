package adapter

import "service-adapter/internal/tofu"

// TestedOpenTofu returns the versions of OpenTofu that the tests run, oldest first.
func TestedOpenTofu() []string { return tofu.Tested() }
