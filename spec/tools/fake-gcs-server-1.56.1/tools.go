//go:build tools

// Package tools pins fake-gcs-server.
package tools

import _ "github.com/fsouza/fake-gcs-server"
