package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/tofu"
	"service-adapter/schemas"
)

// bindInput is what create-binding and delete-binding have in common.
type bindInput struct {
	bindingID, vms, manifest, body, secrets, dns string
}

// createBinding is the command of that name.
func (s *session) createBinding(ctx context.Context, in *input, _ serviceadapter.CreateBindingParams) (*binding.Binding, error) {
	raw := in.params.CreateBinding
	request, err := s.bindRequest(bindInput{
		bindingID: raw.BindingId, vms: raw.BoshVms, manifest: raw.Manifest, body: raw.RequestParameters, secrets: raw.Secrets,
		dns: raw.DNSAddresses,
	}, false)
	if err != nil {
		return nil, err
	}
	binder, err := s.binder()
	if err != nil {
		return nil, err
	}
	return binder.Create(ctx, *request)
}

// deleteBinding is the command of that name.
func (s *session) deleteBinding(ctx context.Context, in *input, _ serviceadapter.DeleteBindingParams) error {
	raw := in.params.DeleteBinding
	request, err := s.bindRequest(bindInput{
		bindingID: raw.BindingId, vms: raw.BoshVms, manifest: raw.Manifest, body: raw.RequestParameters, secrets: raw.Secrets,
		dns: raw.DNSAddresses,
	}, true)
	if err != nil {
		return err
	}
	binder, err := s.binder()
	if err != nil {
		return err
	}
	return binder.Delete(ctx, *request)
}

// bindRequest decodes the input and chooses service and plan. A deletion goes on without a readable record: the binding's own
// state has all it needs.
func (s *session) bindRequest(raw bindInput, deleting bool) (*binding.Request, error) {
	body, err := object("the request parameters", raw.body)
	if err != nil {
		return nil, err
	}
	view, err := s.view(raw)
	if err != nil && !deleting {
		return nil, err
	}
	if err != nil {
		s.logger.Warn("the instance's manifest is not readable", "error", err)
	}
	chosen, err := s.choose(hints{body: body, record: view.Record})
	if err != nil {
		return nil, err
	}
	if view.Record != nil {
		for name, item := range view.Record.PlanProperties {
			chosen.plan.Properties[name] = item
		}
	}
	request := &binding.Request{
		Pak: chosen.pak, Service: chosen.service, Plan: chosen.plan, ServiceID: chosen.serviceID, PlanID: chosen.planID,
		BindingID: raw.bindingID, Instance: view, Environment: s.environment(chosen.pak), Body: body,
	}
	if request.Parameters, err = parameters(body); err != nil {
		return nil, err
	}
	request.Defaults, err = s.bindDefaults(chosen.service)
	return request, err
}

// view decodes what the broker tells about the instance. It is usable even when the error is not nil.
func (s *session) view(raw bindInput) (*instance.View, error) {
	view := &instance.View{Manifest: []byte(raw.manifest)}
	var errs [4]error
	view.Record, errs[0] = record.FromManifest(view.Manifest)
	view.Secrets, errs[1] = texts("the secrets", raw.secrets)
	view.DNS, errs[2] = texts("the DNS addresses", raw.dns)
	if raw.vms != "" {
		if err := json.Unmarshal([]byte(raw.vms), &view.VMs); err != nil {
			errs[3] = fmt.Errorf("reading the BOSH VMs: %w", jsonError(err))
		}
	}
	s.redact.add(secretValues(view.Secrets)...)
	return view, errors.Join(errs[:]...)
}

// graceShare is the part of the budget, as a divisor, that an interrupted OpenTofu has to save its state.
const graceShare = 5

// binder wires the bindings to OpenTofu and the checks.
func (s *session) binder() (*binding.Binder, error) {
	environment, err := s.tofuEnvironment()
	if err != nil {
		return nil, err
	}
	temporary, _ := s.getenv("TMPDIR")
	engine, err := tofu.New(tofu.Options{
		CacheDir: s.config.CacheDir, PreparedDir: s.config.PreparedDir, Backend: s.config.backend(), Env: environment, Logger: s.logger,
		Redact: s.redact.list(), TempDir: temporary, Grace: s.config.Budget / graceShare,
	})
	if err != nil {
		return nil, err
	}
	return &binding.Binder{
		Engine: engine, Installation: s.installation, Paks: s.paks, Budget: s.config.Budget,
		CheckParameters: func(action *brokerpak.Action, parameters map[string]any) error {
			return schemas.CheckParameters(schemas.Request{Action: action, Parameters: parameters})
		},
		CheckValues: schemas.CheckValues,
		Logger:      s.logger,
	}, nil
}

// installation makes a pak's binaries available for this platform.
func (s *session) installation(ctx context.Context, pak *brokerpak.Pak) (tofu.Installation, error) {
	version, err := pak.Manifest.DefaultVersion()
	if err != nil {
		return tofu.Installation{}, err
	}
	files, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, s.config.CacheDir)
	if err != nil {
		return tofu.Installation{}, err
	}
	installation := tofu.Installation{Binary: files.Tofu[version], Version: version}
	for _, provider := range files.Providers {
		installation.Providers = append(installation.Providers, tofu.Provider{
			FQN: provider.FQN, Version: provider.Version, File: provider.File,
		})
	}
	if files.Path != "" {
		installation.Path = []string{filepath.Clean(files.Path)}
	}
	return installation, nil
}

// passedOn are the variables of the adapter's environment that OpenTofu gets besides those of the paks. Nothing else of the
// broker's environment reaches a provider.
var passedOn = []string{ //nolint:gochecknoglobals // a constant table
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// tofuEnvironment is what the paks ask for: parameters from the configuration, then from the environment, and required
// environment variables. A required one that is missing is reported by name before anything runs.
func (s *session) tofuEnvironment() (map[string]string, error) {
	environment := map[string]string{}
	var failed []error
	for _, name := range passedOn {
		if text, ok := s.getenv(name); ok {
			environment[name] = text
		}
	}
	for _, pak := range s.paks {
		for _, parameter := range pak.Manifest.Parameters {
			if item, ok := lookup(normalised(s.config.Config), parameter.Name); ok {
				environment[parameter.Name] = fmt.Sprint(item)
			} else if text, ok := s.getenv(parameter.Name); ok {
				environment[parameter.Name] = text
			}
		}
		for _, name := range pak.Manifest.RequiredEnv {
			text, ok := s.getenv(name)
			if !ok || text == "" {
				failed = append(failed, fmt.Errorf("pak %s requires the environment variable %s, which is not set", pak.Manifest.Name, name))
				continue
			}
			environment[name] = text
			s.redact.add(text)
		}
	}
	return environment, errors.Join(failed...)
}
