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

func (s *session) schemas() step {
	return step{
		event:   "cf marketplace -e redis",
		request: "Which parameters does the plan have?",
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

func (s *session) create() step {
	return step{
		event:   "cf create-service redis small my-redis -c '{\"max_clients\": 500}'",
		request: "Which BOSH manifest does the new instance get? The broker sends plan, releases and parameters.",
		command: "generate-manifest", parameters: s.instance.Generate(s.body(map[string]any{"max_clients": 500})),
		after: func(answer broker.Answer) error {
			product, err := generated(answer)
			if err != nil {
				return err
			}
			s.print(indent(excerpt(product.Manifest, "instance_groups:", "\nvariables:")))
			s.print("The rest of the manifest has the operator's releases and stemcells. " +
				"The last entry is the adapter's record.\n")
			for _, name := range value.Keys(product.ODBManagedSecrets) {
				s.print(fmt.Sprintf("CredHub gets the secret: %s = %v\n", name, product.ODBManagedSecrets[name]))
			}
			return s.instance.Deploy(answer.Stdout)
		},
	}
}

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
			s.print("The manifest is the deployed one: no changes are pending.\n")
			return err
		},
	}
}

func (s *session) update() step {
	return step{
		event:   "The same update goes on",
		request: "Which manifest does the instance get now?",
		command: "generate-manifest", parameters: s.instance.Generate(s.body(map[string]any{"max_clients": 2000})),
		after: func(answer broker.Answer) error {
			product, err := generated(answer)
			if err != nil {
				return err
			}
			changed := changedLines(s.instance.Manifest, product.Manifest)
			s.print(indent(changed))
			s.print("Nothing else changes but the record. The password stays.\n")
			if !strings.Contains(changed, "connections: 2000") || strings.Count(changed, "\n") != 1 {
				return fmt.Errorf("the update must change the number of clients alone: %s", changed)
			}
			return s.instance.Deploy(answer.Stdout)
		},
	}
}

func (s *session) bind() step {
	return step{
		event:   "cf bind-service my-app " + s.name,
		request: "Which credentials does the app get? OpenTofu applies the bind template of the pak.",
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

func (s *session) bindAgain() step {
	return step{
		event:   "The same request again",
		request: "Cloud Foundry repeats requests whose answer it missed. Exit code 49: the binding exists.",
		command: "create-binding", parameters: s.bindParameters(), exit: 49,
	}
}

func (s *session) unbind() step {
	return step{
		event:   "cf unbind-service my-app " + s.name,
		request: "OpenTofu destroys what belongs to the binding, and its state is deleted.",
		command: "delete-binding", parameters: s.unbindParameters(),
	}
}

func (s *session) unbindAgain() step {
	return step{
		event:   "The same request again",
		request: "Exit code 41: there is no such binding.",
		command: "delete-binding", parameters: s.unbindParameters(), exit: 41,
	}
}

func (s *session) bindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo", map[string]any{
		"app_guid": "app", "bind_resource": map[string]any{"app_guid": "app"},
		"context":    map[string]any{"platform": "cloudfoundry"},
		"parameters": map[string]any{}, "plan_id": s.instance.PlanID, "service_id": s.instance.ServiceID,
	})
}

func (s *session) unbindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo",
		map[string]any{"plan_id": s.instance.PlanID, "service_id": s.instance.ServiceID})
}
