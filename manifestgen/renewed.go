package manifestgen

import (
	"log/slog"

	"service-adapter/internal/value"
)

// RenewedSecrets returns the names of the deployed secrets that an upgrade of an instance gives another value, in
// alphabetical order, or nil if there are none. The request is that of the broker's check for pending changes, in which
// Generate keeps all secrets as they are. The sensitive outputs of a provision template are not among the secrets.
// RenewedSecrets changes nothing and does not write to g.Logger. It returns an error, as Generate does, if the request
// is invalid or a decision cannot be made. The manifest is not rendered, so errors in later steps of the upgrade are
// not detected.
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

// isRenewed reports whether a secret that has a value in the deployed instance gets another one. A value that only
// moves from the manifest to CredHub, or from there into the manifest, stays the same. A secret that the record does
// not contain, and one whose value is lost, are not renewed.
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
