// Package examples holds the example paks, for `service-adapter pak init --like`. What they are built from is not in it: a pak bundles
// its binaries.
package examples

import "embed"

// Paks has a directory for each example, by its name.
//
//go:embed */*.yml */bosh */commands */terraform */tests
var Paks embed.FS
