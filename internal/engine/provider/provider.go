// Package provider starts OpenTofu's providers once for all runs of a command of the adapter. Otherwise OpenTofu would
// start and stop each provider several times in a run: to read its schema, to validate, to plan and to apply. The
// environment variable TF_REATTACH_PROVIDERS gives OpenTofu the addresses of the processes.
//
// OpenTofu starts two kinds of providers itself. The first are those with several configurations, such as aliases,
// because a process has a single configuration. The second are those that fail to start here. The caller keeps a
// process for the next run in the same directory only after a run that succeeded: after a failed one the process may
// hang or have a wrong configuration.
//
// Each process has a supervisor that kills it when neither the adapter nor OpenTofu runs. A provider therefore never
// outlives the run. If the adapter is killed, OpenTofu continues, and has its providers until it ends.
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

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/hclfile"
)

// ReattachVariable is the environment variable that gives OpenTofu the addresses of running providers.
const ReattachVariable = "TF_REATTACH_PROVIDERS"

// A Group is a set of provider processes that run for OpenTofu in one working directory. Start returns it, and Stop
// must be called. Its Lifeline is a pipe that OpenTofu must inherit, so that the providers are killed when both the
// adapter and OpenTofu have ended. Reattach and Stop must not be called concurrently. The zero value cannot be used.
type Group struct {
	// Lifeline is the writing end of a pipe that OpenTofu must inherit. The supervisors kill the providers when all
	// processes that hold it have closed it or ended.
	Lifeline *os.File

	logger   *slog.Logger
	starting sync.WaitGroup
	mutex    sync.Mutex
	servers  map[string]*server // by the address of the provider
}

// Options are the properties of the provider processes that Start starts: the working directory and the environment,
// the prefix of the paths of the files for their stderr, an open file whose lock they inherit, and the logger for
// providers that could not be started. All fields are required.
type Options struct {
	// Dir is the working directory, which is also that of OpenTofu.
	Dir string
	// Env is the complete environment. Its TMPDIR is the directory for the sockets, which must be private.
	Env []string
	// Output is the prefix of the paths of the files that receive the stderr of the providers.
	Output string
	// Lock is a file that the providers inherit, so that its lock is held as long as one of them runs.
	Lock *os.File
	// Logger receives debug events about providers that could not be started.
	Logger *slog.Logger
}

// OutputPath returns the path of the file that receives the stderr of one provider: prefix, n in decimal and ".stderr",
// for example "/dir/provider0.stderr". prefix is that of Options.Output. n is the index, from 0, of the provider in the
// list that Start receives.
func OutputPath(prefix string, n int) string { return prefix + strconv.Itoa(n) + ".stderr" }

// Start starts providers in the background and returns without waiting for them; Group.Reattach waits. The stderr of
// each one goes to the file that OutputPath names. A provider that fails to start, or does not report its address
// within handshakeTimeout, 5 seconds, and before the context ends, is logged and omitted from the group, so that
// OpenTofu starts it. A provider that has reported its address runs until Stop, also if the context ends, or until no
// process holds Group.Lifeline. Start returns an error only if it cannot create a pipe. The list of providers may be
// empty.
func Start(ctx context.Context, providers []Shared, o Options) (*Group, error) {
	supervised, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g := &Group{Lifeline: lifeline, logger: o.Logger, servers: map[string]*server{}}
	for n, shared := range providers {
		g.starting.Go(func() {
			started, err := o.serve(ctx, shared.File, OutputPath(o.Output, n), supervised)
			if err != nil {
				g.logger.Debug("letting OpenTofu start a provider itself", "provider", shared.Address, "error", err)
				return
			}
			g.mutex.Lock()
			defer g.mutex.Unlock()
			g.servers[shared.Address] = started
		})
	}
	go func() {
		g.starting.Wait()
		_ = supervised.Close()
	}()
	return g, nil
}

// Reattach waits until all providers have started or failed to start. It returns the value of the environment variable
// TF_REATTACH_PROVIDERS for OpenTofu, a JSON object from provider addresses to sockets, and the leaders of the
// providers' process groups, in no particular order. Providers that accept no connection are stopped, logged and
// removed from the group; OpenTofu then starts them itself. The value is "" and the leaders are nil if no provider
// runs. Reattach may be called again before each run. It returns an error only if the JSON object cannot be encoded.
func (g *Group) Reattach() (value string, leaders []opentofu.Process, err error) {
	g.starting.Wait()
	addresses := map[string]reattachConfig{}
	for address, server := range g.servers {
		if err := server.reachable(); err != nil {
			g.logger.Debug("letting OpenTofu start a provider itself", "provider", address, "error", err)
			server.stop()
			delete(g.servers, address)
			continue
		}
		leaders = append(leaders, opentofu.Identify(server.Pid))
		addresses[address] = server.reattachConfig
	}
	if len(addresses) == 0 {
		return "", nil, nil
	}
	text, err := json.Marshal(addresses)
	return string(text), leaders, err
}

// Stop waits until all providers have started or failed to start, then kills them, waits until they have ended, and
// closes the Lifeline. It must be called once, also for a group without providers. No run of OpenTofu may be using the
// providers.
func (g *Group) Stop() {
	g.starting.Wait()
	for _, server := range g.servers {
		server.stop()
	}
	_ = g.Lifeline.Close()
}

// Shared is a provider of a template that a single process can serve for all runs, because the template configures it
// only once. It consists of the provider's address, as HOST/NAMESPACE/TYPE, and the path of its executable.
type Shared struct {
	Address string // host/namespace/type, as in the dependency lock file
	File    string // the path of the executable
}

// lockedProvider matches the head of a provider's entry in a dependency lock file: the address and the version.
const lockedProvider = `(?m)^provider "([^"]+)" \{\n  version\s*= "([^"]+)"`

// FindShared returns the providers of an initialised template that a single process can serve, in the order of the lock
// file. i is the installation that contains the executables, m is the parsed template, and lockFile is the path of the
// template's dependency lock file. Providers that the installation does not contain in the locked version are left out.
// FindShared returns an error only if the lock file exists and cannot be read.
//
// The result is nil without an error if the lock file does not exist or no provider remains. It is also nil if a
// provider may have several configurations: if the template has provider aliases or calls modules, or if the number of
// its local provider names, without the built-in terraform, is not the number of providers in the lock file. Two of the
// names may then refer to the same provider.
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
		n := slices.IndexFunc(i.Providers, func(p opentofu.Provider) bool {
			return p.Version == version && p.SameProvider(opentofu.Provider{FQN: address})
		})
		if n >= 0 {
			shared = append(shared, Shared{Address: address, File: i.Providers[n].File})
		}
	}
	return shared, nil
}
