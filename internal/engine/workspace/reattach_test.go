package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// twoProviders is a template with resources of a provider of protocol 6 and of one of protocol 5.
const twoProviders = oneEntry + `
resource "random_password" "one" { length = 20 }
output "password" { value = random_password.one.result }
`

// countingInstallation returns an installation whose providers record each of their starts in a file. Before they
// start, they run a shell script, in which $engine is set if the engine starts the provider.
func countingInstallation(dir, before string) opentofu.Installation {
	GinkgoHelper()
	i := installation()
	for n, p := range i.Providers {
		script := fmt.Sprintf("#!/bin/sh\nengine=${PLUGIN_CLIENT_CERT:+no}\n"+
			"echo $$ >>%s/%s.starts\n%s\nexec %s \"$@\"\n",
			dir, filepath.Base(p.File), before, p.File)
		i.Providers[n].File = filepath.Join(dir, filepath.Base(p.File))
		Expect(os.WriteFile(i.Providers[n].File, []byte(script), 0o700)).To(Succeed())
	}
	return i
}

// startedPIDs returns the process ids of all starts of a provider.
func startedPIDs(dir, name string) []int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(dir, "terraform-provider-"+name+".starts"))
	if os.IsNotExist(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	var ids []int
	for line := range strings.Lines(string(text)) {
		id, err := strconv.Atoi(strings.TrimSpace(line))
		Expect(err).NotTo(HaveOccurred())
		ids = append(ids, id)
	}
	return ids
}

// forgetStarts removes the records of earlier starts.
func forgetStarts(dir string) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(dir, "*.starts"))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		Expect(os.Remove(file)).To(Succeed())
	}
}

