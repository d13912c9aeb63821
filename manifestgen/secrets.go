package manifestgen

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// secretSet is what becomes of the service's secrets in this call.
type secretSet struct {
	// variables are what ((NAME)) stands for in the manifest template: a reference, or the value itself.
	variables map[string]any
	// values are those that the broker is to store, by stored name.
	values map[string]any
	// references are all references that the manifest may hold for secrets, with their parentheses.
	references []string
	// remembered goes into the record.
	remembered map[string]record.Secret
}

// placeholder is the reference that the broker replaces by that of the stored secret.
func placeholder(storedName string) string { return "((odb_secret:" + storedName + "))" }

// returned are the secrets that the texts refer to by placeholder. The broker stores no others.
func (s *secretSet) returned(manifest string, configs map[string]string) map[string]any {
	returned := map[string]any{}
	for name, item := range s.values {
		used := strings.Contains(manifest, placeholder(name))
		for _, config := range configs {
			used = used || strings.Contains(config, placeholder(name))
		}
		if used {
			returned[name] = item
		}
	}
	return returned
}

// candidate is the value of a secret as far as this call knows it.
type candidate struct {
	item any
	// known is false where the value is unchanged and only CredHub has it.
	known bool
	// requested tells that this very request carries the value.
	requested bool
}

