package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// versionScript is a program that runs OpenTofu, records its commands, and reports another version.
const versionScript = `#!/bin/sh
if [ "$1" = version ]; then
  %[1]s "$@" | sed 's/%[2]s/%[3]s/'
  exit
fi
echo "$1 $2" >>%[4]s
exec %[1]s "$@"
`

// recordingInstallation returns an installation of a version whose OpenTofu records its commands, and a function that
// reads them.
func (s site) recordingInstallation(version string) (opentofu.Installation, func() []string) {
	GinkgoHelper()
	i := installation()
	file, script := filepath.Join(filepath.Dir(s.cache), "commands"), filepath.Join(filepath.Dir(s.cache), "noting")
	Expect(os.WriteFile(script, fmt.Appendf(nil, versionScript, i.Binary, tofuVersion, version, file), 0o700)).To(
		Succeed())
	i.Binary, i.Version = script, version
	return i, func() []string {
		GinkgoHelper()
		var commands []string
		for line := range strings.Lines(string(readFile(file))) {
			first, second, _ := strings.Cut(strings.TrimSpace(line), " ")
			if first == "init" {
				continue
			}
			if !strings.HasPrefix(second, "-") {
				first += " " + second
			}
			commands = append(commands, first)
		}
		return commands
	}
}

// A version that was not tested may store states differently, so it must read and write them itself.
var _ = Describe("an OpenTofu", func() {
	life := func(ctx context.Context, kind, version string, only bool) []string {
		GinkgoHelper()
		s := newSite()
		s.store = newStore(ctx, kind)
		options := s.options()
		options.NoDirectAccess = only
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		i, commands := s.recordingInstallation(version)
		prepared, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.State(ctx, i)).To(BeNil())
		Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(engine.Workspaces(ctx, i)).To(Equal([]string{"b-1"}))
		state, err := engine.Peek(ctx, i, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		_, err = space.State(ctx, i)
		Expect(err).NotTo(HaveOccurred())
		Expect(space.TakeOver(ctx, i)).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Remove(ctx, i)).To(Succeed())
		Expect(s.store.contents()).To(BeEmpty())
		return commands()
	}

	for _, kind := range []string{"local", "pg"} {
		It("that is tested leaves the states to the adapter: "+kind, func(ctx context.Context) {
			commands := life(ctx, kind, tofuVersion, false)
			if kind == "local" {
				Expect(commands).To(Equal([]string{"apply", "state push", "destroy"}))
			} else {
				Expect(commands).To(Equal([]string{"apply", "destroy"}))
			}
		})

		for _, use := range []struct {
			name, version string
			only          bool
		}{
			{"that is newer than the tested ones", "1.99.0", false},
			{"that is used with NoDirectAccess", tofuVersion, true},
		} {
			It(use.name+" reads and writes the states itself: "+kind, func(ctx context.Context) {
				commands := life(ctx, kind, use.version, use.only)
				Expect(strings.Join(commands, ", ")).To(MatchRegexp(
					"^(state pull, workspace delete, )?apply, apply, state pull, workspace list, " +
						"state pull, state pull, state push, destroy, state pull, state push, workspace delete$"))
			})
		}
	}
})
