package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// Preparation is what Prepare did.
type Preparation struct {
	// Dir is the directory; a configuration names it as prepared_dir.
	Dir string
	// Actions are the templates that were prepared, "redis bind", in the order of the paks.
	Actions []string
	// Warnings tell what could not be prepared, so that it is when it is first used, and which requests the configuration has refused.
	Warnings []string
}

// absentWorkspace is a workspace that never exists: to read it proves that the state backend answers.
const absentWorkspace = "prepare"

// ErrNoDirectory says that neither the configuration nor the caller names a directory to prepare.
var ErrNoDirectory = errors.New("preparing needs an absolute path: --dir or the configuration's prepared_dir")

// Prepare checks the configuration, the paks' binaries and templates, and initialises all templates in a directory for processes that
// only read it; "" means the configuration's prepared_dir. It is an error when anything that an operator configures is wrong. A state
// backend that does not answer within the budget is only a warning.
func Prepare(ctx context.Context, invocation Invocation, dir string) (*Preparation, error) {
	s := newSession(invocation, "prepare")
	var done *Preparation
	err := s.do(func() (err error) {
		if dir = cmp.Or(dir, s.config.PreparedDir); !filepath.IsAbs(dir) {
			return ErrNoDirectory
		}
		p := &preparer{session: s, done: &Preparation{Dir: dir}}
		if err := p.checkServices(); err != nil {
			return fmt.Errorf("checking the configuration: %w", err)
		}
		s.config.CacheDir, s.config.PreparedDir, done = dir, "", p.done
		return p.prepare(ctx)
	})
	return done, err
}

// checkServices finds what the configuration says about services and what no command has needed yet.
func (p *preparer) checkServices() error {
	failed := []error{p.checkErrands()}
	if name := p.config.Service; name != "" {
		_, err := p.choose(hints{})
		failed = append(failed, err)
	}
	for _, pak := range p.paks {
		for _, service := range pak.Services {
			_, planErr := operatorPlans(service, p.config.Services[service.Name].Plans, p.Getenv)
			_, provisionErr := p.provisionDefaults(service)
			_, bindErr := p.bindDefaults(service)
			failed = append(failed, planErr, provisionErr, bindErr, p.checkSecure(service), p.checkConfigs(service))
		}
	}
	return errors.Join(failed...)
}

// checkErrands refuses errands whose states bindings would look for in another backend.
func (p *preparer) checkErrands() error {
	if len(p.config.ErrandProperties) == 0 {
		return nil
	}
	state, _ := normalised(p.config.ErrandProperties)["state"].(map[string]any)
	if kind := value.Text(state["type"]); kind != p.config.State.Type || kind == localBackend {
		return fmt.Errorf("errand_properties must have the state.type of the adapter, whose bindings read what errands made, and neither may be local; "+
			"the adapter has %q, errand_properties has %q", p.config.State.Type, kind)
	}
	return nil
}

