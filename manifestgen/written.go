package manifestgen

import (
	"strings"

	"gopkg.in/yaml.v2"

	"service-adapter/internal/value"
)

// IsAsWritten reports whether manifest, the YAML text of a deployed manifest, has the form in which this adapter writes
// it, apart from line breaks at its ends: whether reading the text and writing it again gives the same text. The BOSH
// CLI writes every manifest that it deploys in another order of keys and with another indentation, so a manifest that
// an operator edited and deployed with the CLI is not as written. An edit that preserves the form of the text is not
// detected. IsAsWritten returns false for a text that cannot be parsed or is not a mapping.
func IsAsWritten(manifest string) bool {
	var raw any
	if err := yaml.Unmarshal([]byte(manifest), &raw); err != nil {
		return false
	}
	tree, _ := value.Normalise(raw).(map[string]any)
	written, err := encodeManifest(tree)
	return err == nil && strings.Trim(written, "\n") == strings.Trim(manifest, "\n")
}
