// Package provider starts the providers of a template once for all runs of a command.
//
// OpenTofu starts and stops a provider for each step of a run: to read its schema, to validate, to plan and to apply. Here each is
// started once, and OpenTofu is told where it listens.
//
// A provider that is configured more than once, with aliases for example, is left to OpenTofu, since one process has one
// configuration; so is one that does not start in the usual way. A process is kept for a next run in the same place only after a run
// that succeeded: it may be stuck, or hold a configuration that is wrong.
//
// Each of these processes has a supervisor that kills it as soon as neither this process nor OpenTofu runs any more, so none
// outlives the run, even when this process is killed; and OpenTofu, which goes on then, has its providers until it ends.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"service-adapter/internal/hclfile"
	"service-adapter/internal/opentofu"
)

// ReattachVariable is the environment variable that tells OpenTofu where providers listen.
const ReattachVariable = "TF_REATTACH_PROVIDERS"

// Group is the providers that run for one directory.
type Group struct {
	// Lifeline is the end of a pipe that OpenTofu has to inherit. The providers are killed when nobody holds it any more.
	Lifeline *os.File

	logger   *slog.Logger
	starting sync.WaitGroup
	mutex    sync.Mutex
	servers  map[string]*server // by address
}

// Options say how providers are started.
type Options struct {
	// Dir is the working directory, that of OpenTofu, and Env its environment, which has the directory for the sockets.
	Dir string
	Env []string
	// Output is the prefix of the files that get what the providers write to stderr.
	Output string
	// Lock is inherited by the providers: it is held as long as one of them runs.
	Lock   *os.File
	Logger *slog.Logger
}

// Start begins to start providers and does not wait for them. What goes wrong with one of them is logged, and the provider left to
// OpenTofu.
func Start(ctx context.Context, providers []Shared, o Options) (*Group, error) {
	reading, writing, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g := &Group{Lifeline: writing, logger: o.Logger, servers: map[string]*server{}}
	for n, shared := range providers {
		g.starting.Go(func() {
			started, err := o.serve(ctx, shared.File, o.Output+strconv.Itoa(n)+".stderr", reading)
			if err != nil {
				g.logger.Debug("leaving a provider to OpenTofu", "provider", shared.Address, "error", err)
				return
			}
			g.mutex.Lock()
			defer g.mutex.Unlock()
			g.servers[shared.Address] = started
		})
	}
	go func() {
		g.starting.Wait()
		_ = reading.Close()
	}()
	return g, nil
}

// Reattach waits for the providers and returns the value of ReattachVariable, and the leaders of their process groups. The value is "" when
// none of them runs.
func (g *Group) Reattach() (value string, leaders []opentofu.Process, err error) {
	g.starting.Wait()
	all := map[string]listening{}
	for address, server := range g.servers {
		if err := server.reachable(); err != nil {
			g.logger.Debug("leaving a provider to OpenTofu", "provider", address, "error", err)
			server.stop()
			delete(g.servers, address)
			continue
		}
		leaders = append(leaders, opentofu.Identify(server.Pid))
		all[address] = server.listening
	}
	if len(all) == 0 {
		return "", nil, nil
	}
	text, err := json.Marshal(all)
	return string(text), leaders, err
}

// Stop ends the providers.
func (g *Group) Stop() {
	g.starting.Wait()
	for _, server := range g.servers {
		server.stop()
	}
	_ = g.Lifeline.Close()
}

// Shared is a provider that one process can serve for a whole run.
type Shared struct {
	Address string // as the template has it
	File    string
}

// lockedProvider is an entry of a dependency lock file.
const lockedProvider = `(?m)^provider "([^"]+)" \{\n  version\s*= "([^"]+)"`

// FindShared finds the providers of an initialised template that have one configuration each. As addresses and as local names
// there are equally many of them, unless two names are the same provider, which then has two configurations.
func FindShared(i opentofu.Installation, m *hclfile.Module, lockFile string) ([]Shared, error) {
	text, err := os.ReadFile(lockFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	locked := regexp.MustCompile(lockedProvider).FindAllSubmatch(text, -1)
	names := len(m.Providers)
	if _, builtIn := m.Providers["terraform"]; builtIn {
		names--
	}
	if m.Aliases || len(m.Modules) > 0 || len(locked) != names {
		return nil, nil
	}
	var shared []Shared
	for _, entry := range locked {
		address, version := string(entry[1]), string(entry[2])
		n := slices.IndexFunc(i.Providers, func(p opentofu.Provider) bool { return p.Version == version && p.Is(opentofu.Provider{FQN: address}) })
		if n >= 0 {
			shared = append(shared, Shared{Address: address, File: i.Providers[n].File})
		}
	}
	return shared, nil
}
