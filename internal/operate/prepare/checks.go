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

// A checker validates the parts of the configuration that concern services, which a command otherwise validates when it
// first uses them. check does so.
type checker struct {
	session *session.Session
	// warnings describe which requests will be rejected because of the configuration.
	warnings []string
}

// warnf adds a warning, formatted as by fmt.Sprintf, to c.warnings.
func (c *checker) warnf(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// check validates the configuration of all services. The error lists all faults, and is nil if there are none. Settings
// because of which only some requests fail are not errors: they are added to c.warnings.
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

// checkSecure returns an error if secure_manifests is not set, neither true nor false, although the service has secrets
// or sensitive outputs.
func (c *checker) checkSecure(service *brokerpak.Service) error {
	if c.session.Config.SecureManifests != nil {
		return nil
	}
	const must = "secure_manifests must say what the broker's enable_secure_manifests says"
	if bosh := service.Provision.Bosh; bosh != nil && len(bosh.Secrets) > 0 {
		return fmt.Errorf("service %q has secrets: %s", service.Name, must)
	}
	if len(manifestgen.SensitiveOutputs(service)) > 0 {
		return fmt.Errorf("service %q has sensitive outputs: %s", service.Name, must)
	}
	return nil
}

// checkConfigs returns an error if the service generates a BOSH config for every instance although
// disable_bosh_configs is true. If only some requests need a config, it adds a warning, because these will be
// rejected.
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
	c.warnf("service %q may return BOSH configs (%s); with disable_bosh_configs such requests are refused",
		service.Name, strings.Join(kinds, ", "))
	return nil
}

// checkErrands checks errand_properties, if there are any. It returns an error if they are not valid or contain an
// unknown key, or if the errands of the only service that can have them lack a configuration key. If several services
// can have them, a missing configuration key is only a warning: only the plans of the broker determine which of the
// services use the errands, and each of their manifests is checked.
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

// checkErrandServices returns the number of services whose provision template an errand can apply, and an error for
// each one whose keys are missing in `config` of the errands' properties. It ignores paks that the errands do not list,
// unless they list none of the adapter's paks. The first pak with a service serves it.
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

// errandConfigKeys returns the keys of `config` that the errands of every instance of a service read, as far as the pak
// and the configuration of the adapter determine them: first the environment variables that the pak requires, then the
// keys in default expressions that are not replaced by a default of the operator or by all plans. A key can occur
// several times.
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
