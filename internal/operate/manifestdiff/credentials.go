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

// credentials determines which changes remove a secret from a deployed manifest: the generated manifest does not
// contain it any longer, but the credentials of bindings may.
type credentials struct {
	// generated are the scalars of the generated manifest as texts.
	generated []string
	// recorded are the secrets in the record of the deployed manifest whose values the manifest contains.
	recorded []string
}

// newCredentials returns the credentials for the changes to a generated manifest, a normalised tree. stored is the
// record of the deployed manifest; nil means that there are no recorded secrets.
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

// lostBy reports whether a change removes a credential that the generated manifest does not contain anywhere else: a
// reference, a recorded secret, or a value that its key names as a secret.
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

// contains reports whether a text is a secret or a reference, or contains it. A secret shorter than shortestEmbedded
// must be the whole text, because it could be a part of any text by chance.
func contains(text, secret string) bool {
	embeddable := len(secret) >= shortestEmbedded || strings.HasPrefix(secret, "((")
	return text == secret || embeddable && strings.Contains(text, secret)
}

// textsIn returns the scalars of a value as texts. The keys of mappings are not among them.
func textsIn(tree any) []string {
	var texts []string
	_, _ = value.Map(tree, func(leaf any) (any, error) {
		texts = append(texts, value.Text(leaf))
		return leaf, nil
	})
	return texts
}
