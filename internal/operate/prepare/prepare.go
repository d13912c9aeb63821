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

// A Result is the result of Run: the prepared directory, the actions whose templates were prepared, such as "redis
// bind", and warnings about templates that could not be prepared and about the configuration. Actions also contains the
// actions whose templates were only tried out with a temporary local state, because the state backend did not respond;
// a warning says so. Without prepared templates, Actions is empty.
type Result struct {
	// Dir is the prepared directory, the value for prepared_dir in a configuration.
	Dir string
	// Actions are the actions whose templates were prepared, or only tried out with a temporary local state, such as
	// "redis bind", in the order of the paks.
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

// Run initialises OpenTofu for the templates of all unpacked paks in the directory dir, which other processes then only
// read. dir must be an absolute path; "" means prepared_dir of the configuration. process supplies the environment and
// the stream for the log.
//
// Run also checks the configuration and the binaries of the paks, creates dir and the directory of a local state
// backend, unpacks damaged binaries of zip files again, and sets the umask of this process to 077. In two cases
// templates are not initialised in dir, but only when they are first used. Each is a warning in the result, not an
// error:
//   - A pak is a zip file. It is not prepared at all.
//   - The state backend does not respond within the time limit of a command. The template at hand and all later ones
//     are then only tried out with a temporary local state. The result lists their actions like prepared ones.
//
// Run returns ErrNoDirectory if the path is missing or relative. It returns another error if the configuration is
// invalid, if a pak or its lock is invalid or cannot be read, if its binaries differ from the lock or from those of
// an earlier call, if the settings of the state backend are rejected, if OpenTofu cannot initialise a template, if a
// directory cannot be written, or if ctx ends. The result is nil if the path is missing or relative, if the
// configuration is invalid, or if a pak cannot be opened; after any other error, such as that of a lock or a binary,
// it contains the templates prepared so far.
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

// preparePaks checks the binaries of each pak against its lock, if it has one, and prepares the pak if it is a
// directory. It adds the prepared actions and the warnings to p.result. A pak that is a zip file is not prepared,
// because a prepared directory depends on the paths of binaries, and those of a zip are unpacked into the cache
// directory: preparePaks adds a warning. It compares the binaries in the zip with the lock, and then unpacks them again
// if the copies in the cache directory are damaged.
//
// preparePaks first creates the directories of the cache and of a local state. At the end it removes the temporary
// local state; a failure of that is only logged.
//
// preparePaks returns the first error, and p.result keeps what was added before. The cases are:
//   - A directory cannot be created or is not safe to use, or the settings of the state backend or of its encryption
//     are invalid; see session.Session.Manager.
//   - A lock is invalid or cannot be read, or a binary differs from it or cannot be read.
//   - Damaged binaries cannot be unpacked, or a directory cannot be prepared; see repairExecutables and preparePak.
//   - ctx ends.
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

// A preparer prepares paks with the configured state backend, or with a temporary local one after the configured one
// did not respond. It adds the prepared actions and warnings to result. session, result and cacheDir must be set, so
// the zero value is not usable. The session must be open, and its configuration must have the prepared directory, to
// which the preparer writes its templates, as the cache directory. cacheDir is the cache directory that the operator
// configured, where the preparer repairs the unpacked binaries of zip files.
type preparer struct {
	session *session.Session
	result  *Result
	// cacheDir is the configured cache directory, in which other commands unpack the binaries of zip files.
	cacheDir string
	// localDir is the directory of the temporary local state, or "" as long as the configured backend responds.
	localDir string
}

// repairExecutables unpacks the binaries of pak, a zip file, into the configured cache directory again if the unpacked
// ones are damaged, missing or unreadable, and then adds a warning to the result. It does nothing if their directory
// does not exist, usually because the pak was never unpacked there. It returns an error if the binaries cannot be
// checked or unpacked, if another user owns the damaged binaries, or if ctx ends. It adds no warning then, and the
// damaged binaries may still be there, be removed or be replaced.
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

// warnf appends a warning, formatted as by fmt.Sprintf, to p.result.Warnings, which `prepare` prints. It writes no log.
func (p *preparer) warnf(format string, args ...any) {
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(format, args...))
}

