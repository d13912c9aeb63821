//go:build tools

// Package tools pins OpenTofu.
package tools

import _ "github.com/opentofu/opentofu/cmd/tofu"
