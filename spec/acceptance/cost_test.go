package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/hold"
)

// counted replaces the OpenTofu and the provider of the site's pak with scripts that record each of their starts.
func (s *site) counted() {
	GinkgoHelper()
	wrap := func(path, real, name string) {
		script := fmt.Sprintf("#!/bin/sh\necho \"%s\" >>%s\nexec %s \"$@\"\n", name, s.started(), real)
		Expect(os.Remove(path)).To(Succeed())
		Expect(os.WriteFile(path, []byte(script), 0o755)).To(Succeed())
	}
	wrap(s.bin(kit.Newest, "tofu"), kit.OpenTofuPath(kit.Newest), "$1 $2")
	wrap(s.bin("terraform-provider-directory_v1.0.0"), kit.Provider(GinkgoT(), "directory"), "provider")
}

// started returns the path of the file in which the scripts of counted record their starts.
func (s *site) started() string { return filepath.Join(s.dir, "started") }

// processesFor returns the processes that a command started: for each OpenTofu its first two arguments that are not
// options, and "provider" for each provider.
func (s *site) processesFor(command func() answer) []string {
	GinkgoHelper()
	Expect(os.WriteFile(s.started(), nil, 0o600)).To(Succeed())
	command()
	text, err := os.ReadFile(s.started())
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for line := range strings.Lines(string(text)) {
		first, second, _ := strings.Cut(strings.TrimSpace(line), " ")
		if second != "" && !strings.HasPrefix(second, "-") {
			first += " " + second
		}
		names = append(names, first)
	}
	return names
}

// Starting processes takes most of the time of a bind: OpenTofu takes 30 ms and a provider 40 ms, whatever they do.
var _ = Describe("the number of processes", func() {
	var b *broker

	// warm creates a first binding, so that later commands find all prepared directories.
	warm := func(ctx context.Context) {
		GinkgoHelper()
		b.site.counted()
		b.deploy(ctx, nil)
		Expect(b.bind(ctx, "bind-0", nil).Exit).To(Equal(0))
	}
	succeed := func(command func() answer) func() answer {
		return func() answer {
			GinkgoHelper()
			got := command()
			Expect(got.Exit).To(Equal(0), got.Stderr)
			return got
		}
	}

	DescribeTable("of a binding is minimal", func(ctx context.Context, encrypted bool) {
		b = newBroker(newSite("entries"))
		if encrypted {
			b.site.encrypted()
		}
		warm(ctx)
		Expect(b.site.processesFor(succeed(func() answer {
			return b.bind(ctx, "bind-1", nil)
		}))).To(ConsistOf("provider", "apply"))
		Expect(b.site.processesFor(succeed(func() answer {
			return b.unbind(ctx, "bind-1")
		}))).To(ConsistOf("provider", "destroy"))
		Expect(b.bind(ctx, "bind-1", object{"failure": diskFull}).Exit).To(Equal(1),
			"which prepares the push of a state")
		Expect(b.site.processesFor(func() answer { return b.bind(ctx, "bind-1", object{"failure": diskFull}) })).
			To(ConsistOf("provider", "apply", "state push", "provider", "destroy"))
	},
		Entry("with states in clear text", false),
		Entry("with encrypted states", kit.Slow(), true),
	)

	It("of a binding is larger if only OpenTofu may read and write states", func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.site.set(map[string]any{"state": map[string]any{
			"config": map[string]any{"dir": b.site.state()},
			"direct": false,
		}})
		warm(ctx)
		Expect(b.site.processesFor(succeed(func() answer { return b.bind(ctx, "bind-1", nil) }))).
			To(ConsistOf("apply", "provider", "apply", "state pull"))
		Expect(b.site.processesFor(succeed(func() answer { return b.unbind(ctx, "bind-1") }))).
			To(ConsistOf("state pull", "provider", "destroy", "state pull", "state push", "workspace delete"))
		b.site.expectNoProcesses()
	})

	It("is 0 for commands that need no OpenTofu", func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		warm(ctx)
		Expect(b.site.processesFor(func() answer { return b.deploy(ctx, nil) })).To(BeEmpty())
		Expect(b.site.processesFor(func() answer { return b.unbind(ctx, "bind-2") })).To(BeEmpty())
	})

	It("of an instance with a provision template is 0 as long as no input of the template changes",
		func(ctx context.Context) {
			b = newProvisionedBroker()
			warm(ctx)
			Expect(b.site.processesFor(func() answer { b.check(ctx); return answer{} })).To(BeEmpty())
			Expect(b.site.processesFor(func() answer { return b.deploy(ctx, nil) })).To(BeEmpty())
			Expect(b.site.processesFor(func() answer { return b.deploy(ctx, object{"content": "new"}) })).
				To(ConsistOf("apply", "provider", "apply"),
					"one apply stores the new record, the next applies the new template")
		})
})

// traced matches a line of strace with a call that waits for a disk.
var traced = regexp.MustCompile(`(?m)^\d+ +\w*sync\w*\(.*`)

var _ = Describe("the adapter", func() {
	// A binding must survive a crash of the machine. The reservation therefore syncs the state and its copy, and their
	// names in two directories. After the apply, the adapter syncs the state and its copy again, and one directory. A
	// deletion needs no sync, because it can be repeated.
	It("waits for the disk only when it reserves a binding and when all resources have been created",
		func(ctx context.Context) {
			strace := hold.Strace()
			b := newBroker(newSite("entries"))
			b.deploy(ctx, nil)
			Expect(b.bind(ctx, "bind-0", nil).Exit).To(Equal(0))
			for _, call := range []struct {
				command    string
				parameters map[string]any
				syncs      int
			}{
				{generateManifest, b.Generate(object{}), 0},
				{createBinding, b.bindParameters("bind-1", nil), 7},
				{deleteBinding, b.unbindParameters("bind-1"), 0},
			} {
				file := filepath.Join(b.site.dir, "trace")
				input, err := odb.Input(call.command, call.parameters)
				Expect(err).NotTo(HaveOccurred())
				command := exec.CommandContext(ctx, strace, "-f", "-qq", "-b", "execve", "-e", "signal=none",
					"-e", "trace=openat,fsync,fdatasync,sync,syncfs,msync", "-o", file, adapterBinary, call.command)
				command.Env, command.Dir, command.Stdin = b.site.environment(), b.site.working, strings.NewReader(input)
				output, err := command.CombinedOutput()
				if strings.Contains(string(output), "ptrace") {
					kit.Missing(GinkgoT(), "strace may not trace here; run the test where ptrace is allowed")
				}
				Expect(err).NotTo(HaveOccurred(), string(output))
				text, err := os.ReadFile(file)
				Expect(err).NotTo(HaveOccurred())
				Expect(string(text)).To(ContainSubstring("service-adapter.yml"), "the adapter was traced")
				Expect(traced.FindAllString(string(text), -1)).To(HaveLen(call.syncs), call.command)
			}
		})
})