// checkSecure refuses a service whose secrets, or sensitive outputs, need to know where the broker keeps them.
func (p *preparer) checkSecure(service *brokerpak.Service) error {
	if p.config.SecureManifests != nil {
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

// checkConfigs refuses a service that always returns a BOSH config to a broker that takes none, and tells of one whose requests will be
// refused when they need one.
func (p *preparer) checkConfigs(service *brokerpak.Service) error {
	bosh := service.Provision.Bosh
	if !p.config.DisableBoshConfigs || bosh == nil || len(bosh.Configs) == 0 {
		return nil
	}
	kinds := value.Keys(bosh.Configs)
	for _, kind := range kinds {
		if bosh.Configs[kind].If == nil {
			return fmt.Errorf("service %q returns a BOSH config (%s) for every instance: disable_bosh_configs, the broker's and the adapter's, must be false",
				service.Name, kind)
		}
	}
	p.warnf("service %q may return BOSH configs (%s); with disable_bosh_configs such requests are refused", service.Name, strings.Join(kinds, ", "))
	return nil
}

// prepare prepares all paks that are directories: the binaries of a zip lie elsewhere in each adapter's cache.
func (p *preparer) prepare(ctx context.Context) error {
	if _, err := p.manager(nil); err != nil { // makes the directories, that of a local state too
		return err
	}
	defer func() {
		if err := os.RemoveAll(p.trial); err != nil {
			p.logger.Warn("removing a temporary directory", "error", err)
		}
	}()
	for _, pak := range p.paks {
		if pak.IsZip() {
			p.warnf("pak %s is a zip and is not prepared; unpack it with service-adapter pak unpack", pak.Path)
		} else if err := p.pak(ctx, pak); err != nil {
			return err
		}
	}
	return nil
}

// preparer prepares with the configured state backend as long as it works.
type preparer struct {
	*session
	done *Preparation
	// trial is the directory of a local state that is used instead of a backend that is down; "" until it is needed.
	trial string
}

func (p *preparer) warnf(format string, args ...any) {
	p.done.Warnings = append(p.done.Warnings, fmt.Sprintf(format, args...))
}

// pak prepares the templates of a pak, and the directory in which every command looks at states.
func (p *preparer) pak(ctx context.Context, pak *brokerpak.Pak) error {
	usesTofu := func(service *brokerpak.Service) bool {
		return len(service.Provision.Templates)+len(service.Bind.Templates) > 0
	}
	if !slices.ContainsFunc(pak.Services, usesTofu) {
		return nil
	}
	err := p.initialise(ctx, pak, func(ctx context.Context, engine *tofu.Engine, installation opentofu.Installation) error {
		workspace, err := engine.Open(ctx, absentWorkspace)
		if err != nil {
			return err
		}
		_, err = workspace.State(ctx, installation)
		return errors.Join(err, workspace.Close())
	})
	if err != nil {
		return fmt.Errorf("preparing pak %s: %w", pak.Path, err)
	}
	for _, service := range pak.Services {
		provision, bind := &service.Provision, &service.Bind
		if err := errors.Join(p.action(ctx, pak, service.Name+" "+actionProvision, provision), p.action(ctx, pak, service.Name+" "+actionBind, bind)); err != nil {
			return err
		}
	}
	return nil
}

// action prepares the template of an action, when it has one.
func (p *preparer) action(ctx context.Context, pak *brokerpak.Pak, name string, action *brokerpak.Action) error {
	if len(action.Templates) == 0 {
		return nil
	}
	template := tofu.Template{Files: action.Templates, Inputs: action.InputNames()}
	err := p.initialise(ctx, pak, func(ctx context.Context, engine *tofu.Engine, installation opentofu.Installation) error {
		_, err := engine.Prepare(ctx, installation, template)
		return err
	})
	if err != nil {
		return fmt.Errorf("preparing the template of %s: %w", name, err)
	}
	p.done.Actions = append(p.done.Actions, name)
	return nil
}

// work is what is done with one state backend.
type work func(ctx context.Context, engine *tofu.Engine, installation opentofu.Installation) error

// initialise does some work with the configured backend. When that fails, the same work with a local state tells whose fault it is:
// the pak's, which is an error, or the backend's, which is a warning.
func (p *preparer) initialise(ctx context.Context, pak *brokerpak.Pak, do work) error {
	if p.trial != "" {
		return p.with(ctx, p.local(), pak, do)
	}
	err := p.with(ctx, p.session, pak, do)
	var failed *opentofu.Error
	if err == nil || !errors.As(err, &failed) || misconfigured(failed) || ctx.Err() != nil || p.config.State.Type == localBackend {
		return err
	}
	var tempErr error
	if p.trial, tempErr = os.MkdirTemp(p.config.CacheDir, ".trial-"); tempErr != nil {
		return errors.Join(err, tempErr)
	}
	if err := p.with(ctx, p.local(), pak, do); err != nil {
		return err
	}
	p.warnf("the state backend %s does not work now, so the rest is initialised when it is first used: %v", p.config.State.Type, err)
	return nil
}

// misconfigured recognises what OpenTofu says of a backend that it does not know and of settings that the backend does not take, before
// it asks the backend anything. What says something else counts as a backend that is down.
func misconfigured(err *opentofu.Error) bool {
	settings := regexp.MustCompile(`^(Unsupported backend type|Extraneous JSON object property|Incorrect attribute value type|` +
		`Invalid backend configuration|(Invalid|Missing) \S+ value)|required field is not set`)
	return settings.MatchString(err.Summary)
}

// local is the session with a temporary local state and a temporary cache.
func (p *preparer) local() *session {
	other := *p.session
	other.logger = slog.New(slog.DiscardHandler)
	other.config.CacheDir = filepath.Join(p.trial, "cache")
	other.config.State = StateConfig{Type: localBackend, Config: map[string]any{"dir": filepath.Join(p.trial, "state")}}
	return &other
}

// with does some work, within the budget of a command: later, a command will have no more.
func (p *preparer) with(ctx context.Context, s *session, pak *brokerpak.Pak, do work) error {
	ctx, cancel := lifecycle.WithBudget(ctx, s.config.Budget)
	defer cancel()
	manager, err := s.manager(nil) // variables that a pak requires are the broker's
	if err != nil {
		return err
	}
	installation, err := s.installation(ctx, pak, "")
	if err != nil {
		return err
	}
	return do(ctx, manager.Engine, installation)
}
