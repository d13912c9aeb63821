package manifestgen

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// decision is what becomes of a secret in this call.
type decision struct {
	// reference is what the manifest holds, with its parentheses; "" where it holds the value itself.
	reference string
	// literal is the value that the manifest holds.
	literal any
	// stored is the value that the broker is to store, under the name that the reference tells; nil for none.
	stored any
	// lost is the error of a secret whose value nobody knows any more; it counts only where the manifest uses the secret.
	lost error
	// before and after are what the record knows and will know of the secret.
	before, after record.Secret
}

// storedPrefix opens the reference that the broker replaces by that of the stored secret.
const storedPrefix, storedSuffix = "((odb_secret:", "))"

// returnedSecrets are the values that the manifest asks the broker to store. It stores no others.
func (w *generation) returnedSecrets(used []string) map[string]any {
	returned := map[string]any{}
	for _, chosen := range w.secrets {
		if chosen.stored != nil && slices.Contains(used, chosen.reference) {
			name := strings.TrimSuffix(strings.TrimPrefix(chosen.reference, storedPrefix), storedSuffix)
			returned[name] = chosen.stored
		}
	}
	return returned
}

// rememberedSecrets is what the record says of the secrets. One that the manifest does not use for the moment keeps its
// reference, because no later call would find it.
func (w *generation) rememberedSecrets(used []string) map[string]record.Secret {
	remembered := map[string]record.Secret{}
	for name, chosen := range w.secrets {
		after := chosen.after
		if chosen.lost != nil {
			continue
		}
		if chosen.reference != "" && !slices.Contains(used, chosen.reference) {
			after = record.Secret{Version: chosen.before.Version}
			if chosen.stored == nil {
				after.Reference = chosen.reference
			}
		}
		if after.Version > 0 || after.Value != nil {
			remembered[name] = after
		}
	}
	return remembered
}

// resolveSecrets decides for each secret between its stored reference, a new reference and its value.
func (w *generation) resolveSecrets(secrets []brokerpak.Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	stored := w.old.storedReferences(w.Deployment.DeploymentName, w.ServiceID)
	for _, secret := range secrets {
		before, err := w.rememberedSecret(secret)
		if err != nil {
			return err
		}
		reference := firstText(before.Reference, stored[before.StoredName(secret.Name)])
		if w.secrets[secret.Name], err = w.decide(secret, before, reference); err != nil {
			return err
		}
	}
	return nil
}

// rememberedSecret is what the record says of a secret, or the manifest of another adapter where carry_over finds it there: a
// reference, or the value.
func (w *generation) rememberedSecret(secret brokerpak.Secret) (record.Secret, error) {
	if w.previous != nil {
		return w.previous.Secrets[secret.Name], nil
	}
	item, ok := w.carried[secret.Name]
	if !ok {
		item, ok = w.carried[secret.Input]
	}
	text, _ := item.(string)
	switch {
	case !ok:
		return record.Secret{}, nil
	case instance.IsReference(text):
		return record.Secret{Version: 1, Reference: text}, nil
	case vars.HasReference(item):
		return record.Secret{}, fmt.Errorf("carry_over of secret %q: the previous manifest has a reference within a text there", secret.Name)
	default:
		return record.Secret{Value: item}, nil
	}
}

// candidate is the value of a secret as far as this call knows it.
type candidate struct {
	item any
	// known is false where the value is unchanged and only CredHub has it.
	known bool
	// requested tells that this very request carries the value.
	requested bool
	// changed tells that it must count as a new one where the previous value is not known.
	changed bool
}

// decide makes the decision about one secret.
func (w *generation) decide(secret brokerpak.Secret, before record.Secret, reference string) (decision, error) {
	keep := decision{reference: reference, before: before, after: before}
	if w.pendingCheck() {
		switch {
		case reference != "":
			return keep, nil
		case before.Value != nil:
			return keep.withLiteral(before.Value), nil
		}
	}
	current, err := w.candidate(secret, before)
	if err != nil {
		return keep, err
	}
	if !current.known && reference != "" {
		taken, ok := w.PreviousSecrets[reference]
		if !*w.Secure && !ok {
			w.Logger.Warn("secret stays in CredHub: its value is not known to this call", "secret", secret.Name)
		}
		if *w.Secure || !ok {
			return keep, nil
		}
		current = candidate{item: taken, known: true} // the feature was switched off
	}
	if !current.known {
		if current.item, err = newSecret(secret); err != nil {
			if secret.Value == nil {
				return keep, err
			}
			return decision{reference: "((lost:" + secret.Name + "))", before: before, lost: err}, nil
		}
	}
	switch {
	case !*w.Secure || current.item == nil || current.item == "": // CredHub stores no empty value
		return keep.withLiteral(current.item), w.checkLiteral(secret, current)
	case reference != "" && w.unchanged(current, reference):
		return keep, nil
	default:
		return keep.withNewValue(secret.Name, current.item), nil
	}
}

