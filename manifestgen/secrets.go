package manifestgen

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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

// decisions are those of all secrets, by name.
type decisions map[string]decision

// storedPrefix opens the reference that the broker replaces by that of the stored secret.
const storedPrefix, storedSuffix = "((odb_secret:", "))"

// named is the name of the secret that a reference stands for; "" for none.
func (d decisions) named(reference string) string {
	for name, chosen := range d {
		if chosen.reference == reference {
			return name
		}
	}
	return ""
}

// returned are the values that the manifest asks the broker to store. It stores no others.
func (d decisions) returned(used []string) map[string]any {
	returned := map[string]any{}
	for _, chosen := range d {
		if chosen.stored != nil && slices.Contains(used, chosen.reference) {
			name := strings.TrimSuffix(strings.TrimPrefix(chosen.reference, storedPrefix), storedSuffix)
			returned[name] = chosen.stored
		}
	}
	return returned
}

// remembered is what the record says of the secrets. One that the manifest does not use for the moment keeps its reference, because no
// later call would find it.
func (d decisions) remembered(used []string) map[string]record.Secret {
	remembered := map[string]record.Secret{}
	for name, chosen := range d {
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

// candidate is the value of a secret as far as this call knows it.
type candidate struct {
	item any
	// known is false where the value is unchanged and only CredHub has it.
	known bool
	// requested tells that this very request carries the value.
	requested bool
	// changed tells that it must count as a new one where the previous value is not known.
	changed bool
	// rotated tells that a new value is to be generated, keepers what its keepers give.
	rotated bool
	keepers string
}

// decideSecrets decides for each secret between its stored reference, a new reference and its value, which find looks up.
func decideSecrets(
	in *input, secrets []brokerpak.Secret, find func(secret brokerpak.Secret, before record.Secret) (candidate, error),
) (decisions, error) {
	made := decisions{}
	if len(secrets) == 0 {
		return made, nil
	}
	stored := in.before.storedReferences(in.Deployment.DeploymentName, in.ServiceID)
	for _, secret := range secrets {
		before, err := in.before.secret(secret)
		if err != nil {
			return nil, err
		}
		reference := cmp.Or(before.Reference, stored[before.StoredName(secret.Name)])
		keep := decision{reference: reference, before: before, after: before}
		switch {
		case in.pendingCheck() && reference != "":
			made[secret.Name] = keep
			continue
		case in.pendingCheck() && before.Value != nil:
			made[secret.Name] = keep.withLiteral(before.Value)
			continue
		}
		current, err := find(secret, before)
		if err != nil {
			return nil, err
		}
		chosen, err := decide(in, secret, keep, current)
		if err != nil {
			return nil, err
		}
		chosen.after.Keepers = current.keepers
		made[secret.Name] = chosen
	}
	return made, nil
}

// secret is what the record says of a secret, or the manifest of another adapter where carry_over finds it there: a reference, or
// the value.
func (p *previous) secret(secret brokerpak.Secret) (record.Secret, error) {
	if p.carried == nil {
		return p.record.Secrets[secret.Name], nil
	}
	item, ok := p.carried[secret.Name]
	if !ok {
		item, ok = p.carried[secret.Input]
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

// decide makes the decision about one secret; keep is the one that changes nothing.
func decide(in *input, secret brokerpak.Secret, keep decision, current candidate) (decision, error) {
	if !current.known && keep.reference != "" && !current.rotated {
		taken, ok := in.PreviousSecrets[keep.reference]
		if !in.storesSecrets() && !ok {
			in.Logger.Warn("secret stays in CredHub: its value is not known to this call", "secret", secret.Name)
		}
		if in.storesSecrets() || !ok {
			return keep, nil
		}
		current = candidate{item: taken, known: true} // the feature was switched off
	}
	if !current.known {
		var err error
		if current.item, err = newSecret(secret); err != nil {
			if secret.Value == nil {
				return keep, err
			}
			return decision{reference: "((lost:" + secret.Name + "))", before: keep.before, lost: err}, nil
		}
	}
	switch {
	case !in.storesSecrets() || current.item == nil || current.item == "": // CredHub stores no empty value
		return keep.withLiteral(current.item), checkLiteral(secret, current)
	case keep.reference != "" && unchanged(current, in.PreviousSecrets, keep.reference):
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

// supplied finds the value of a secret of the definition: supplied, remembered as a literal, or unknown.
func supplied(in *input, r *resolution, secret brokerpak.Secret, before record.Secret) (candidate, error) {
	kept := candidate{item: before.Value, known: before.Value != nil}
	if secret.Value == nil {
		return keptBy(r, secret, before, kept)
	}
	_, requested := in.Parameters[secret.Input]
	_, remembered := r.record.SecretParameters[secret.Input]
	if !requested && remembered && r.scope.Origins[secret.Input].FromRequest && r.scope.Values[secret.Input] == nil {
		return kept, nil
	}
	if field, ok := strings.CutPrefix(secret.Input, brokerpak.UAAClient); ok {
		if item := r.record.UAAClient[field]; item != nil {
			return candidate{item: item, known: true, requested: requested}, nil
		}
		return kept, nil // the broker sends it only once
	}
	item, ok := r.scope.Values[secret.Input] // an input as a whole keeps its type
	if !ok && !slices.Contains(in.Service.Provision.InputNames(), secret.Input) {
		var err error
		if item, err = r.scope.Eval("secrets."+secret.Name, secret.Value); err != nil {
			return kept, fmt.Errorf("evaluating secret %q: %w", secret.Name, err)
		}
	}
	return candidate{item: item, known: true, requested: requested}, nil
}

// keptBy tells whether a generated secret stays: it is made anew when what a keeper gives is not what it gave when the secret was made.
func keptBy(r *resolution, secret brokerpak.Secret, before record.Secret, kept candidate) (candidate, error) {
	if len(secret.Keepers) == 0 {
		return kept, nil
	}
	values := map[string]any{}
	for _, name := range value.Keys(secret.Keepers) {
		item, err := r.scope.Eval("secrets."+secret.Name+"."+name, secret.Keepers[name])
		if err != nil {
			return kept, fmt.Errorf("evaluating keeper %q of secret %q: %w", name, secret.Name, err)
		}
		values[name] = item
	}
	sum := sha256.Sum256(value.MustJSON(values))
	kept.keepers = hex.EncodeToString(sum[:])
	if before.Keepers != "" && before.Keepers != kept.keepers {
		return candidate{rotated: true, keepers: kept.keepers}, nil
	}
	return kept, nil
}

// credential turns a value into what the broker can store: a text or an object.
func credential(item any) any {
	if object, ok := item.(map[string]any); ok {
		return object
	}
	return value.Text(item)
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
func checkLiteral(secret brokerpak.Secret, current candidate) error {
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
func unchanged(current candidate, previous map[string]string, reference string) bool {
	before, ok := previous[reference]
	if !ok {
		return !current.requested && !current.changed
	}
	if object, isObject := current.item.(map[string]any); isObject {
		decoded, err := value.DecodeJSON([]byte(before))
		return err == nil && string(value.MustJSON(decoded)) == string(value.MustJSON(object))
	}
	return before == value.Text(current.item)
}
