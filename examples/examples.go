// Package examples contains the example paks for `service-adapter pak init --like`. It does not contain the sources of
// the binaries, because a pak bundles its binaries.
package examples

import "embed"

// Paks contains a directory for each example, with the name of the example.
//
//go:embed */*.yml */bosh */commands */terraform */tests
var Paks embed.FS
