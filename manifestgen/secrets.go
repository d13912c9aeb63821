package manifestgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A secretDecision determines how the manifest gets the value of a secret: by a reference that the broker resolves, or
// literally.
type secretDecision struct {
	// reference is the text in the manifest that BOSH replaces by the value, including its parentheses. It is "" if the
	// manifest contains the value itself.
	reference string
	// literal is the value in the manifest. It is used only if reference is "".
	literal any
	// newValue is the value that the broker must store under the name in reference. It is nil if there is nothing to
	// store.
	newValue any
	// lostErr is the error to report if the manifest uses the secret, because its value cannot be determined any more.
	lostErr error
	// before is the entry of the secret in the record of the deployed manifest, and after the one in the new record.
	before, after record.Secret
}

// secretDecisions contains the decision about each secret, by the name of the secret in the definition, which is not
// its name in CredHub.
type secretDecisions map[string]secretDecision

// nameOf returns the name of the secret with this reference, which must not be "", or "" if there is none.
func (d secretDecisions) nameOf(reference string) string {
	for name, secret := range d {
		if secret.reference == reference {
			return name
		}
	}
	return ""
}

// valuesToStore returns the values that the broker must store in CredHub, by their names there. It omits those whose
// reference is not among the used ones, because the broker stores only secrets that the manifest refers to. The map is
// never nil.
func (d secretDecisions) valuesToStore(used []string) map[string]any {
	values := map[string]any{}
	for name, secret := range d {
		if secret.newValue != nil && slices.Contains(used, secret.reference) {
			values[secret.after.StoredName(name)] = secret.newValue
		}
	}
	return values
}

// recordEntries returns the entries of the secrets in the new record. The used references are those of the manifest. A
// stored secret that the manifest does not use at the moment keeps its reference in the record, because later calls
// could not find it in the manifest. A new value that the manifest does not use is not stored, so only its former
// version is recorded. A secret without a value, and one with a lostErr, has no entry. The map is never nil.
func (d secretDecisions) recordEntries(used []string) map[string]record.Secret {
	entries := map[string]record.Secret{}
	for name, secret := range d {
		entry := secret.after
		if secret.lostErr != nil {
			continue
		}
		if secret.reference != "" && !slices.Contains(used, secret.reference) {
			entry = record.Secret{Version: secret.before.Version}
			if secret.newValue == nil {
				entry.Reference = secret.reference
			}
		}
		if entry.Version > 0 || entry.Value != nil {
			entries[name] = entry
		}
	}
	return entries
}

// decideSecrets decides how the manifest gets the values of the given secrets. propose returns the candidate for each
// of them; it is not called for a secret that a check for pending changes leaves unchanged. decideSecrets returns the
// first error of propose, of the deployed manifest or of a value that a manifest cannot contain. The result is never
// nil unless there is an error. See keepStored for a warning that is logged.
func decideSecrets(in *inputs, secrets []brokerpak.Secret, propose candidateFunc) (secretDecisions, error) {
	decided := secretDecisions{}
	if len(secrets) == 0 {
		return decided, nil
	}
	stored := in.previous.storedReferences(in.Deployment.DeploymentName, in.ServiceID)
	for _, secret := range secrets {
		before, err := in.previous.secret(secret)
		if err != nil {
			return nil, err
		}
		reference := cmp.Or(before.Reference, stored[before.StoredName(secret.Name)])
		unchanged := secretDecision{reference: reference, before: before, after: before}
		if decided[secret.Name], err = decideSecret(in, secret, unchanged, propose); err != nil {
			return nil, err
		}
	}
	return decided, nil
}

// decideSecret decides about one secret. The unchanged decision keeps the reference of the deployed manifest, if it has
// one. There are five cases:
//
//   - While the broker checks for pending changes, a secret that has a reference or a recorded value keeps it.
//   - An available candidate becomes the value; see withValue.
//   - Without an available candidate, the secret keeps the stored value; see keepStored.
//   - If no value is stored either, a secret without an expression gets a new password.
//   - A secret with an expression, whose value must have been supplied earlier, gets a decision with a lostErr.
//
// It returns an error if propose does, or if the manifest would contain a literal value that BOSH takes for a
// reference.
func decideSecret(
	in *inputs, secret brokerpak.Secret, unchanged secretDecision, propose candidateFunc,
) (secretDecision, error) {
	before, hasReference := unchanged.before, unchanged.reference != ""
	if in.pendingCheck() && hasReference {
		return unchanged, nil
	}
	if in.pendingCheck() && before.Value != nil {
		return unchanged.withLiteral(before.Value), nil
	}
	proposed, err := propose(secret, before)
	if err != nil {
		return secretDecision{}, err
	}
	var decided secretDecision
	switch {
	case proposed.available:
		decided, err = withValue(in, secret, unchanged, proposed)
	case hasReference:
		decided, err = keepStored(in, secret, unchanged)
	case secret.Value == nil:
		decided, err = withValue(in, secret, unchanged, candidate{item: password(secret.Length), available: true})
	default:
		decided = secretDecision{
			reference: "((lost:" + secret.Name + "))", before: before, lostErr: lostValue(secret),
		}
	}
	decided.after.Keepers = proposed.keepers
	return decided, err
}