// preparePak prepares pak, which must be a directory: it checks the binaries against the records of earlier calls,
// initialises OpenTofu in the empty directory that commands use to read states, and initialises the provision and bind
// templates of all services. It appends the names of the initialised actions, such as "redis bind", to
// p.result.Actions. It does nothing for a pak without templates.
//
// A state backend that does not respond is not an error, but a warning in the result. The templates are then only tried
// in a temporary directory, see initialise, and the names of their actions are appended to p.result.Actions all the
// same.
//
// preparePak returns an error if a binary was changed, is missing or cannot be read, if a record or a directory cannot
// be written, if the settings of the state backend are rejected, if OpenTofu cannot initialise a template, or if ctx
// ends. After a failed template it still tries the other one of the same service, and no other services. If both fail,
// their errors are joined. p.result.Actions keeps the actions added before.
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

// verifyExecutables compares OpenTofu, the providers and the other binaries of pak with the records of earlier calls in
// the prepared directory. It returns an error if the content of a binary differs from its record although the
// modification time is the same; the record stays, so that the next call returns the error again. Every binary that is
// new or has another modification time is recorded, also together with that error. verifyExecutables waits while
// another process builds the prepared directory of a template.
//
// verifyExecutables also returns an error if pak has no default OpenTofu for this platform, if a binary is missing or
// cannot be read, if the records cannot be locked or written, if the engine cannot be created (see
// session.Session.Manager), or if ctx ends. Records that cannot be read count as empty.
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

// prepareAction initialises the template of an action of pak with the pak's default OpenTofu, and then appends name,
// such as "redis bind", to p.result.Actions. It does nothing if the action has no template. After a state backend did
// not respond, it initialises the template only in a temporary directory, as a trial, and appends name all the same;
// see initialise.
//
// prepareAction returns an error that contains name, and does not append it, if OpenTofu is missing or cannot
// initialise the template, if the settings of the state backend are rejected, if a directory cannot be written, or if
// ctx ends.
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

// An engineTask is work of a preparer with the engine of one state backend and the default OpenTofu of a pak, such as
// the initialisation of a template. It must end when ctx ends. If OpenTofu fails, its error must be or wrap the
// *opentofu.Error, by which initialise decides about a second attempt. The task must be repeatable, because initialise
// may call it again with the engine of a temporary local state.
type engineTask func(ctx context.Context, engine *workspace.Engine, installation opentofu.Installation) error

// initialise runs task with the configured state backend and the default OpenTofu of pak. If OpenTofu fails and the
// backend may be the cause, it sets p.localDir to a new directory and runs the task again with a temporary local state
// and a temporary cache in it. Success then means that the backend does not respond: initialise adds a warning to the
// result and returns nil. If the second attempt fails as well, the pak is probably wrong, and initialise returns the
// error of that attempt.
//
// Once p.localDir is set, initialise runs every task only with the temporary local state, and returns its error.
// Whatever the task prepares there is removed with p.localDir, so it is only a trial.
//
// The error of the first attempt is returned without a second one if it is not an error of OpenTofu, if OpenTofu
// rejected the settings of the backend, if the configured backend is local, or if ctx ended. If the new directory
// cannot be created, initialise returns that error joined with the first one.
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

// misconfigured reports whether err means that OpenTofu rejected the type or the settings of the state backend before
// it connected to it. It decides only by err.Summary, the summary of OpenTofu's first error, such as "Unsupported
// backend type". Another error with such a summary counts as well, such as "Invalid default value for variable" in a
// template. misconfigured returns false for every other summary, which may mean that the backend does not respond. err
// must not be nil.
func misconfigured(err *opentofu.Error) bool {
	settings := regexp.MustCompile(`^(Unsupported backend type|Extraneous JSON object property|` +
		`Incorrect attribute value type|Invalid backend configuration|(Invalid|Missing) \S+ value)|` +
		`required field is not set`)
	return settings.MatchString(err.Summary)
}

// localSession returns a copy of the session that uses a temporary local state without encryption and a temporary
// cache, and writes no log. Both directories are below p.localDir, which must exist; the method Manager of the copy
// creates them. The caller must not close the copy, because it shares the paks with the original. The configuration
// of the original does not change.
func (p *preparer) localSession() *session.Session {
	other := *p.session
	other.Logger = slog.New(slog.DiscardHandler)
	other.Config.CacheDir = filepath.Join(p.localDir, "cache")
	dir := filepath.Join(p.localDir, "state")
	other.Config.State = config.State{Type: config.Local, Config: map[string]any{"dir": dir}}
	return &other
}

// withEngine runs task with the state backend of the session s and the default OpenTofu of pak, within the time limit
// of one command (budget of the configuration). It first creates the directories of the cache and of a local state.
// Required environment variables of paks may be unset. withEngine returns the error of the task. It returns an error
// without calling the task if the engine cannot be created (see session.Session.Manager), or if the pak's default
// OpenTofu is missing or cannot be unpacked.
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
