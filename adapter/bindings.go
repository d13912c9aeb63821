package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// createBinding is the command of that name.
func (s *session) createBinding(ctx context.Context, request *binding.Request, size int) (made *binding.Binding, err error) {
	err = s.changeBinding(ctx, request, s.completeBind(request, size), func(ctx context.Context, binder *binding.Binder, appliedErr error) error {
		if appliedErr != nil {
			return appliedErr
		}
		made, err = binder.Create(ctx, *request)
		return err
	})
	return made, err
}

// changeBinding does a change of a binding that was asked for, unless the request cannot be understood: within the budget, and written
// down. The change is told why the outputs that an errand made are not known.
func (s *session) changeBinding(
	ctx context.Context, request *binding.Request, requestErr error, change func(context.Context, *binding.Binder, error) error,
) error {
	return auditor{s}.change(ctx, aboutBinding(request), func(found func(lifecycle.Entry)) error {
		if requestErr != nil {
			return requestErr
		}
		manager, err := s.manager(request.Pak)
		if err != nil {
			return err
		}
		ctx, cancel := lifecycle.WithBudget(s.Interruptible(ctx), s.config.Budget)
		defer cancel()
		request.Found = found
		return change(ctx, &binding.Binder{Manager: manager}, s.readApplied(ctx, manager, request))
	})
}

// deleteBinding is the command of that name.
func (s *session) deleteBinding(ctx context.Context, request *binding.Request) error {
	err := s.completeUnbind(request)
	// The answer will be that there is no such binding, which is right on a machine that never bound, and wrong after a bad restore.
	if unused := s.config.backend().CheckUsed(); err == nil && unused != nil {
		s.logger.Warn("looking for a binding where none was ever stored", "binding", request.BindingID, "error", unused)
	}
	return s.changeBinding(ctx, request, err, func(ctx context.Context, binder *binding.Binder, appliedErr error) error {
		if appliedErr != nil {
			s.logger.Warn("the instance's outputs are not known", "error", appliedErr)
		}
		err := binder.Delete(ctx, *request)
		if request.Service != nil && !request.Service.Binds() && errors.Is(err, fault.ErrBindingNotFound) {
			return fmt.Errorf("service %q has no bind section: %w", request.Service.Name, fault.ErrNotImplemented)
		}
		return err
	})
}

// aboutBinding is what a request tells of a binding; one that cannot be understood has no service.
func aboutBinding(request *binding.Request) lifecycle.Entry {
	about := lifecycle.Entry{Kind: lifecycle.Binding, ID: request.BindingID, Owner: record.OwnerOf(request.Body)}
	if request.Service == nil {
		return about
	}
	about.InstanceID, about.Service, about.Plan = request.Instance.InstanceID(), request.Service.Name, request.Plan.Name
	return aboutPak(request.Pak, about)
}

// aboutPak adds what a change is made with.
func aboutPak(pak *brokerpak.Pak, about lifecycle.Entry) lifecycle.Entry {
	about.Pak, about.PakVersion = pak.Manifest.Name, pak.Manifest.Version
	about.Tofu, _ = pak.Manifest.DefaultVersion() // one without any makes nothing
	return about
}

// completeBind chooses service and plan of a create-binding, and adds what the adapter knows. size is that of the body in bytes.
func (s *session) completeBind(request *binding.Request, size int) error {
	s.secrets.AddValues(request.Body)
	if err := s.config.checkSize(size, nil, nil); err != nil {
		return err
	}
	view := request.Instance
	if err := s.readRecord(view); err != nil {
		return err
	}
	chosen, err := s.choose(hints{body: request.Body, record: view.Record})
	if err != nil {
		return err
	}
	if view.Unrecorded, err = s.unrecorded(chosen); err != nil {
		return err
	}
	if request.Parameters, err = parameters(request.Body); err != nil {
		return err
	}
	s.take(chosen, request)
	if view.Record != nil {
		// As published, request.plan_id is the instance's plan, whatever the request says.
		request.PlanID = cmp.Or(view.Record.PlanID, request.PlanID)
	}
	request.Defaults, err = s.bindDefaults(chosen.service)
	s.addDeclared(&chosen.service.Bind, request.Parameters, request.Defaults)
	return err
}

// readApplied reads the outputs of an instance whose provision template an errand applies: its manifest has none.
func (s *session) readApplied(ctx context.Context, manager *lifecycle.Manager, request *binding.Request) error {
	view := request.Instance
	if view.Record == nil || view.Record.Errand == nil {
		return nil
	}
	var err error
	view.Applied, err = manager.AppliedOutputs(ctx, view.InstanceID())
	var sensitive []string
	if request.Service != nil { // an unbind may not know it
		sensitive = manifestgen.SensitiveOutputs(request.Service)
	}
	s.secrets.AddValues(view.Applied, sensitive...)
	return err
}

// take makes a request one about a binding of the chosen plan.
func (s *session) take(chosen *selection, request *binding.Request) {
	if known := request.Instance.Record; known != nil {
		maps.Copy(chosen.plan.Properties, known.PlanProperties)
	}
	request.Pak, request.Service, request.Plan, request.Environment = chosen.pak, chosen.service, chosen.plan, s.environment(chosen.pak)
	request.ServiceID, request.PlanID = chosen.serviceID, chosen.planID
}

