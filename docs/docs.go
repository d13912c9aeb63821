// Package docs contains the pages of the documentation that the program itself reads.
package docs

import _ "embed"

// Rules is the page about the rules of `pak validate`. The section of each rule begins with *SEVERITY: SUMMARY.*
//
//go:embed rules.md
var Rules string
