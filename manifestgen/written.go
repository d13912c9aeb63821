package manifestgen

import (
	"strings"

	"gopkg.in/yaml.v2"

	"service-adapter/internal/value"
)

// IsAsWritten reports whether the text of a manifest is as this adapter writes it, apart from line breaks at its ends.
// The BOSH CLI writes every manifest that it deploys in another order of keys and with another indentation, so a
// manifest that an operator edited and deployed with it is not as written. An edit that keeps the form of the text is
// not recognised. IsAsWritten returns false for a text that cannot be parsed or is not a mapping.
func IsAsWritten(manifest string) bool {
	var raw any
	if err := yaml.Unmarshal([]byte(manifest), &raw); err != nil {
		return false
	}
	tree, _ := value.Normalise(raw).(map[string]any)
	written, err := encodeManifest(tree)
	return err == nil && strings.Trim(written, "\n") == strings.Trim(manifest, "\n")
}
