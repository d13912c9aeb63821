package manifestdiff

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// referencePattern matches references to BOSH variables and to credentials in CredHub.
var referencePattern = regexp.MustCompile(`\(\([^()\s]+\)\)`)

// shortestEmbedded is the length, in bytes, from which a recorded secret is recognised within a longer text, such as a
// URL.
const shortestEmbedded = 6

// A credentials determines which changes remove a secret from a deployed manifest, because bindings whose credentials
// contain the secret then stop working. It holds the texts of the generated manifest, in which a secret may still
// occur, and the recorded secrets of the deployed one. With the zero value, every removed secret counts as absent from
// the generated manifest.
type credentials struct {
	// generated are the scalars of the generated manifest as texts.
	generated []string
	// recorded are the secrets in the record of the deployed manifest whose values the manifest contains.
	recorded []string
}

// newCredentials returns an object whose method lostBy determines which changes from a deployed to a generated
// manifest remove a secret. generated is the generated manifest as a normalised tree of maps, lists and scalars, in
// which a secret that a change removes may still occur; nil means that it contains no texts. stored is the record of
// the deployed manifest. lostBy searches the deployed values of the changes for the secrets whose values the record
// contains; for other secrets it recognises only references and keys. A nil stored means that there are no recorded
// secrets.
func newCredentials(generated any, stored *record.InstanceRecord) credentials {
	c := credentials{generated: textsIn(generated)}
	if stored == nil {
		return c
	}
	for _, secret := range stored.Secrets {
		if text := value.Text(secret.Value); text != "" {
			c.recorded = append(c.recorded, text)
		}
	}
	return c
}

// lostBy reports whether the deployed value of a change contains a credential that the generated manifest does not
// contain anywhere. Credentials are references such as ((name)), secrets of the record, and the whole value, as text,
// if its key, which is the last element of change.Path, or a key within the value names a secret, such as "password"
// (see redact.Named). The text of a mapping or list is its JSON, so a mapping or list to which this applies counts as
// lost even if the generated manifest contains its credentials. lostBy returns false if the deployed value is nil.
func (c credentials) lostBy(change *Change) bool {
	var removed []string
	for _, text := range textsIn(change.Deployed) {
		removed = append(removed, referencePattern.FindAllString(text, -1)...)
		for _, secret := range c.recorded {
			if contains(text, secret) {
				removed = append(removed, secret)
			}
		}
	}
	if text := value.Text(change.Deployed); redact.Named(path.Base(change.Path), text) {
		removed = append(removed, text)
	}
	return slices.ContainsFunc(removed, func(secret string) bool {
		return !slices.ContainsFunc(c.generated, func(text string) bool { return contains(text, secret) })
	})
}

// contains reports whether text is equal to secret, which is a secret or a reference such as ((name)), or contains it.
// A secret of fewer than six bytes (shortestEmbedded) that is not a reference must be the whole text, because it could
// be a part of any text by chance. Letter case is significant.
func contains(text, secret string) bool {
	embeddable := len(secret) >= shortestEmbedded || strings.HasPrefix(secret, "((")
	return text == secret || embeddable && strings.Contains(text, secret)
}

// textsIn returns all scalars in a tree of maps and lists as texts; numbers and booleans are formatted as value.Text
// does, and null is "". The keys of mappings are not included. For a scalar, the result is that scalar alone, and for a
// tree without scalars it is empty. The tree is not changed.
func textsIn(tree any) []string {
	var texts []string
	_, _ = value.Map(tree, func(leaf any) (any, error) {
		texts = append(texts, value.Text(leaf))
		return leaf, nil
	})
	return texts
}