var _ = Describe("providers", func() {
	var (
		s      site
		dir    string
		engine *workspace.Engine
		i      opentofu.Installation
		space  *workspace.Workspace
	)

	// with prepares a template for providers that run a script before they start, and reserves a workspace.
	with := func(ctx context.Context, before, text string) *templates.Prepared {
		GinkgoHelper()
		i = countingInstallation(dir, before)
		prepared, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": text}})
		Expect(err).NotTo(HaveOccurred())
		space = open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
		forgetStarts(dir)
		return prepared
	}

	BeforeEach(func() {
		s, dir, space = newSite(), GinkgoT().TempDir(), nil
		engine = s.engine()
	})

	AfterEach(func() {
		if space != nil {
			Expect(space.Close()).To(Succeed())
		}
		for _, name := range []string{"directory", "random"} {
			for _, pid := range startedPIDs(dir, name) {
				Expect(hasEnded(pid)()).To(BeTrue())
			}
		}
	})

	It("are started once per apply and destroy, if the template uses them", func(ctx context.Context) {
		prepared := with(ctx, "", twoProviders)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(startedPIDs(dir, "directory")).To(HaveLen(1))
		Expect(startedPIDs(dir, "random")).To(HaveLen(1))
		outputs, err := space.Outputs(ctx, prepared)
		Expect(err).NotTo(HaveOccurred())
		Expect(outputs["password"]).To(HaveLen(20))
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(startedPIDs(dir, "directory")).To(HaveLen(2))
		Expect(space.Remove(ctx, i)).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())

		prepared = with(ctx, "", oneEntry)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(startedPIDs(dir, "directory")).To(HaveLen(1))
		Expect(startedPIDs(dir, "random")).To(BeEmpty())
	})

	It("continue to run for consecutive runs that succeed", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		_, err := space.Plan(ctx, prepared, s.vars(), false)
		Expect(err).NotTo(HaveOccurred())
		space.SetRecord([]byte("other"))
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(startedPIDs(dir, "directory")).To(HaveLen(1))
	})

	It("are started while the workspace is being reserved", func(ctx context.Context) {
		i = countingInstallation(dir, "")
		prepared, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		space = open(ctx, engine, "b-1")
		forgetStarts(dir)
		space.StartProviders(ctx, prepared)
		Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
		Eventually(func() []int { return startedPIDs(dir, "directory") }).Should(HaveLen(1))
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(startedPIDs(dir, "directory")).To(HaveLen(1))
	})

	It("are started by OpenTofu if they ended before they were used", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		space.StartProviders(ctx, prepared)
		Eventually(func() []int { return startedPIDs(dir, "directory") }).Should(HaveLen(1))
		kill(startedPIDs(dir, "directory")[0])
		Eventually(hasEnded(startedPIDs(dir, "directory")[0])).Should(BeTrue())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
	})

	It("are started again after a failure", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		refused := s.vars()
		refused["fail"] = "no"
		Expect(space.Apply(ctx, prepared, refused)).NotTo(Succeed())
		Expect(hasEnded(startedPIDs(dir, "directory")[0])()).To(BeTrue())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(startedPIDs(dir, "directory")).To(HaveLen(2))
	})

	It("may be killed while they are used", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		s.blockProvider("after-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		kill(s.waitForProvider("after-create"))
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(ContainSubstring("Plugin did not respond")))
		s.releaseProvider("after-create")
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
	})

	DescribeTable("are started by OpenTofu if, when the engine starts them,", func(ctx context.Context, before string) {
		prepared := with(ctx, `[ "$engine" = no ] || { `+before+`; }`, oneEntry)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(len(startedPIDs(dir, "directory"))).To(BeNumerically(">", 2))
		Expect(hasEnded(startedPIDs(dir, "directory")[0])()).To(BeTrue())
	},
		Entry("they end", "exit 3"),
		Entry("they print something else", "echo hello; sleep 1000"),
		Entry("they speak an unknown protocol", "echo '1|4|unix|/nowhere|grpc|'; sleep 1000"),
		Entry("they speak go-plugin's old transport", "echo '1|5|unix|/nowhere|netrpc|'; sleep 1000"),
		Entry("they have a certificate", "echo '1|5|unix|/nowhere|grpc|abc'; sleep 1000"),
		Entry("they do not listen", "echo '1|6|unix|/nowhere|grpc|'; sleep 1000"),
		Entry("they print without end", "cat /dev/zero"),
		Entry("they print nothing for 5 seconds", kit.Slow(), "sleep 1000"),
	)

	DescribeTable("are started by OpenTofu if they are configured more than once", func(
		ctx context.Context, text string,
	) {
		prepared := with(ctx, "", text)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(len(startedPIDs(dir, "directory"))).To(BeNumerically(">", 2))
	},
		Entry("by an alias", oneEntry+`provider "directory" { alias = "second" }`),
		Entry("by two names", strings.Replace(oneEntry, "directory = {",
			`second = { source = "registry.terraform.io/service-adapter/directory" }
    directory = {`, 1)),
		Entry("with for_each", oneEntry+`provider "directory" {
  alias    = "each"
  for_each = toset(["a", "b"])
}`),
	)

	It("end when the adapter is killed before OpenTofu used them", func(ctx context.Context) {
		Expect(os.WriteFile(filepath.Join(filepath.Dir(s.cache), pauseFile), nil, 0o600)).To(Succeed())
		adapter := s.startAdapter()
		var paused int
		Eventually(func() (err error) {
			paused, err = readID(filepath.Join(filepath.Dir(s.cache), pausedFile))
			return err
		}).Should(Succeed())
		var children []int
		Eventually(func() []int {
			children = processesOf(filepath.Join(s.cache, "runs", "b-1"))
			return children
		}).Should(HaveLen(2), "a provider and its supervisor")
		kill(paused)
		Expect(adapter.Wait()).NotTo(Succeed())
		for _, pid := range children {
			Eventually(hasEnded(pid)).Should(BeTrue())
		}
		space = open(ctx, engine, "b-1")
	})

	It("are killed by the next adapter if their supervisor was killed as well", func(ctx context.Context) {
		s.blockProvider("after-create")
		adapter := s.startAdapter()
		provider := s.waitForProvider("after-create")
		run := s.tofuPID("b-1")
		for _, pid := range processesOf(filepath.Join(s.cache, "runs", "b-1")) {
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err == nil && strings.TrimSpace(string(name)) == "sh" {
				kill(pid)
			}
		}
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		kill(run)
		Eventually(hasEnded(run)).Should(BeTrue())
		Expect(hasEnded(provider)()).To(BeFalse())
		space = open(ctx, engine, "b-1")
		Expect(hasEnded(provider)()).To(BeTrue())
	})
})

// readID reads a process id from a file.
func readID(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// processesOf returns the processes whose working directory is below a directory.
func processesOf(dir string) []int {
	GinkgoHelper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	Expect(err).NotTo(HaveOccurred())
	var ids []int
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || !strings.HasPrefix(target, dir+"/") {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		Expect(err).NotTo(HaveOccurred())
		ids = append(ids, id)
	}
	return ids
}