// resolveSecrets decides for each secret between its stored reference, a new reference and its value.
func (w *generation) resolveSecrets() error {
	w.secrets = &secretSet{
		variables: map[string]any{}, values: map[string]any{}, remembered: map[string]record.Secret{},
	}
	if len(w.bosh.Secrets) == 0 {
		return nil
	}
	stored := w.old.storedReferences(w.Deployment.DeploymentName)
	for _, secret := range w.bosh.Secrets {
		before := record.Secret{Version: 1}
		if w.previous != nil {
			if known, ok := w.previous.Secrets[secret.Name]; ok {
				before = known
			}
		}
		current, err := w.secretCandidate(secret, before)
		if err != nil {
			return err
		}
		reference := firstText(before.Reference, stored[before.StoredName(secret.Name)])
		if *w.Secure {
			err = w.secureSecret(secret, before, current, reference)
		} else {
			err = w.literalSecret(secret, before, current, reference)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// secretCandidate finds the value: supplied, remembered as a literal, or newly generated.
func (w *generation) secretCandidate(secret brokerpak.Secret, before record.Secret) (candidate, error) {
	if carried, ok := w.carried[secret.Name]; ok {
		return candidate{item: carried, known: true}, nil
	}
	if secret.Value == nil {
		if before.Value != nil {
			return candidate{item: before.Value, known: true}, nil
		}
		return candidate{}, nil
	}
	_, requested := w.Parameters[secret.Input]
	if !requested && w.record.SecretParameters[secret.Input] == secret.Name {
		return candidate{item: before.Value, known: before.Value != nil}, nil
	}
	item, err := w.suppliedValue(secret)
	if err != nil {
		return candidate{}, fmt.Errorf("evaluating secret %q: %w", secret.Name, err)
	}
	if item == nil && strings.HasPrefix(secret.Input, "uaa_client.") {
		return candidate{}, nil
	}
	return candidate{item: item, known: true, requested: requested}, nil
}

// suppliedValue evaluates a secret's value; an input as a whole keeps its type.
func (w *generation) suppliedValue(secret brokerpak.Secret) (any, error) {
	if secret.Input == "" {
		text, err := w.scope.Text("secrets."+secret.Name, secret.Value)
		return text, err
	}
	if field, ok := strings.CutPrefix(secret.Input, "uaa_client."); ok {
		return w.record.UAAClient[field], nil
	}
	return credential(w.scope.Values[secret.Input]), nil
}

// credential turns a value into what the broker can store: a text or an object.
func credential(item any) any {
	switch item.(type) {
	case nil, string, map[string]any:
		return item
	default:
		return value.Text(item)
	}
}

// secureSecret keeps the stored reference while the value is the same, else asks the broker to store the value. A changed
// value gets a new name, because the broker stores secrets before it deploys: a failed deployment must not find a new value
// under the name that the running one uses.
func (w *generation) secureSecret(secret brokerpak.Secret, before record.Secret, current candidate, reference string) error {
	keep := record.Secret{Version: before.Version, Reference: before.Reference}
	if text, ok := current.item.(string); ok && wholeReference.MatchString(text) && w.carried != nil {
		// Another adapter kept it in CredHub already.
		w.use(secret.Name, record.Secret{Version: 1, Reference: text}, text)
		return nil
	}
	if reference != "" && (!current.known || w.unchanged(current, reference)) {
		w.use(secret.Name, keep, reference)
		return nil
	}
	if !current.known {
		if secret.Value != nil {
			return w.lost(secret)
		}
		password, err := generatePassword(secret.Length)
		if err != nil {
			return err
		}
		current.item = password
	}
	if current.item == nil {
		w.secrets.variables[secret.Name] = nil // an optional value that nobody supplied
		return nil
	}
	next := record.Secret{Version: before.Version}
	if reference != "" {
		next.Version++
	}
	w.secrets.values[next.StoredName(secret.Name)] = current.item
	w.use(secret.Name, next, placeholder(next.StoredName(secret.Name)))
	return nil
}

func (w *generation) lost(secret brokerpak.Secret) error {
	return fmt.Errorf("secret %q: its value was supplied earlier and is neither in the previous manifest nor among the "+
		"previous secrets; supply it again", secret.Name)
}

// unchanged tells whether the stored value is the current one. Without previous secrets (the broker sends none on upgrades)
// only a value in this very request counts as changed. In the broker's check for pending changes nothing does: a plan's new
// value is applied by the update that follows, and would block that update if the check saw it.
func (w *generation) unchanged(current candidate, reference string) bool {
	if len(w.Body) == 0 {
		return true
	}
	before, ok := w.PreviousSecrets[reference]
	if !ok {
		return !current.requested
	}
	if object, isObject := current.item.(map[string]any); isObject {
		decoded, err := value.DecodeJSON([]byte(before))
		return err == nil && string(value.MustJSON(decoded)) == string(value.MustJSON(object))
	}
	return before == value.Text(current.item)
}

func (w *generation) use(name string, remembered record.Secret, reference string) {
	w.secrets.variables[name] = reference
	w.secrets.references = append(w.secrets.references, reference)
	w.secrets.remembered[name] = remembered
}

// literalSecret puts the value itself into the manifest, as adapters do whose broker manages no secrets.
func (w *generation) literalSecret(secret brokerpak.Secret, before record.Secret, current candidate, reference string) error {
	if !current.known && reference != "" {
		// The feature was switched off: take the value back while the broker still tells it.
		if text, ok := w.PreviousSecrets[reference]; ok {
			current = candidate{item: text, known: true}
		} else {
			w.Logger.Warn("secret stays in CredHub: its value is not known to this call", "secret", secret.Name)
			w.use(secret.Name, before, reference)
			return nil
		}
	}
	if !current.known {
		if secret.Value != nil {
			return w.lost(secret)
		}
		password, err := generatePassword(secret.Length)
		if err != nil {
			return err
		}
		current.item = password
	}
	w.secrets.variables[secret.Name] = current.item
	if current.item != nil {
		w.secrets.remembered[secret.Name] = record.Secret{Version: before.Version, Value: current.item}
	}
	return nil
}

var wholeReference = regexp.MustCompile(`^\(\([^()]+\)\)$`)

// passwordLetters need no quoting in shells, URLs and configuration files.
const passwordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// generatePassword returns a password of letters and digits, about 5.95 bits a letter.
func generatePassword(length int) (string, error) {
	password := make([]byte, length)
	most := big.NewInt(int64(len(passwordLetters)))
	for i := range password {
		index, err := rand.Int(rand.Reader, most)
		if err != nil {
			return "", fmt.Errorf("generating a password: %w", err)
		}
		password[i] = passwordLetters[index.Int64()]
	}
	return string(password), nil
}
