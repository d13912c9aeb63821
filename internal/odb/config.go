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

// A BrokerConfig is the part of the on-demand broker's configuration (broker.yml of its job) that manifests depend on,
// and that is needed to find its deployments: the URL and credentials of the Director, the releases and stemcells, and
// the catalog with its plans. All other keys are ignored, as by the broker. ReadBrokerConfig returns it, with at least
// one release, stemcell and plan; settings of the Director that the file lacks are empty. The zero value has no plans.
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
	// Deployment contains the releases and stemcells of every instance. Its deployment name is empty.
	Deployment serviceadapter.ServiceDeployment `yaml:"service_deployment"`
	Catalog    struct {
		ID               string
		GlobalProperties serviceadapter.Properties `yaml:"global_properties"`
		Plans            []*BrokerPlan
	} `yaml:"service_catalog"`
}

// A BrokerPlan is a plan in the broker's catalog: its id, its name, and the plan that adapters receive, both decoded
// and as JSON. Its properties include the global properties of the catalog that the plan does not set itself.
type BrokerPlan struct {
	ID   string `yaml:"plan_id"`
	Name string
	// Plan is the plan that adapters receive. Its properties include the global properties of the catalog.
	serviceadapter.Plan `yaml:",inline"`
	// JSON is the text of Plan that adapters receive.
	JSON string `yaml:"-"`
}

// ReadBrokerConfig reads the broker's configuration from the file at path, and adds the global properties of the
// catalog to each plan. A property of the plan takes precedence over a global one of the same name; nested properties
// are not merged. Settings of the Director may be missing.
//
// ReadBrokerConfig returns nil and an error if the file cannot be read, is not valid YAML, or contains a value of the
// wrong type, if it lacks releases, stemcells, plans or the id of a plan, or if a plan cannot be encoded as JSON,
// because it contains an infinity or NaN. The error names the file and, as far as possible, the line or the key. The
// only values of the file that it may contain are the id of a plan, an infinity and NaN.
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

// parse decodes the text of the configuration into c, adds the global properties of the catalog to the properties of
// each plan, and then sets the JSON of each plan. The plan's own properties take precedence; nested properties are
// not merged. parse returns an error if the YAML is invalid, if a value has the wrong type, if releases, stemcells,
// plans or the id of a plan are missing, or if a plan cannot be encoded as JSON, because it contains an infinity or
// NaN. The error contains no texts of the configuration except the id of a plan. c must not be used then.
func (c *BrokerConfig) parse(text []byte) error {
	err := yaml.Unmarshal(text, c)
	var typeErr *yaml.TypeError
	switch {
	case errors.As(err, &typeErr):
		// The message quotes the value, which may be a password.
		return errors.New(regexp.MustCompile("(?s) ?`.*`").ReplaceAllString(typeErr.Errors[0], ""))
	case err != nil:
		return errors.New(yamltree.SyntaxError(err))
	case len(c.Deployment.Releases) == 0 || len(c.Deployment.Stemcells) == 0 || len(c.Catalog.Plans) == 0:
		return errors.New("it must have releases and stemcells in service_deployment, and plans in service_catalog: " +
			"check that it is broker.yml of the broker's job")
	}
	for i, plan := range c.Catalog.Plans {
		if plan == nil || plan.ID == "" {
			return fmt.Errorf("plan_id of service_catalog.plans[%d] is missing", i)
		}
		properties := value.Merge(c.Catalog.GlobalProperties, plan.Properties) // shallow, as in the broker
		plan.Properties, _ = value.Normalise(properties).(map[string]any)
		encoded, err := json.Marshal(plan.Plan)
		if err != nil {
			return fmt.Errorf("plan %s of service_catalog: %w", plan.ID, err)
		}
		plan.JSON = string(encoded)
	}
	return nil
}

// Plan returns the plan of the catalog with an id. If id is "", it returns the first plan with the name instead; the
// name of a plan without one is "". Otherwise name has no effect. Plan returns nil if the catalog does not contain
// such a plan.
func (c *BrokerConfig) Plan(id, name string) *BrokerPlan {
	for _, plan := range c.Catalog.Plans {
		if plan.ID == id || id == "" && plan.Name == name {
			return plan
		}
	}
	return nil
}
