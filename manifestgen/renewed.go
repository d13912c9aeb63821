package manifestgen

import (
	"log/slog"

	"service-adapter/internal/value"
)

// RenewedSecrets returns the names of the deployed secrets to which an upgrade of the instance would give another
// value, in alphabetical order, or nil if there are none. request is that of the broker's check for pending changes, in
// which Generate keeps all secrets as they are; RenewedSecrets ignores its Body and treats it as an upgrade. The names
// are those in the definition, or of inputs that are secret for an errand; sensitive outputs of a provision template
// are not among them. RenewedSecrets has no side effects and does not write to g.Logger.
//
// It returns nil and an error if the request is invalid or a decision cannot be made, as Generate does. The manifest is
// not rendered, so errors in later steps of the upgrade are not detected.
func (g *Generator) RenewedSecrets(request Request) ([]string, error) {
	quiet := *g // Generate has logged the warnings
	quiet.Logger = slog.New(slog.DiscardHandler)
	request.Body = nil // the broker sends none on an upgrade
	in, err := quiet.newInputs(request)
	if err != nil {
		return nil, err
	}
	decided, err := decide(in, nil)
	if err != nil {
		return nil, err
	}
	renewed := map[string]bool{}
	for name, secret := range decided.secrets {
		if secret.isRenewed() {
			renewed[name] = true
		}
	}
	return value.Keys(renewed), nil
}

// isRenewed reports whether a secret that has a value in the deployed instance gets another value: a new value for
// CredHub that differs from the recorded one or replaces a value in CredHub, or a literal value in the manifest that
// differs from the recorded one. A value that only moves from the manifest to CredHub stays the same. A literal value
// that replaces one in CredHub also counts as the same, without a comparison. The result is false for a secret that the
// deployed instance does not have, and for one whose value is lost.
func (d secretDecision) isRenewed() bool {
	recorded := d.before.Value
	switch {
	case d.lostErr != nil, recorded == nil && d.before.Version == 0 && d.before.Reference == "":
		return false
	case d.newValue != nil:
		return recorded == nil || value.Text(recorded) != value.Text(d.newValue)
	default:
		return d.reference == "" && recorded != nil && value.Text(recorded) != value.Text(d.literal)
	}
}
