package prepare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/adapter/config"
	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// A checker validates the parts of the configuration that concern services, such as the operator's defaults and plans,
// which commands otherwise validate only when they use them. Its method check does so and collects warnings. The
// session must be set and open, so the zero value is not usable.
type checker struct {
	session *session.Session
	// warnings describe which requests will be rejected because of the configuration.
	warnings []string
}

// warnf appends a warning, formatted as by fmt.Sprintf, to c.warnings, which `prepare` prints. It writes no log.
func (c *checker) warnf(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// check validates the configuration of all services: the properties of the errands, the service that the configuration
// names, and for each service of the paks the operator's plans and defaults, secure_manifests, disable_bosh_configs and
// whether the programs exist that the service requires. The error lists all faults, and is nil if there are none. A
// setting that makes only some requests fail is not an error: check appends a warning about it to c.warnings.
func (c *checker) check() error {
	failed := []error{c.checkErrands()}
	if name := c.session.Config.Service; name != "" {
		_, err := c.session.Catalog.Choose(session.Hints{})
		failed = append(failed, err)
	}
	for _, pak := range c.session.Catalog.Paks {
		for _, service := range pak.Services {
			_, planErr := c.session.Catalog.OperatorPlans(service)
			_, provisionErr := c.session.Values().ProvisionDefaults(service)
			_, bindErr := c.session.Values().BindDefaults(service)
			failed = append(failed, planErr, provisionErr, bindErr, c.checkSecure(service), c.checkConfigs(service),
				c.session.CheckCommands(pak, service))
		}
	}
	return errors.Join(failed...)
}

// checkSecure returns an error if the service has secrets or sensitive outputs, but the configuration does not set
// secure_manifests to true or false. It returns nil if secure_manifests is set, whatever its value.
func (c *checker) checkSecure(service *brokerpak.Service) error {
	if c.session.Config.SecureManifests != nil {
		return nil
	}
	const must = "secure_manifests must have the value of the broker's enable_secure_manifests"
	if bosh := service.Provision.Bosh; bosh != nil && len(bosh.Secrets) > 0 {
		return fmt.Errorf("service %q has secrets: %s", service.Name, must)
	}
	if len(manifestgen.SensitiveOutputs(service)) > 0 {
		return fmt.Errorf("service %q has sensitive outputs: %s", service.Name, must)
	}
	return nil
}

// checkConfigs returns an error if disable_bosh_configs is true in the configuration, although the service generates a
// BOSH config for every instance. If only some requests need a config, because each config has a condition, it returns
// nil and appends a warning to c.warnings, because these requests will be rejected.
func (c *checker) checkConfigs(service *brokerpak.Service) error {
	bosh := service.Provision.Bosh
	if !c.session.Config.DisableBoshConfigs || bosh == nil || len(bosh.Configs) == 0 {
		return nil
	}
	kinds := value.Keys(bosh.Configs)
	for _, kind := range kinds {
		if bosh.Configs[kind].If == nil {
			return fmt.Errorf("service %q returns a BOSH config (%s) for every instance: disable_bosh_configs, "+
				"the broker's and the adapter's, must be false", service.Name, kind)
		}
	}
	c.warnf("service %q may return BOSH configs (%s); with disable_bosh_configs such requests are rejected",
		service.Name, strings.Join(kinds, ", "))
	return nil
}

// checkErrands validates errand_properties, the properties of the lifecycle errands' jobs in the configuration. It
// returns nil if they are empty. It returns an error that lists all faults if they are not valid or contain an unknown
// key, or if an environment variable that a pak requires or a key that an expression reads is missing in their
// `config`. If errands can apply the templates of several services, a missing key is only a warning in c.warnings,
// because only the plans of the broker determine which of the services use the errands.
func (c *checker) checkErrands() error {
	properties := value.NormaliseMap(c.session.Config.ErrandProperties)
	if len(properties) == 0 {
		return nil
	}
	failed := []error{c.session.Config.CheckErrands(properties)}
	for _, unknown := range config.UnknownErrandKeys(properties) {
		failed = append(failed, errors.New(unknown))
	}
	served, lacking := c.checkErrandServices(properties)
	if served > 1 {
		for _, err := range lacking {
			c.warnf("%v, if a plan has them", err)
		}
		lacking = nil
	}
	return errors.Join(append(failed, lacking...)...)
}

// checkErrandServices returns the number of services whose provision template the errand apply-instance can apply, and
// in lacking an error for each of them that needs keys that are missing in `config` of properties, the properties of
// the errands. Services are left out if they have no provision template or if their BOSH manifest needs its outputs.
// Only the paks whose paths are listed in properties count, or all paks of the adapter if none of these is listed. If
// several paks have a template for the same service, the first one counts. lacking is nil if no key is missing.
func (c *checker) checkErrandServices(properties map[string]any) (served int, lacking []error) {
	listed, _ := properties[config.ErrandPaksKey].([]any)
	unlisted := func(pak *brokerpak.Pak) bool { return !slices.Contains(listed, any(pak.Path)) }
	paks := slices.DeleteFunc(slices.Clone(c.session.Catalog.Paks), unlisted)
	if len(paks) == 0 {
		paks = c.session.Catalog.Paks
	}
	names := map[string]bool{} // the first pak with a service serves it
	for _, pak := range paks {
		for _, service := range pak.Services {
			if names[service.Name] || len(service.Provision.Templates) == 0 {
				continue
			}
			names[service.Name] = true
			module, _ := hclfile.Inspect(service.Provision.Templates) // OpenTofu reports faults of the files
			if output, _ := service.Provision.FindOutputUse(module.Outputs); output != "" {
				continue
			}
			served++
			if err := config.CheckErrandConfig(service.Name, properties, c.errandConfigKeys(pak, service)); err != nil {
				lacking = append(lacking, err)
			}
		}
	}
	return served, lacking
}

// errandConfigKeys returns the keys of `config` in the errands' properties that the errands of every instance of a
// service of pak read, as far as the pak and the configuration of the adapter determine them. These are the environment
// variables that the pak requires, followed by the keys in the default expressions of provision inputs. A default that
// is replaced by a default of the operator or by all plans is left out, unless the input has overwrite, so that its
// default is used nevertheless. A key can occur several times. The result is empty if no keys are needed.
func (c *checker) errandConfigKeys(pak *brokerpak.Pak, service *brokerpak.Service) []string {
	defaults, _ := c.session.Values().ProvisionDefaults(service) // check reports errors of both
	added, _ := c.session.Catalog.OperatorPlans(service)
	plans := slices.Concat(service.Plans, added)
	has := func(set map[string]any, name string) bool { _, ok := set[name]; return ok }
	replaced := func(name string) bool {
		return slices.ContainsFunc(defaults, func(set map[string]any) bool { return has(set, name) }) ||
			len(plans) > 0 && !slices.ContainsFunc(plans, func(plan brokerpak.Plan) bool {
				return !has(plan.ProvisionOverrides, name) && !has(plan.Properties, name)
			})
	}
	keys := slices.Clone(pak.Manifest.RequiredEnv)
	for _, input := range slices.Concat(service.Provision.UserInputs, service.Provision.ComputedInputs) {
		if input.DefaultExpr != nil && (input.Overwrite || !replaced(input.Name)) {
			keys = append(keys, input.DefaultExpr.ConfigKeys()...)
		}
	}
	return keys
}
