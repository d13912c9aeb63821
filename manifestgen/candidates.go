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

// A candidate is the value that a secret should have according to this request: a supplied value, a sensitive output
// of the provision template, a password, or the value that the record of the deployed manifest contains. An available
// candidate with the value nil means that the secret has no value. A candidate that is not available, such as the
// zero candidate, means that this call does not know the value: the secret then keeps the value in CredHub. If none
// is stored there, a secret without an expression gets its first password, and the value of a secret with an
// expression counts as lost.
//
// requested means that the parameters of this request contain the value. changed means that the value counts as a new
// one even if the previous value is not available for comparison. keepers is the digest of the values of the secret's
// keepers, expressions whose change demands a new password; it is "" if the secret has none.
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

// A candidateFunc returns the candidate for a secret: one of the definition, or a secret input or sensitive output of
// the provision template. before is the secret's entry in the record of the deployed manifest; it is zero if the
// record has none. A value that this call does not know is not an error: the candidate is then not available. The
// function returns an error if an expression for the value cannot be evaluated. The candidate that it returns with an
// error must not be used.
type candidateFunc func(secret brokerpak.Secret, before record.Secret) (candidate, error)

// definedCandidates returns the candidateFunc for secrets of the definition, and for secret inputs of a template
// that an errand applies. A secret without an expression gets the candidate for a generated password (see
// generatedCandidate). A secret with an expression gets the value of its expression (see suppliedCandidate). It
// keeps its earlier value instead if this request does not set the secret's input as a parameter and one of two
// conditions holds: the input is in generated and the secret has an earlier value, or the input is a secret
// parameter of an earlier request whose value only CredHub knows. See keepsSuppliedValue.
//
// r contains the resolved variables. generated is the set of inputs whose values are generated; a nil map is an
// empty set. definedCandidates itself never fails. The function that it returns passes on the errors of expressions
// that cannot be evaluated.
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

// recordedCandidate returns the candidate for a secret that keeps its value. before is the secret's entry in the record
// of the deployed manifest. If before contains the value, the candidate is available and has this value; otherwise, as
// for a value in CredHub or an empty entry, the result is the zero candidate.
func recordedCandidate(before record.Secret) candidate {
	return candidate{item: before.Value, available: before.Value != nil}
}

// keepsSuppliedValue reports whether a secret keeps the value that it got from an earlier request, so that its
// expression must not be evaluated again. The secret must have an expression, and its input must not be a parameter
// of this request; the caller checks both. The result is true in two cases. Either generated is true, which means
// that the value of the secret's input depends on the function rand.base64 (see valueSecrets), and before contains a
// value, a version or a CredHub reference. Or the input is a secret parameter of an earlier request, whose value only
// CredHub knows, so that the input has no value in this call. before is the secret's entry in the record of the
// deployed manifest, or zero if it has none.
func keepsSuppliedValue(r *resolution, secret brokerpak.Secret, before record.Secret, generated bool) bool {
	wasSet := before.Value != nil || before.Version > 0 || before.Reference != ""
	if generated && wasSet {
		return true
	}
	_, isSecretParameter := r.received.SecretParameters[secret.Input]
	return isSecretParameter && r.scope.Origins[secret.Input].FromRequest && r.scope.Values[secret.Input] == nil
}

// suppliedCandidate returns the candidate for a secret that has an expression. If the expression only refers to an
// input or another variable that is set, the candidate is the resolved value in its own type, or nil if the input has
// no value. Any other expression is evaluated; values that it generates are stored in the scope of r. In both cases the
// candidate is available. requested states that the parameters of this request contain the value, and is copied into
// the candidate.
//
// If the expression refers to a field of the UAA client, the candidate is the field that the broker sends or sent
// earlier. If the field is missing, suppliedCandidate returns the recordedCandidate of before, the secret's entry in
// the record of the deployed manifest, because the broker sends the secret of the client only once. suppliedCandidate
// returns an error only if it evaluates an expression and the evaluation fails.
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

// generatedCandidate returns the candidate for a secret whose value is a generated password. Normally this is the
// recordedCandidate of before, the secret's entry in the record of the deployed manifest. If the record does not
// contain the password, that candidate is not available, so decideSecret keeps the password in CredHub or generates the
// first one.
//
// The keepers of a secret are expressions, which are evaluated in the scope of r; a change of their values demands a
// new password. If both the secret and before have keepers, and the current digest of their values differs from the one
// in before, generatedCandidate returns a new random password, with the field changed set. Neither the first keepers of
// a secret nor the removal of its keepers demands a new password. The candidate contains the current digest, or "" if
// the secret has no keepers. generatedCandidate returns an error if a keeper cannot be evaluated.
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

// password returns a new random password with length letters (a-z, A-Z) and digits, which is "" for the length 0. A
// negative length causes a panic. The password is cryptographically random, with about 5.95 bits of entropy per
// character.
func password(length int) string {
	letters, count := make([]byte, length), big.NewInt(int64(len(passwordLetters)))
	for i := range letters {
		index, _ := rand.Int(rand.Reader, count) // this reader never fails
		letters[i] = passwordLetters[index.Int64()]
	}
	return string(letters)
}
