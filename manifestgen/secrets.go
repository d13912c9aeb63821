package manifestgen

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
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
	for name, chosen := range d {
		if chosen.stored != nil && slices.Contains(used, chosen.reference) {
			returned[chosen.after.StoredName(name)] = chosen.stored
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
	// keepers is what its keepers give.
	keepers string
}

// finder looks up the value of a secret, of which the record says what was before.
type finder func(secret brokerpak.Secret, before record.Secret) (candidate, error)

// decideSecrets decides about each secret.
func decideSecrets(in *input, secrets []brokerpak.Secret, find finder) (decisions, error) {
	made := decisions{}
	if len(secrets) == 0 {
		return made, nil
	}
	stored := in.before.storedReferences(in.Deployment.DeploymentName, in.ServiceID)
	for _, secret := range secrets {
		var err error
		if made[secret.Name], err = decide(in, secret, stored, find); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// decide decides between the stored reference of a secret, a new reference and its value.
func decide(in *input, secret brokerpak.Secret, stored map[string]string, find finder) (decision, error) {
	before, err := in.before.secret(secret)
	if err != nil {
		return decision{}, err
	}
	keep := decision{reference: cmp.Or(before.Reference, stored[before.StoredName(secret.Name)]), before: before, after: before}
	switch {
	case in.pendingCheck() && keep.reference != "":
		return keep, nil
	case in.pendingCheck() && before.Value != nil:
		return keep.withLiteral(before.Value), nil
	}
	current, err := find(secret, before)
	if err != nil {
		return decision{}, err
	}
	chosen, err := choose(in, secret, keep, current)
	chosen.after.Keepers = current.keepers
	return chosen, err
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

// choose decides by the value of a secret; keep is the decision that changes nothing.
func choose(in *input, secret brokerpak.Secret, keep decision, current candidate) (decision, error) {
	if !current.known && keep.reference != "" {
		taken, ok := in.PreviousSecrets[keep.reference]
		if !in.storesSecrets() && !ok {
			in.Logger.Warn("secret stays in CredHub: its value is not known to this call", "secret", secret.Name)
		}
		if in.storesSecrets() || !ok {
			return keep, nil
		}
		current = candidate{item: taken, known: true} // the feature was switched off
	}
	if !current.known && secret.Value != nil {
		return decision{reference: "((lost:" + secret.Name + "))", before: keep.before, lost: lostValue(secret)}, nil
	}
	if !current.known {
		current.item = password(secret.Length)
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

// withNewValue asks the broker to store a value, as a text or an object. A changed one gets a new name, because the broker stores secrets before it
// deploys: a failed deployment must not find a new value under the name that the running one uses.
func (d decision) withNewValue(name string, item any) decision {
	d.after = record.Secret{Version: d.before.Version + 1}
	d.stored, d.reference = item, "((odb_secret:"+d.after.StoredName(name)+"))"
	if _, isObject := item.(map[string]any); !isObject {
		d.stored = value.Text(item)
	}
	return d
}

// supplied finds the value of a secret of the definition: supplied, remembered as a literal, or unknown.
func supplied(in *input, r *prepared, secret brokerpak.Secret, before record.Secret) (candidate, error) {
	kept := candidate{item: before.Value, known: before.Value != nil}
	if secret.Value == nil {
		return keptBy(r, secret, before, kept)
	}
	_, requested := in.Parameters[secret.Input]
	if r.generated[secret.Input] && !requested && (kept.known || before.Version > 0 || before.Reference != "") {
		return kept, nil
	}
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
func keptBy(r *prepared, secret brokerpak.Secret, before record.Secret, kept candidate) (candidate, error) {
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
	kept.keepers = fmt.Sprintf("%x", sha256.Sum256(value.MustJSON(values)))
	if before.Keepers != "" && before.Keepers != kept.keepers {
		return candidate{item: password(secret.Length), known: true, changed: true, keepers: kept.keepers}, nil
	}
	return kept, nil
}

// passwordLetters need no quoting in shells, URLs and configuration files.
const passwordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// password makes one of letters and digits, about 5.95 bits a letter.
func password(length int) string {
	made, most := make([]byte, length), big.NewInt(int64(len(passwordLetters)))
	for i := range made {
		index, _ := rand.Int(rand.Reader, most) // this reader never fails
		made[i] = passwordLetters[index.Int64()]
	}
	return string(made)
}

// lostValue explains why nobody knows the value of a secret.
func lostValue(secret brokerpak.Secret) error {
	lost := fmt.Errorf("secret %q: its value was supplied earlier and is neither in the previous manifest nor among the "+
		"previous secrets", secret.Name)
	if secret.Input == "" || strings.Contains(secret.Input, ".") {
		return lost
	}
	return &fault.UserError{Message: fmt.Sprintf("parameter %q must be supplied again", secret.Input), Err: lost}
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
