// Package prepare initialises the templates of paks before they are used, and checks the configuration, the binaries of
// the paks and the state backend.
package prepare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"service-adapter/adapter/config"
	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// A Result is the result of Run: the templates that were prepared, and warnings about the others and the configuration.
type Result struct {
	// Dir is the prepared directory, the value for prepared_dir in a configuration.
	Dir string
	// Actions are the actions whose templates were prepared, such as "redis bind", in the order of the paks.
	Actions []string
	// Warnings describe what could not be prepared, and is therefore initialised at its first use, and which requests
	// will be rejected because of the configuration.
	Warnings []string
}

// absentWorkspace is the name of a workspace that never exists. Reading it shows whether the state backend responds.
const absentWorkspace = "prepare"

// ErrNoDirectory reports that neither the caller nor the configuration names the directory for Run as an absolute
// path.
var ErrNoDirectory = errors.New("preparing needs an absolute path: --dir or the configuration's prepared_dir")

// Run initialises the templates of all unpacked paks in a directory, which other processes then only read. It also
// checks the configuration and the binaries of the paks, and unpacks damaged binaries of zip files again. A dir of ""
// is the prepared_dir of the configuration; the error is ErrNoDirectory if the path is missing or relative. Run returns
// another error if the configuration, a pak or a template is wrong, or if the directory or the local state cannot be
// written. A state backend that does not respond within the budget only causes a warning. The result is nil if there is
// no directory, if a pak cannot be opened or if the configuration is wrong; after any other error it contains what was
// prepared so far.
func Run(ctx context.Context, process session.Process, dir string) (*Result, error) {
	s := session.New(process, "prepare")
	var result *Result
	err := s.Run(func() (err error) {
		if dir = cmp.Or(dir, s.Config.PreparedDir); !filepath.IsAbs(dir) {
			return ErrNoDirectory
		}
		checks := checker{session: s}
		if err := checks.check(); err != nil {
			return fmt.Errorf("checking the configuration: %w", err)
		}
		p := &preparer{
			session: s, result: &Result{Dir: dir, Warnings: checks.warnings}, cacheDir: s.Config.CacheDir,
		}
		s.Config.CacheDir, s.Config.PreparedDir, result = dir, "", p.result
		return p.preparePaks(ctx)
	})
	return result, err
}

// preparePaks prepares all paks that are directories. Paks that are zip files cannot be prepared, because the path of
// their binaries, on which a prepared directory depends, is in the cache directory; for these, it adds a warning and
// unpacks damaged binaries again. The binaries of each pak must have the digests in its lock, if it has one. It returns
// the first error, and removes the temporary local state.
func (p *preparer) preparePaks(ctx context.Context) error {
	if _, err := p.session.Manager(nil); err != nil { // creates the directories of the cache and of a local state
		return err
	}
	defer func() {
		if err := os.RemoveAll(p.localDir); err != nil {
			p.session.Logger.Warn("removing a temporary directory", "error", err)
		}
	}()
	platform := brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, pak := range p.session.Catalog.Paks {
		if err := pak.Verify(ctx, pak.Files(), &platform); err != nil {
			return err
		}
		if pak.IsZip() {
			p.warnf("pak %s is a zip and is not prepared; unpack it with service-adapter pak unpack", pak.Path)
			if err := p.repairExecutables(ctx, pak); err != nil {
				return err
			}
		} else if err := p.preparePak(ctx, pak); err != nil {
			return err
		}
	}
	return nil
}

// A preparer prepares paks with the configured state backend, or with a temporary local one if the backend does not
// respond. It adds the prepared actions and warnings to result.
type preparer struct {
	session *session.Session
	result  *Result
	// cacheDir is the configured cache directory, in which other commands unpack the binaries of zip files.
	cacheDir string
	// localDir is the directory of the temporary local state, or "" as long as the configured backend responds.
	localDir string
}

// repairExecutables unpacks the binaries of a zip file again if they are damaged, and adds a warning about it. Binaries
// that were never unpacked are not an error. It returns an error if the binaries cannot be checked or unpacked.
func (p *preparer) repairExecutables(ctx context.Context, pak *brokerpak.Pak) error {
	repaired, err := pak.RepairExecutables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, p.cacheDir)
	if err != nil {
		return fmt.Errorf("checking the binaries of pak %s: %w", pak.Path, err)
	}
	if repaired {
		p.warnf("the unpacked binaries of pak %s were damaged and were unpacked again", pak.Path)
	}
	return nil
}

// warnf adds a warning, formatted as by fmt.Sprintf, to the result.
func (p *preparer) warnf(format string, args ...any) {
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(format, args...))
}