// completeUnbind chooses service and plan of a delete-binding as far as they are known. The binding's own state has all that a
// deletion needs, so what the configuration and the paks say about the service by now cannot stop it.
func (s *session) completeUnbind(request *binding.Request) error {
	view := request.Instance
	if err := s.readRecord(view); errors.Is(err, record.ErrNoManifest) {
		return err
	} else if err != nil {
		s.logger.Warn("the instance is not readable", "error", err)
	}
	chosen, err := s.choose(hints{body: request.Body, record: view.Record})
	if err != nil {
		s.logger.Warn("the service of the binding is not known any more", "error", err)
		chosen = &selection{pak: s.paks[0], plan: brokerpak.Plan{Properties: map[string]any{}}}
	}
	s.take(chosen, request)
	if chosen.service != nil {
		if request.Defaults, err = s.bindDefaults(chosen.service); err != nil {
			s.logger.Warn("the defaults of the bind action are not readable", "error", err)
		}
		if view.Unrecorded, err = s.unrecorded(chosen); err != nil {
			s.logger.Warn("the defaults of the provision action are not readable", "error", err)
		}
	}
	return nil
}

// unrecorded is what the adapter knows of an instance whose manifest has no record.
func (s *session) unrecorded(chosen *selection) (instance.Unrecorded, error) {
	plan := chosen.plan
	plan.ID = chosen.planID
	defaults, err := s.provisionDefaults(chosen.service)
	return instance.Unrecorded{ServiceID: chosen.serviceID, Plan: plan, Defaults: defaults}, err
}

// readRecord adds the record to what the broker tells about the instance, which is usable without it.
func (s *session) readRecord(view *instance.View) (err error) {
	view.Record, err = record.FromManifest(string(view.Manifest))
	s.addSecrets(view.Secrets, view.Record)
	return err
}

// manager wires the life cycle of what a pak makes to OpenTofu.
func (s *session) manager(pak *brokerpak.Pak) (*lifecycle.Manager, error) {
	environment, err := s.tofuEnvironment(pak)
	if err != nil {
		return nil, err
	}
	encryption, err := s.config.State.Encryption.decode()
	if err != nil {
		return nil, err
	}
	if encryption != nil {
		encryption.AcceptUnencrypted = s.acceptUnencrypted
	}
	temporary, _ := s.Getenv("TMPDIR")
	engine, err := tofu.New(tofu.Options{
		CacheDir: s.config.CacheDir, PreparedDir: s.config.PreparedDir, Backend: s.config.backend(), Encryption: encryption,
		Env: environment, Logger: s.logger, Secrets: s.secrets, TempDir: temporary, Grace: lifecycle.Grace(s.config.Budget, s.instanceLimit),
		StaleLock:    lifecycle.StaleLock(s.config.Budget, s.config.ErrandLimit),
		OnlyOpenTofu: s.config.State.Direct != nil && !*s.config.State.Direct,
	})
	if err != nil {
		return nil, err
	}
	return &lifecycle.Manager{
		Engine: engine, Paks: s.paks, Installation: s.installation, Budget: s.config.Budget, InstanceLimit: s.instanceLimit, Logger: s.logger,
	}, nil
}

// installation makes a pak's binaries available for this platform: one of its OpenTofus, "" for the default one, and its providers.
func (s *session) installation(ctx context.Context, pak *brokerpak.Pak, version string) (opentofu.Installation, error) {
	if version == "" {
		var err error
		if version, err = pak.Manifest.DefaultVersion(); err != nil {
			return opentofu.Installation{}, err
		}
	}
	files, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, s.config.CacheDir)
	if err != nil {
		return opentofu.Installation{}, err
	}
	if files.Tofu[version] == "" {
		return opentofu.Installation{}, fmt.Errorf("pak %s bundles no OpenTofu %s; there are: %s",
			pak.Manifest.Name, version, strings.Join(slices.Sorted(maps.Keys(files.Tofu)), ", "))
	}
	installation := opentofu.Installation{Binary: files.Tofu[version], Version: version}
	for _, provider := range files.Providers {
		installation.Providers = append(installation.Providers, opentofu.Provider(provider))
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

// tofuEnvironment is what the paks ask for: parameters, from the environment or the configuration, and required environment
// variables. One that the request's own pak requires and that is missing is reported by name before anything runs.
func (s *session) tofuEnvironment(own *brokerpak.Pak) (map[string]string, error) {
	environment := map[string]string{}
	for _, name := range passedOn {
		if text, ok := s.variable(name); ok {
			environment[name] = text
		}
	}
	var failed []error
	for _, pak := range s.paks {
		for _, parameter := range pak.Manifest.Parameters {
			if text, ok := s.pakVariable(parameter.Name); ok {
				environment[parameter.Name] = text
			}
		}
		for _, name := range pak.Manifest.RequiredEnv {
			text, ok := s.pakVariable(name)
			if ok {
				environment[name] = text
			} else if pak == own {
				failed = append(failed, fmt.Errorf("pak %s requires %s, which is neither an environment variable nor a key of `config`",
					pak.Manifest.Name, name))
			}
		}
	}
	return environment, errors.Join(failed...)
}

// pakVariable finds a variable that a pak asks for: in the environment, which the broker's job cannot set, or in the configuration.
func (s *session) pakVariable(name string) (string, bool) {
	if text, ok := s.variable(name); ok && text != "" {
		return text, true
	}
	item, ok := lookup(normalised(s.config.Config), name)
	text := value.Text(item)
	return text, ok && text != ""
}
