package opentofu

import (
	"regexp"
	"strings"

	"service-adapter/internal/statestore"
)

// explainEncryption replaces OpenTofu's words about states that it must not or cannot decrypt by what to do. Texts that it does not
// know stay as they are.
func (e *Error) explainEncryption() {
	said := e.Summary + " " + e.Detail
	instead := regexp.MustCompile(`(?s)` + statestore.AnotherKey + `.*?(` + regexp.QuoteMeta(statestore.AddKey) + `|$)`).FindString(said)
	switch {
	case strings.Contains(said, "is encrypted and can not be read without an encryption configuration"):
		instead = "the state is encrypted; set state.encryption"
	case strings.Contains(said, "unencrypted payload without unencrypted method"):
		instead = "the state is not encrypted although state.encryption is set; encrypt the existing states first"
	}
	if instead != "" {
		e.Summary, e.Detail, e.said.Summary, e.said.Detail = instead, "", instead, ""
	}
}