// preparePak checks the binaries of a pak, initialises the empty directory that commands use to read states, and
// prepares the templates of the pak. A pak without templates needs none of these and is left out. It returns an error
// if a binary was changed or cannot be read, or if OpenTofu cannot initialise a template; see initialise. The prepared
// templates are added to the actions of the result.
func (p *preparer) preparePak(ctx context.Context, pak *brokerpak.Pak) error {
	usesTofu := func(service *brokerpak.Service) bool {
		return len(service.Provision.Templates)+len(service.Bind.Templates) > 0
	}
	if !slices.ContainsFunc(pak.Services, usesTofu) {
		return nil
	}
	if err := p.verifyExecutables(ctx, pak); err != nil {
		return fmt.Errorf("checking the binaries of pak %s: %w", pak.Path, err)
	}
	err := p.initialise(ctx, pak, func(
		ctx context.Context, engine *workspace.Engine, installation opentofu.Installation,
	) error {
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
		provisionErr := p.prepareAction(ctx, pak, service.Name+" "+"provision", provision)
		bindErr := p.prepareAction(ctx, pak, service.Name+" "+"bind", bind)
		if err := errors.Join(provisionErr, bindErr); err != nil {
			return err
		}
	}
	return nil
}

// verifyExecutables returns an error if a binary of a pak differs from the one that an earlier call recorded in the
// prepared directory, or if it cannot be read. A binary with another modification time counts as replaced and is
// recorded again.
func (p *preparer) verifyExecutables(ctx context.Context, pak *brokerpak.Pak) error {
	manager, err := p.session.Manager(nil)
	if err != nil {
		return err
	}
	installation, err := p.session.Installation(ctx, pak, "")
	if err != nil {
		return err
	}
	return manager.Engine.VerifyBinaries(ctx, installation)
}

// prepareAction prepares the template of an action of a pak with the pak's default OpenTofu, and adds name, such as
// "redis bind", to the prepared actions. It does nothing if the action has no template. The error names the action; see
// initialise for the causes.
func (p *preparer) prepareAction(ctx context.Context, pak *brokerpak.Pak, name string, action *brokerpak.Action) error {
	if len(action.Templates) == 0 {
		return nil
	}
	template := templates.Template{Files: action.Templates, Inputs: action.InputNames()}
	err := p.initialise(ctx, pak, func(
		ctx context.Context, engine *workspace.Engine, installation opentofu.Installation,
	) error {
		_, err := engine.Prepare(ctx, installation, template)
		return err
	})
	if err != nil {
		return fmt.Errorf("preparing the template of %s: %w", name, err)
	}
	p.result.Actions = append(p.result.Actions, name)
	return nil
}

// An engineTask is work that is done with the engine of one state backend and the default OpenTofu of a pak. initialise
// may call it again with another engine.
type engineTask func(ctx context.Context, engine *workspace.Engine, installation opentofu.Installation) error

// initialise runs a task with the configured state backend. If OpenTofu fails, it runs the task again with a temporary
// local state to find the cause. If that fails too, the pak is wrong, and initialise returns the error. Otherwise the
// backend does not respond; this only adds a warning, and later tasks use the local state only. Errors of other kinds,
// those of a backend whose settings are wrong, and any error of the local backend or after the end of ctx, are returned
// without a second attempt.
func (p *preparer) initialise(ctx context.Context, pak *brokerpak.Pak, task engineTask) error {
	if p.localDir != "" {
		return p.withEngine(ctx, p.localSession(), pak, task)
	}
	err := p.withEngine(ctx, p.session, pak, task)
	var failed *opentofu.Error
	if err == nil || !errors.As(err, &failed) || misconfigured(failed) ||
		ctx.Err() != nil || p.session.Config.State.Type == config.Local {
		return err
	}
	var tempErr error
	if p.localDir, tempErr = os.MkdirTemp(p.session.Config.CacheDir, ".trial-"); tempErr != nil {
		return errors.Join(err, tempErr)
	}
	if err := p.withEngine(ctx, p.localSession(), pak, task); err != nil {
		return err
	}
	p.warnf("the state backend %s does not work now, so the rest is initialised when it is first used: %v",
		p.session.Config.State.Type, err)
	return nil
}

// misconfigured reports whether OpenTofu rejected the type or the settings of the backend before it connected to it,
// according to the summary of its message. Any other error counts as a backend that does not respond.
func misconfigured(err *opentofu.Error) bool {
	settings := regexp.MustCompile(`^(Unsupported backend type|Extraneous JSON object property|` +
		`Incorrect attribute value type|Invalid backend configuration|(Invalid|Missing) \S+ value)|` +
		`required field is not set`)
	return settings.MatchString(err.Summary)
}

// localSession returns a copy of the session with a temporary local state, a temporary cache and no log. The state and
// the cache are below p.localDir, which must exist. The copy must not be closed.
func (p *preparer) localSession() *session.Session {
	other := *p.session
	other.Logger = slog.New(slog.DiscardHandler)
	other.Config.CacheDir = filepath.Join(p.localDir, "cache")
	dir := filepath.Join(p.localDir, "state")
	other.Config.State = config.State{Type: config.Local, Config: map[string]any{"dir": dir}}
	return &other
}

// withEngine runs a task with the state backend of a session and the default OpenTofu of a pak, within the budget of
// one command, because a command later needs the same time. It returns the error of the task, or of creating the engine
// or finding the OpenTofu.
func (p *preparer) withEngine(ctx context.Context, s *session.Session, pak *brokerpak.Pak, task engineTask) error {
	ctx, cancel := lifecycle.WithBudget(ctx, s.Config.Budget)
	defer cancel()
	manager, err := s.Manager(nil) // nil: only the broker's environment contains the required variables
	if err != nil {
		return err
	}
	installation, err := s.Installation(ctx, pak, "")
	if err != nil {
		return err
	}
	return task(ctx, manager.Engine, installation)
}
