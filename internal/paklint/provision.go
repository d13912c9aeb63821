package paklint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
)

// provisionTemplate checks a provision template against the secrets and the inputs of the service.
func (c *serviceCheck) provisionTemplate(action *brokerpak.Action, module *hclfile.Module) {
	var secrets []string
	if action.Bosh != nil {
		for _, secret := range action.Bosh.Secrets {
			secrets = append(secrets, secret.Name)
			c.secretInTemplate(action, module, secret)
		}
	}
	if what, at := action.NeedsOutputs(module.Outputs); what != "" {
		c.notes = append(c.notes, fmt.Sprintf("service %q: plans cannot have the lifecycle errand %s, because the manifest needs the output %s of the "+
			"provision template (%s)", c.service.Name, record.ApplyErrand, what, at))
	}
	inputs := action.InputNames()
	for _, output := range module.Outputs {
		pos := templatePlace(action, module.OutputPlaces[output])
		switch {
		case slices.Contains(module.SensitiveOutputs, output) && slices.Contains(secrets, output):
			c.diags.Errorf(pos, "output-name", "the sensitive output %q is kept as a secret, and has the name of one; rename one of them", output)
		case slices.Contains(module.SensitiveOutputs, output) && isNumbered(output):
			c.diags.Errorf(pos, "output-name", "the sensitive output %q is kept as a secret, whose name must not end like that of a changed value", output)
		case slices.Contains(inputs, output) && action.Bosh != nil:
			c.diags.Warnf(pos, "output-name", "output %q has the name of an input, so ((%s)) in the manifest is the input", output, output)
		}
	}
}

// isNumbered tells whether a name ends like those that changed values of secrets get.
func isNumbered(name string) bool {
	base := strings.TrimRight(name, "0123456789")
	return base != name && strings.HasSuffix(base, "-")
}

// secretInTemplate refuses a template that uses the value of a secret: only CredHub has it when the next request comes.
func (c *serviceCheck) secretInTemplate(action *brokerpak.Action, module *hclfile.Module, secret brokerpak.Secret) {
	if secret.Input == "" {
		return
	}
	pos, used := module.Undeclared[secret.Input]
	if variable, declared := module.Variables[secret.Input]; declared {
		pos, used = variable.Pos, true
	}
	if used {
		c.diags.Errorf(templatePlace(action, pos), "secret-in-template",
			"var.%s is the value of secret %q, which later requests do not know; the provision template cannot use it", secret.Input, secret.Name)
	}
}

// provisioned makes up the outputs of a provision template.
func (c *player) provisioned(_ context.Context, request provision.Request, _ bool) (*provision.Result, error) {
	made := &provision.Result{Outputs: map[string]any{}, Sensitive: c.provision.SensitiveOutputs}
	for _, output := range request.Service.Provision.Outputs {
		made.Outputs[output.Name] = c.plausible(output)
	}
	return made, nil
}
