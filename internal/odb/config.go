package odb

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// BrokerConfig is the broker's own configuration, broker.yml of its job, as far as manifests depend on it and their deployments are found by
// it. As the broker does, it tolerates all other keys.
type BrokerConfig struct {
	Bosh struct {
		URL            string
		CACert         string `yaml:"root_ca_cert"`
		Authentication struct {
			Basic struct{ Username, Password string }
			UAA   struct {
				Client struct {
					ID     string `yaml:"client_id"`
					Secret string `yaml:"client_secret"`
				} `yaml:"client_credentials"`
			}
		}
	}
	// Deployment has the releases and stemcells of every instance, and no name.
	Deployment serviceadapter.ServiceDeployment `yaml:"service_deployment"`
	Catalog    struct {
		ID               string
		GlobalProperties serviceadapter.Properties `yaml:"global_properties"`
		Plans            []*BrokerPlan
	} `yaml:"service_catalog"`
}

// BrokerPlan is a plan of the broker's catalog.
type BrokerPlan struct {
	ID   string `yaml:"plan_id"`
	Name string
	// Plan has the catalog's global properties as well, and JSON is the text of it that adapters get.
	serviceadapter.Plan `yaml:",inline"`
	JSON                string `yaml:"-"`
}

// ReadBrokerConfig reads the broker's configuration. Errors name the file, and the line or the key; they show no values.
func ReadBrokerConfig(path string) (*BrokerConfig, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading the broker's configuration: %w", err)
	}
	config := &BrokerConfig{}
	if err := config.parse(text); err != nil {
		return nil, fmt.Errorf("the broker's configuration %s: %w", path, err)
	}
	return config, nil
}

func (c *BrokerConfig) parse(text []byte) error {
	err := yaml.Unmarshal(text, c)
	var wrong *yaml.TypeError
	switch {
	case errors.As(err, &wrong):
		return errors.New(regexp.MustCompile(" ?`[^`]*`").ReplaceAllString(wrong.Errors[0], "")) // without the value, which may be a password
	case err != nil:
		return errors.New(yamltree.SyntaxError(err))
	case len(c.Deployment.Releases) == 0 || len(c.Deployment.Stemcells) == 0 || len(c.Catalog.Plans) == 0:
		return errors.New("it must have releases and stemcells in service_deployment, and plans in service_catalog: is it broker.yml of the broker's job?")
	}
	for i, plan := range c.Catalog.Plans {
		if plan == nil || plan.ID == "" {
			return fmt.Errorf("plan_id of service_catalog.plans[%d] is missing", i)
		}
		properties := value.Merge(c.Catalog.GlobalProperties, plan.Properties) // as the broker does, shallowly
		plan.Properties, _ = value.Normalise(properties).(map[string]any)
		encoded, err := json.Marshal(plan.Plan)
		if err != nil {
			return fmt.Errorf("plan %s of service_catalog: %w", plan.ID, err)
		}
		plan.JSON = string(encoded)
	}
	return nil
}

// Plan is the plan of an id, or of a name where the id is not known; nil when the catalog has none.
func (c *BrokerConfig) Plan(id, name string) *BrokerPlan {
	for _, plan := range c.Catalog.Plans {
		if plan.ID == id || id == "" && plan.Name == name {
			return plan
		}
	}
	return nil
}
