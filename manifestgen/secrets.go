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

// A secretDecision determines how the manifest gets the value of one secret, by a reference that the broker resolves or
// literally, whether the broker must store a new value, and the entry of the secret in the record. If the value is
// lost, it contains the error to report if the manifest uses the secret. The zero value puts the value null into the
// manifest and stores and records no value.
type secretDecision struct {
	// reference is the text in the manifest that BOSH replaces by the value, including its parentheses. It is "" if the
	// manifest contains the value itself.
	reference string
	// literal is the value in the manifest. It is used only if reference is "".
	literal any
	// newValue is the value that the broker must store under the name in reference. It is nil if there is nothing to
	// store.
	newValue any
	// lostErr is the error to report if the manifest uses the secret, because its value can no longer be determined. It
	// is nil for all other secrets.
	lostErr error
	// before is the entry of the secret in the record of the deployed manifest, and after the one in the new record.
	before, after record.Secret
}

// secretDecisions contains the decision about each secret, by the name of the secret in the definition or, for a
// sensitive output or an input of an errand, the name of the output or input. These are not the names in CredHub, which
// may also contain a version.
type secretDecisions map[string]secretDecision

// nameOf returns the name of the secret whose decision has this reference, which includes the parentheses. The name is
// a key of d, such as the name in the definition. If several secrets have the reference, nameOf returns any one of
// them; if there is none, it returns "". reference must not be "", because secrets with literal values have this
// reference.
func (d secretDecisions) nameOf(reference string) string {
	for name, secret := range d {
		if secret.reference == reference {
			return name
		}
	}
	return ""
}

// valuesToStore returns the new values that the broker must store in CredHub, by the names of the secrets there. used
// contains the references in the manifest, with their parentheses. A value whose reference is not among them is
// omitted, because the broker stores only secrets that the manifest refers to. A value is a text, or a map for an
// object. The map is never nil.
func (d secretDecisions) valuesToStore(used []string) map[string]any {
	values := map[string]any{}
	for name, secret := range d {
		if secret.newValue != nil && slices.Contains(used, secret.reference) {
			values[secret.after.StoredName(name)] = secret.newValue
		}
	}
	return values
}

// recordEntries returns the entries of the secrets in the new record, by name. used contains the references in the
// manifest, with their parentheses. The entry of a secret is the one in its decision, with these exceptions:
//
//   - If the manifest does not use a stored secret at the moment, the entry contains only the version and the
//     reference, because later calls could not find the reference in the manifest.
//   - If the manifest does not use a new value, the broker does not store it, so the entry contains only the former
//     version.
//   - A secret with a lostErr has no entry, nor has one whose entry would have neither a version nor a value.
//
// The map is never nil.
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

// decideSecrets decides how the manifest gets the values of the secrets, and returns the decisions by the names of
// the secrets; see decideSecret. It calls propose for the candidate of each secret, but not for a secret that stays
// as it is during the broker's check for pending changes. Unless the broker checks for pending changes, decideSecrets
// logs a warning for each secret that stays in CredHub although the broker stores no secrets any longer; see
// keepStored.
//
// decideSecrets returns nil and the first error: that of propose, an entry in another adapter's manifest that cannot
// be carried over, or a literal value that BOSH would take for a reference, which is a *fault.UserError if the value
// is a parameter of this request. Otherwise the result is never nil.
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

// decideSecret decides how the manifest gets the value of one secret. unchanged is the decision to keep the value of
// the deployed instance: it has the secret's entry in the record and, if the deployed manifest has one, its
// reference. propose returns the candidate; it is called unless the first case applies. There are five cases:
//
//   - While the broker checks for pending changes, a secret that has a reference or a recorded value keeps it.
//   - An available candidate becomes the value; see withValue.
//   - Without an available candidate, a secret that has a reference keeps the value that CredHub stores under it; see
//     keepStored, which may log a warning.
//   - With neither a candidate nor a reference, a secret without an expression gets a new random password.
//   - Otherwise the value must have been supplied earlier, and the decision has a lostErr.
//
// In the last four cases, a recorded value is kept only if propose returns it as the candidate, and the entry for the
// new record gets the digest of the keepers from the candidate.
//
// decideSecret returns an error if propose does, or if the manifest would contain a literal value that BOSH takes for
// a reference; the latter is a *fault.UserError if the value is a parameter of this request. The decision that is
// returned with an error must not be used.
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

// secret returns the entry of a secret of the definition in the record of the deployed manifest. If another adapter
// generated the manifest, the entry has the value that carry_over reads under the name of the secret or else of its
// input: as Reference, with version 1, if it consists of a single BOSH reference, otherwise as Value. The entry is zero
// if there is none, and on create. secret returns an error if the carried value contains a BOSH reference within a
// longer text, or in a list or map, which cannot be carried over. A manifest with a record causes no error.
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

