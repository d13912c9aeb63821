// Package docs holds the pages of the documentation that the program reads itself.
package docs

import _ "embed"

// Rules is the page about the rules of `pak validate`. Each has a section that begins with *SEVERITY: SUMMARY.*
//
//go:embed rules.md
var Rules string