// secret returns the record's entry of a secret. For an instance that another adapter deployed, it returns the
// reference or the value that carry_over reads from that adapter's manifest. The entry is zero if there is none. It
// returns an error if the value there contains a reference within a longer text, which cannot be carried over.
func (d *deployedInstance) secret(secret brokerpak.Secret) (record.Secret, error) {
	if d.carried == nil {
		return d.record.Secrets[secret.Name], nil
	}
	item, ok := d.carried[secret.Name]
	if !ok {
		item, ok = d.carried[secret.Input]
	}
	text, _ := item.(string)
	switch {
	case !ok:
		return record.Secret{}, nil
	case instance.IsReference(text):
		return record.Secret{Version: 1, Reference: text}, nil
	case vars.HasReference(item):
		return record.Secret{}, fmt.Errorf(
			"carry_over of secret %q: the previous manifest has a reference within a text there", secret.Name)
	default:
		return record.Secret{Value: item}, nil
	}
}

// withValue returns the decision to give a secret the proposed value: literally if the broker stores no secrets or the
// value is empty, otherwise as a new value for the broker to store, unless CredHub stores the same value already: that
// is the unchanged decision. It returns an error if the manifest would contain a literal value that BOSH takes for a
// reference.
func withValue(
	in *inputs, secret brokerpak.Secret, unchanged secretDecision, proposed candidate,
) (secretDecision, error) {
	isEmpty := proposed.item == nil || proposed.item == "" // CredHub stores no empty values
	switch {
	case !in.storesSecrets() || isEmpty:
		return unchanged.withLiteral(proposed.item), checkLiteral(secret, proposed)
	case unchanged.reference != "" && isStored(proposed, in.PreviousSecrets, unchanged.reference):
		return unchanged, nil
	default:
		return unchanged.withNewValue(secret.Name, proposed.item), nil
	}
}

// keepStored returns the decision to keep the value that CredHub stores under the reference of the unchanged decision.
// If the broker no longer stores secrets, the value moves from the previous secrets into the manifest; if the broker
// did not send it, the secret stays in CredHub, and keepStored logs a warning. It returns an error if the manifest
// would contain a literal value that BOSH takes for a reference.
func keepStored(in *inputs, secret brokerpak.Secret, unchanged secretDecision) (secretDecision, error) {
	if in.storesSecrets() {
		return unchanged, nil
	}
	stored, sent := in.PreviousSecrets[unchanged.reference]
	if !sent {
		in.Logger.Warn("secret stays in CredHub: its value is not known to this call", "secret", secret.Name)
		return unchanged, nil
	}
	return withValue(in, secret, unchanged, candidate{item: stored, available: true})
}

// withLiteral returns the decision that puts the value itself into the manifest, as for a broker that stores no
// secrets. The record then contains the value as well. Nothing is stored. d is not changed.
func (d secretDecision) withLiteral(item any) secretDecision {
	d.reference, d.literal = "", item
	d.after = record.Secret{Version: d.before.Version, Value: item}
	return d
}

// withNewValue returns the decision to let the broker store item as the new value of a secret. d is not changed. An
// object is stored as it is, any other value as text. The name is that of the secret in the definition. The manifest
// refers to the value as ((odb_secret:NAME)) with the name in CredHub, which is built from it and the next version, so
// that it is new for every value: the broker stores secrets before it deploys, and if the deployment fails, the running
// one must still find its old value under the old name.
func (d secretDecision) withNewValue(name string, item any) secretDecision {
	d.after = record.Secret{Version: d.before.Version + 1}
	d.newValue, d.reference = item, "((odb_secret:"+d.after.StoredName(name)+"))"
	if _, isObject := item.(map[string]any); !isObject {
		d.newValue = value.Text(item)
	}
	return d
}

// lostValue returns the error, never nil, for a secret whose supplied value was not recorded and is not stored. It is a
// *fault.UserError that asks for the parameter again if the secret's value is an input, whose name has no dot, and an
// error for the operator otherwise.
func lostValue(secret brokerpak.Secret) error {
	err := fmt.Errorf("secret %q: its value was supplied earlier and is neither in the previous manifest "+
		"nor among the previous secrets", secret.Name)
	if secret.Input == "" || strings.Contains(secret.Input, ".") {
		return err
	}
	return &fault.UserError{Message: fmt.Sprintf("parameter %q must be supplied again", secret.Input), Err: err}
}

// checkLiteral returns an error if BOSH would take the proposed value, or a part of it, for a reference. It is a
// *fault.UserError if the value is a parameter of this request.
func checkLiteral(secret brokerpak.Secret, proposed candidate) error {
	switch {
	case !vars.HasReference(proposed.item):
		return nil
	case proposed.requested:
		return fault.Userf("parameter %q must not contain \"((\", which would be a reference to a credential",
			secret.Input)
	default:
		return fmt.Errorf("secret %q: its value holds \"((\", which BOSH would take for a reference", secret.Name)
	}
}

// isStored reports whether CredHub already stores the proposed value under the reference. The previous map holds the
// stored values that the broker sent. It sends none on upgrades; the value then counts as stored unless this request
// contains it or it is marked as changed.
func isStored(proposed candidate, previous map[string]string, reference string) bool {
	stored, ok := previous[reference]
	if !ok {
		return !proposed.requested && !proposed.changed
	}
	if object, isObject := proposed.item.(map[string]any); isObject {
		decoded, err := value.DecodeJSON([]byte(stored))
		return err == nil && string(value.MustJSON(decoded)) == string(value.MustJSON(object))
	}
	return stored == value.Text(proposed.item)
}