// withLiteral puts the value itself into the manifest, as adapters do whose broker manages no secrets.
func (d decision) withLiteral(item any) decision {
	d.reference, d.literal = "", item
	d.after = record.Secret{Version: d.before.Version, Value: item}
	return d
}

// withNewValue asks the broker to store a value. A changed one gets a new name, because the broker stores secrets before it
// deploys: a failed deployment must not find a new value under the name that the running one uses.
func (d decision) withNewValue(name string, item any) decision {
	d.after = record.Secret{Version: d.before.Version + 1}
	d.stored, d.reference = credential(item), storedPrefix+d.after.StoredName(name)+storedSuffix
	return d
}

// pendingCheck tells that the broker compares the result with the deployed manifest and deploys nothing. Secrets then stay as they
// are: a new value is applied by the update that follows, and would block that update if the check saw it.
func (w *generation) pendingCheck() bool {
	return w.Body != nil && len(w.Body) == 0 && len(w.PreviousManifest) > 0
}

// candidate finds the value: supplied, remembered as a literal, or unknown.
func (w *generation) candidate(secret brokerpak.Secret, before record.Secret) (candidate, error) {
	if output, ok := w.outputCandidate(secret); ok {
		return output, nil
	}
	kept := candidate{item: before.Value, known: before.Value != nil}
	if secret.Value == nil {
		return kept, nil
	}
	_, requested := w.Parameters[secret.Input]
	_, remembered := w.record.SecretParameters[secret.Input]
	if !requested && remembered && w.scope.Origins[secret.Input].FromRequest && w.scope.Values[secret.Input] == nil {
		return kept, nil
	}
	item, err := w.suppliedValue(secret)
	if err != nil {
		return kept, fmt.Errorf("evaluating secret %q: %w", secret.Name, err)
	}
	if item == nil && strings.HasPrefix(secret.Input, uaaPrefix) {
		return kept, nil // the broker sends it only once
	}
	return candidate{item: item, known: true, requested: requested}, nil
}

const uaaPrefix = "uaa_client."

// suppliedValue evaluates a secret's value; an input as a whole keeps its type.
func (w *generation) suppliedValue(secret brokerpak.Secret) (any, error) {
	if field, ok := strings.CutPrefix(secret.Input, uaaPrefix); ok {
		return w.record.UAAClient[field], nil
	}
	if item, ok := w.scope.Values[secret.Input]; ok || slices.Contains(w.Service.Provision.InputNames(), secret.Input) {
		return item, nil
	}
	return w.scope.Eval("secrets."+secret.Name, secret.Value)
}

// credential turns a value into what the broker can store: a text or an object.
func credential(item any) any {
	switch item.(type) {
	case string, map[string]any:
		return item
	default:
		return value.Text(item)
	}
}

// newSecret generates a secret, or explains why there is none.
func newSecret(secret brokerpak.Secret) (any, error) {
	if secret.Value == nil {
		return generatePassword(secret.Length)
	}
	lost := fmt.Errorf("secret %q: its value was supplied earlier and is neither in the previous manifest nor among the "+
		"previous secrets", secret.Name)
	if secret.Input == "" || strings.Contains(secret.Input, ".") {
		return nil, lost
	}
	return nil, &fault.UserError{Message: fmt.Sprintf("parameter %q must be supplied again", secret.Input), Err: lost}
}

// checkLiteral refuses a value that BOSH would take for a reference.
func (w *generation) checkLiteral(secret brokerpak.Secret, current candidate) error {
	switch {
	case !vars.HasReference(current.item):
		return nil
	case current.requested:
		return fault.Userf("parameter %q must not hold \"((\", which would be a reference to a credential", secret.Input)
	default:
		return fmt.Errorf("secret %q: its value holds \"((\", which BOSH would take for a reference", secret.Name)
	}
}

// unchanged tells whether the stored value is the current one. Without its previous value (the broker sends none on upgrades) only
// a value in this very request counts as changed.
func (w *generation) unchanged(current candidate, reference string) bool {
	before, ok := w.PreviousSecrets[reference]
	if !ok {
		return !current.requested && !current.changed
	}
	if object, isObject := current.item.(map[string]any); isObject {
		decoded, err := value.DecodeJSON([]byte(before))
		return err == nil && string(value.MustJSON(decoded)) == string(value.MustJSON(object))
	}
	return before == value.Text(current.item)
}
