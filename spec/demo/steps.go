package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/spec/kit/broker"
)

// schemas returns the step of a user who reads the parameters of the plan in the marketplace.
func (s *session) schemas() step {
	return step{
		event:   "cf marketplace -e redis",
		request: "Which parameters does the plan accept?",
		command: "generate-plan-schemas", parameters: map[string]any{"plan": s.instance.Plan},
		after: func(answer broker.Answer) error {
			type parameter struct {
				Type, Description string
				Default           any
			}
			var plan struct {
				Instance struct {
					Create struct {
						Parameters struct{ Properties map[string]parameter }
					}
				} `json:"service_instance"`
			}
			if err := json.Unmarshal([]byte(answer.Stdout), &plan); err != nil {
				return err
			}
			parameters := plan.Instance.Create.Parameters.Properties
			for _, name := range value.Keys(parameters) {
				it := parameters[name]
				s.print(indent(fmt.Sprintf("%s: %s, default %v. %s.", name, it.Type, it.Default, it.Description)))
			}
			return nil
		},
	}
}

// create returns the step that creates the instance.
func (s *session) create() step {
	return step{
		event:   "cf create-service redis small my-redis -c '{\"max_clients\": 500}'",
		request: "The broker sends the plan, the releases and the parameters. The adapter generates the BOSH manifest.",
		command: "generate-manifest", parameters: s.instance.Generate(s.body(map[string]any{"max_clients": 500})),
		after: func(answer broker.Answer) error {
			product, err := generated(answer)
			if err != nil {
				return err
			}
			s.print(indent(excerpt(product.Manifest, "instance_groups:", "\nvariables:")))
			s.print("The rest of the manifest contains the operator's releases and stemcells. " +
				"The last key contains the record.\n")
			for _, name := range value.Keys(product.ODBManagedSecrets) {
				s.print(fmt.Sprintf("CredHub stores the secret: %s = %v\n", name, product.ODBManagedSecrets[name]))
			}
			return s.instance.Deploy(answer.Stdout)
		},
	}
}

// check returns the step of the broker's check for pending changes.
func (s *session) check() step {
	return step{
		event: "cf update-service my-redis -c '{\"max_clients\": 2000}'",
		request: "Are changes of the operator pending? The broker generates the manifest again, without parameters,\n" +
			"and rejects the update if it differs.",
		command: "generate-manifest", parameters: s.instance.Generate(map[string]any{}),
		after: func(answer broker.Answer) error {
			product, err := generated(answer)
			if err != nil {
				return err
			}
			same, err := odb.SameManifests(s.instance.Manifest, product.Manifest)
			if err == nil && !same {
				err = errors.New("the manifests differ")
			}
			s.print("The manifest equals the deployed one: no changes are pending.\n")
			return err
		},
	}
}

// update returns the step that updates the instance.
func (s *session) update() step {
	return step{
		event:   "The same update continues",
		request: "The broker sends the new parameters. The adapter generates the new manifest.",
		command: "generate-manifest", parameters: s.instance.Generate(s.body(map[string]any{"max_clients": 2000})),
		after: func(answer broker.Answer) error {
			product, err := generated(answer)
			if err != nil {
				return err
			}
			changed := changedLines(s.instance.Manifest, product.Manifest)
			s.print(indent(changed))
			s.print("Apart from the record, the rest of the manifest is unchanged. The password is kept.\n")
			if !strings.Contains(changed, "connections: 2000") || strings.Count(changed, "\n") != 1 {
				return fmt.Errorf("the update must change only the number of clients: %s", changed)
			}
			return s.instance.Deploy(answer.Stdout)
		},
	}
}

// bind returns the step that creates a binding.
func (s *session) bind() step {
	return step{
		event:   "cf bind-service my-app " + s.name,
		request: "OpenTofu applies the bind template of the pak. Its outputs are the credentials of the app.",
		command: "create-binding", parameters: s.bindParameters(),
		after: func(answer broker.Answer) error {
			var binding struct{ Credentials map[string]any }
			if err := json.Unmarshal([]byte(answer.Stdout), &binding); err != nil {
				return err
			}
			for _, name := range value.Keys(binding.Credentials) {
				s.print(indent(fmt.Sprintf("%s: %v", name, binding.Credentials[name])))
			}
			return nil
		},
	}
}

// bindAgain returns the step that creates the existing binding again.
func (s *session) bindAgain() step {
	return step{
		event:   "The same request again",
		request: "Cloud Foundry repeats a request if it did not receive the answer. Exit code 49: the binding exists.",
		command: "create-binding", parameters: s.bindParameters(), exit: 49,
	}
}

// unbind returns the step that deletes the binding.
func (s *session) unbind() step {
	return step{
		event:   "cf unbind-service my-app " + s.name,
		request: "OpenTofu destroys the resources of the binding, and the adapter deletes its state.",
		command: "delete-binding", parameters: s.unbindParameters(),
	}
}

// unbindAgain returns the step that deletes the missing binding again.
func (s *session) unbindAgain() step {
	return step{
		event:   "The same request again",
		request: "Exit code 41: the binding does not exist.",
		command: "delete-binding", parameters: s.unbindParameters(), exit: 41,
	}
}

// bindParameters returns the parameters of create-binding.
func (s *session) bindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo", map[string]any{
		"app_guid": "app", "bind_resource": map[string]any{"app_guid": "app"},
		"context":    map[string]any{"platform": "cloudfoundry"},
		"parameters": map[string]any{}, "plan_id": s.instance.PlanID, "service_id": s.instance.ServiceID,
	})
}

// unbindParameters returns the parameters of delete-binding.
func (s *session) unbindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo",
		map[string]any{"plan_id": s.instance.PlanID, "service_id": s.instance.ServiceID})
}