// withValue returns the decision to give a secret the value of proposed, an available candidate. unchanged is the
// decision to keep the value of the deployed instance; see decideSecret. The manifest gets the value of proposed
// literally if the broker stores no secrets or the value is nil or "". If unchanged has a reference and CredHub
// already stores the value under it, or is assumed to (see isStored), withValue returns unchanged. Otherwise the
// broker must store the value under a new name. withValue returns an error if the manifest would contain a literal
// value that BOSH takes for a reference; it is a *fault.UserError if the value is a parameter of this request. The
// decision that is returned with an error must not be used.
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

// keepStored returns the decision to keep the value that CredHub stores under the reference of unchanged, which must
// not be "". If the broker stores secrets, the decision is unchanged. Otherwise the value moves into the manifest, as
// the text that the broker sent among the previous secrets. If the broker did not send it, the secret stays in CredHub,
// the decision is unchanged, and keepStored logs a warning with the name of the secret. It returns an error if the
// manifest would contain a literal value that BOSH takes for a reference. The decision that is returned with an error
// must not be used.
func keepStored(in *inputs, secret brokerpak.Secret, unchanged secretDecision) (secretDecision, error) {
	if in.storesSecrets() {
		return unchanged, nil
	}
	stored, sent := in.PreviousSecrets[unchanged.reference]
	if !sent {
		in.Logger.Warn("keeping a secret in CredHub, because this request does not contain its value",
			"secret", secret.Name)
		return unchanged, nil
	}
	return withValue(in, secret, unchanged, candidate{item: stored, available: true})
}

// withLiteral returns a copy of the decision that puts item, which may be nil, into the manifest itself, as for a
// broker that stores no secrets. The copy has no reference. Its entry for the new record contains only item as the
// value, and the version that the entry in the deployed manifest's record has, or 0 if there is no such entry. d is
// not changed.
func (d secretDecision) withLiteral(item any) secretDecision {
	d.reference, d.literal = "", item
	d.after = record.Secret{Version: d.before.Version, Value: item}
	return d
}

// withNewValue returns a copy of the decision that lets the broker store item, which must not be nil, as the new value
// of a secret: an object as it is, any other value as text. name is the name of the secret in the definition. The
// manifest refers to the value as ((odb_secret:NAME)), where NAME is built from name and the next version, so that it
// is new for every value. The entry for the new record contains only that version. The broker stores secrets before it
// deploys: if the deployment fails, the running instance must still find its old value under the old name. d is not
// changed.
func (d secretDecision) withNewValue(name string, item any) secretDecision {
	d.after = record.Secret{Version: d.before.Version + 1}
	d.newValue, d.reference = item, "((odb_secret:"+d.after.StoredName(name)+"))"
	if _, isObject := item.(map[string]any); !isObject {
		d.newValue = value.Text(item)
	}
	return d
}

// lostValue returns the error, never nil, for a secret whose supplied value was not recorded and is not stored. If the
// value of the secret is an input or another variable without a dot in its name, the error is a *fault.UserError that
// asks the user to supply the parameter of this name again. Otherwise, also for a field of the UAA client such as
// "uaa_client.client_secret", it is an error for the operator.
func lostValue(secret brokerpak.Secret) error {
	err := fmt.Errorf("secret %q: its value was supplied earlier and is neither in the previous manifest "+
		"nor among the previous secrets", secret.Name)
	if secret.Input == "" || strings.Contains(secret.Input, ".") {
		return err
	}
	return &fault.UserError{Message: fmt.Sprintf("parameter %q must be supplied again", secret.Input), Err: err}
}

// checkLiteral returns an error if a text or key in the value of proposed, at any level, contains "((", because BOSH
// would take it for a reference in the manifest. It is a *fault.UserError if the value is a parameter of this request,
// and another error otherwise. The secret is described in the error. For any other value, including nil, the result is
// nil.
func checkLiteral(secret brokerpak.Secret, proposed candidate) error {
	switch {
	case !vars.HasReference(proposed.item):
		return nil
	case proposed.requested:
		return fault.Userf("parameter %q must not contain \"((\", which would be a reference to a credential",
			secret.Input)
	default:
		return fmt.Errorf(`secret %q: its value contains "((", which BOSH would interpret as a reference`,
			secret.Name)
	}
}

// isStored reports whether CredHub already stores the value of proposed under the reference, which includes its
// parentheses. previous maps references to the stored texts that the broker sent; it may be nil. An object is compared
// with the stored text as JSON, any other value as text. If the broker did not send the stored value, as on upgrades,
// the value counts as stored unless the field requested or changed of proposed is set.
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
