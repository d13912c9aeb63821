package manifestgen

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// A candidate is the value that a secret should have according to this request. The zero candidate means that this call
// does not know the value.
type candidate struct {
	// item is the value. It is meaningful only if available is true.
	item any
	// available is false if this call does not know the value. If the secret has a stored value, which only CredHub
	// knows, the secret then keeps it.
	available bool
	// requested is true if the parameters of this request contain the value.
	requested bool
	// changed is true if the value counts as a new one even when the previous value is not available for comparison.
	changed bool
	// keepers is the digest of the values of the secret's keepers. It is "" if the secret has none.
	keepers string
}

// A candidateFunc returns the candidate for a secret. The second argument is the secret's entry in the record of the
// deployed manifest, which is zero if there is none. It returns an error if the value cannot be determined. The
// candidate must not be used then.
type candidateFunc func(secret brokerpak.Secret, before record.Secret) (candidate, error)

// definedCandidates returns the candidateFunc for secrets of the definition, and for secret inputs of a template that
// an errand applies: generated passwords and supplied values. The set generated contains the inputs whose values are
// generated and therefore secret; it may be nil. The function returns an error if an expression cannot be evaluated.
// See generatedCandidate and suppliedCandidate for the values.
func definedCandidates(r *resolution, generated map[string]bool) candidateFunc {
	return func(secret brokerpak.Secret, before record.Secret) (candidate, error) {
		if secret.Value == nil {
			return generatedCandidate(r, secret, before)
		}
		_, requested := r.Parameters[secret.Input]
		if !requested && keepsSuppliedValue(r, secret, before, generated[secret.Input]) {
			return recordedCandidate(before), nil
		}
		return suppliedCandidate(r, secret, before, requested)
	}
}

// recordedCandidate returns the candidate for a secret that keeps its value. The value is available only if before, the
// entry of the secret in the record of the deployed manifest, contains it.
func recordedCandidate(before record.Secret) candidate {
	return candidate{item: before.Value, available: before.Value != nil}
}

// keepsSuppliedValue reports whether a secret with an expression, which this request does not set, keeps the value that
// it got earlier. It does in two cases: its value was generated, which the generated argument says of the secret's
// input, and the record contains the value or its place in CredHub; or its input is a secret parameter of an earlier
// request. Only CredHub knows the value of such a parameter, so the input has no value in this call. before is the
// entry of the secret in the record of the deployed manifest.
func keepsSuppliedValue(r *resolution, secret brokerpak.Secret, before record.Secret, generated bool) bool {
	wasSet := before.Value != nil || before.Version > 0 || before.Reference != ""
	if generated && wasSet {
		return true
	}
	_, isSecretParameter := r.received.SecretParameters[secret.Input]
	return isSecretParameter && r.scope.Origins[secret.Input].FromRequest && r.scope.Values[secret.Input] == nil
}

// suppliedCandidate returns the value of a secret's expression as its candidate. The requested argument says that this
// request contains the value as a parameter. An input without a value gives an available candidate with the value nil.
// For a field of the UAA client that the broker did not send, suppliedCandidate returns the recorded candidate, because
// the broker sends the client's secret only once. It returns an error if the expression cannot be evaluated. before is
// the entry of the secret in the record of the deployed manifest.
func suppliedCandidate(
	r *resolution, secret brokerpak.Secret, before record.Secret, requested bool,
) (candidate, error) {
	supplied := candidate{available: true, requested: requested}
	if field, ok := strings.CutPrefix(secret.Input, brokerpak.UAAClient); ok {
		if supplied.item = r.received.UAAClient[field]; supplied.item == nil {
			return recordedCandidate(before), nil
		}
		return supplied, nil
	}
	var resolved bool
	supplied.item, resolved = r.scope.Values[secret.Input] // unlike an evaluated expression, it keeps its type
	if resolved || slices.Contains(r.Service.Provision.InputNames(), secret.Input) {
		return supplied, nil
	}
	var err error
	if supplied.item, err = r.scope.Eval("secrets."+secret.Name, secret.Value); err != nil {
		return candidate{}, fmt.Errorf("evaluating secret %q: %w", secret.Name, err)
	}
	return supplied, nil
}

// generatedCandidate returns the candidate for a generated password: the recorded candidate, or a new password if the
// values of the secret's keepers have changed since it was generated. Without a recorded digest of the keepers, they do
// not count as changed. If the record does not contain the value, the recorded candidate is not available, so
// decideSecret keeps the stored password or generates the first one. generatedCandidate returns an error if a keeper
// cannot be evaluated. before is the entry of the secret in the record of the deployed manifest.
func generatedCandidate(r *resolution, secret brokerpak.Secret, before record.Secret) (candidate, error) {
	recorded := recordedCandidate(before)
	if len(secret.Keepers) == 0 {
		return recorded, nil
	}
	values := map[string]any{}
	for _, name := range value.Keys(secret.Keepers) {
		item, err := r.scope.Eval("secrets."+secret.Name+"."+name, secret.Keepers[name])
		if err != nil {
			return recorded, fmt.Errorf("evaluating keeper %q of secret %q: %w", name, secret.Name, err)
		}
		values[name] = item
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(value.MustJSON(values)))
	if before.Keepers != "" && before.Keepers != digest {
		return candidate{item: password(secret.Length), available: true, changed: true, keepers: digest}, nil
	}
	recorded.keepers = digest
	return recorded, nil
}

// passwordLetters are the characters of generated passwords, which need no quoting in shells, URLs and configuration
// files.
const passwordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// password returns a new random password of letters and digits. It has about 5.95 bits of entropy per character.
func password(length int) string {
	letters, count := make([]byte, length), big.NewInt(int64(len(passwordLetters)))
	for i := range letters {
		index, _ := rand.Int(rand.Reader, count) // this reader never fails
		letters[i] = passwordLetters[index.Int64()]
	}
	return string(letters)
}
