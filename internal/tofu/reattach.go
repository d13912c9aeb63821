package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"service-adapter/internal/hclfile"
)

// OpenTofu starts and stops a provider for each step of a run: to read its schema, to validate, to plan and to apply. So the engine
// starts the providers of a template itself, once, and tells OpenTofu where they listen.
//
// A provider that is configured more than once, with aliases for example, is left to OpenTofu, since one process has one
// configuration; so is one that does not start in the usual way. A process is kept for a next run in the same place only after a run
// that succeeded: it may be stuck, or hold a configuration that is wrong.
//
// Each of these processes has a supervisor that kills it as soon as neither this process nor OpenTofu runs any more, so none
// outlives the run, even when this process is killed; and OpenTofu, which goes on then, has its providers until it ends.

// reattachVariable tells OpenTofu where providers listen.
const reattachVariable = "TF_REATTACH_PROVIDERS"

// service is the providers that run for one place of a workspace.
type service struct {
	prepared *Prepared
	in       place
	// lifeline is the end of a pipe that OpenTofu inherits. The providers are killed when nobody holds it any more.
	lifeline *os.File

	starting sync.WaitGroup
	mutex    sync.Mutex
	servers  map[string]*server // by address
}

// StartProviders starts the providers of a template for an Apply that follows, so that they are ready when a reservation is made. It
// does not wait for them. Whatever goes wrong is left to that Apply.
func (w *Workspace) StartProviders(ctx context.Context, p *Prepared) {
	// A state that was not saved lies where the providers would run.
	if unsaved, err := w.unsaved(); err != nil || unsaved != "" {
		return
	}
	if err := w.enter(ctx, p, applyPlace); err != nil {
		w.engine.logger.Debug("starting providers", "workspace", w.name, "error", err)
	}
}

// enter makes the directory of a place, and starts the providers that run there. Those of another place, and of another template, end.
func (w *Workspace) enter(ctx context.Context, p *Prepared, in place) error {
	works := in.works()
	if s := w.serving; works && s != nil && s.in == in && s.prepared.dir == p.dir && s.prepared.installation.Binary == p.installation.Binary {
		return nil // The directory is theirs, and as the run before left it.
	}
	if works {
		w.stopProviders()
	}
	if err := link(filepath.Join(p.dir, in.variant()), filepath.Join(w.dir, string(in))); err != nil {
		return err
	}
	if !works || len(p.shared) == 0 {
		return nil
	}
	return w.serve(ctx, p, in)
}

// serve begins to start the providers of a place.
func (w *Workspace) serve(ctx context.Context, p *Prepared, in place) error {
	env, err := w.environment(true)
	if err != nil {
		return err
	}
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	s := &service{prepared: p, in: in, lifeline: writing, servers: map[string]*server{}}
	w.serving = s
	all := w.engine.environment(p.installation, env)
	for n, shared := range p.shared {
		s.starting.Go(func() {
			started, err := startProvider(ctx, startup{
				file: shared.File, dir: filepath.Join(w.dir, string(in)), env: slices.Clone(all),
				output: filepath.Join(w.dir, "provider-"+strconv.Itoa(n)+".stderr"), lock: w.lease.descriptor(), lifeline: reading,
			})
			if err != nil {
				w.engine.logger.Debug("leaving a provider to OpenTofu", "workspace", w.name, "provider", shared.Address, "error", err)
				return
			}
			s.mutex.Lock()
			defer s.mutex.Unlock()
			s.servers[shared.Address] = started
		})
	}
	go func() {
		s.starting.Wait()
		_ = reading.Close()
	}()
	return nil
}

// attach waits for the providers of a place and tells OpenTofu about them. The lease knows them from then on.
func (w *Workspace) attach(in place, c *command) error {
	s := w.serving
	if s == nil || s.in != in {
		return nil
	}
	s.starting.Wait()
	all := map[string]listening{}
	var groups []process
	for address, server := range s.servers {
		if err := server.reachable(); err != nil {
			w.engine.logger.Debug("leaving a provider to OpenTofu", "workspace", w.name, "provider", address, "error", err)
			server.stop()
			delete(s.servers, address)
			continue
		}
		groups = append(groups, identify(server.Pid))
		all[address] = server.listening
	}
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	c.env[reattachVariable], c.lifeline = string(text), s.lifeline
	return w.lease.serves(groups)
}

// stopProviders ends the providers that run.
func (w *Workspace) stopProviders() {
	s := w.serving
	if s == nil {
		return
	}
	w.serving = nil
	s.starting.Wait()
	for _, server := range s.servers {
		server.stop()
	}
	_ = s.lifeline.Close()
}

// sharedProvider is a provider that one process can serve for a whole run.
type sharedProvider struct {
	Address string // as the template has it
	File    string
}

// lockedProvider is an entry of a dependency lock file.
const lockedProvider = `(?m)^provider "([^"]+)" \{\n  version\s*= "([^"]+)"`

// sharedProviders finds the providers of an initialised template that have one configuration each. As addresses and as local names
// there are equally many of them, unless two names are the same provider, which then has two configurations.
func sharedProviders(i Installation, m *hclfile.Module, lockFile string) ([]sharedProvider, error) {
	text, err := os.ReadFile(lockFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	locked := regexp.MustCompile(lockedProvider).FindAllSubmatch(text, -1)
	names := 0
	for name := range m.Providers {
		if name != "terraform" {
			names++
		}
	}
	if m.Aliases || len(m.Modules) > 0 || len(locked) != names {
		return nil, nil
	}
	var shared []sharedProvider
	for _, entry := range locked {
		for _, p := range i.Providers {
			known, err := p.names()
			if err != nil {
				return nil, err
			}
			if slices.Contains(known, string(entry[1])) && p.Version == string(entry[2]) {
				shared = append(shared, sharedProvider{Address: string(entry[1]), File: p.File})
				break
			}
		}
	}
	return shared, nil
}
