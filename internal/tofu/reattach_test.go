package tofu_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
	"service-adapter/spec/kit"
)

// twoProviders is a template with resources of a provider of protocol 6 and of one of protocol 5.
const twoProviders = oneEntry + `
resource "random_password" "one" { length = 20 }
output "password" { value = random_password.one.result }
`

// counted is an installation whose providers note each of their starts in a file, and run what is to be done before: a shell script
// that knows whether the engine starts it, by $engine.
func counted(dir, before string) opentofu.Installation {
	GinkgoHelper()
	i := installation()
	for n, p := range i.Providers {
		script := fmt.Sprintf("#!/bin/sh\nengine=${PLUGIN_CLIENT_CERT:+no}\necho $$ >>%s/%s.starts\n%s\nexec %s \"$@\"\n",
			dir, filepath.Base(p.File), before, p.File)
		i.Providers[n].File = filepath.Join(dir, filepath.Base(p.File))
		Expect(os.WriteFile(i.Providers[n].File, []byte(script), 0o700)).To(Succeed())
	}
	return i
}

// starts returns the process ids of all starts of a provider.
func starts(dir, name string) []int {
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

// forget lets starts count from here.
func forget(dir string) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(dir, "*.starts"))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		Expect(os.Remove(file)).To(Succeed())
	}
}

var _ = Describe("providers", func() {
	var (
		s         site
		dir       string
		engine    *tofu.Engine
		i         opentofu.Installation
		workspace *tofu.Workspace
	)

	// with prepares a template for providers that do something before they start, and reserves a workspace.
	with := func(ctx context.Context, before, text string) *tofu.Prepared {
		GinkgoHelper()
		i = counted(dir, before)
		prepared, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": text}})
		Expect(err).NotTo(HaveOccurred())
		workspace = open(ctx, engine, "b-1")
		Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
		forget(dir)
		return prepared
	}

	BeforeEach(func() {
		s, dir, workspace = newSite(), GinkgoT().TempDir(), nil
		engine = s.engine()
	})

	AfterEach(func() {
		if workspace != nil {
			Expect(workspace.Close()).To(Succeed())
		}
		for _, name := range []string{"directory", "random"} {
			for _, pid := range starts(dir, name) {
				Expect(gone(pid)()).To(BeTrue())
			}
		}
	})

	It("are started once for an apply and once for a destroy, and only those that the template uses", func(ctx context.Context) {
		prepared := with(ctx, "", twoProviders)
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(starts(dir, "directory")).To(HaveLen(1))
		Expect(starts(dir, "random")).To(HaveLen(1))
		outputs, err := workspace.Outputs(ctx, prepared)
		Expect(err).NotTo(HaveOccurred())
		Expect(outputs["password"]).To(HaveLen(20))
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(starts(dir, "directory")).To(HaveLen(2))
		Expect(workspace.Remove(ctx, i)).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())

		prepared = with(ctx, "", oneEntry)
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(starts(dir, "directory")).To(HaveLen(1))
		Expect(starts(dir, "random")).To(BeEmpty())
	})

	It("run for consecutive runs that succeed", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		_, err := workspace.Plan(ctx, prepared, s.vars(), false)
		Expect(err).NotTo(HaveOccurred())
		workspace.SetRecord([]byte("other"))
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(starts(dir, "directory")).To(HaveLen(1))
	})

	It("are started while the workspace is reserved", func(ctx context.Context) {
		i = counted(dir, "")
		prepared, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		workspace = open(ctx, engine, "b-1")
		forget(dir)
		workspace.StartProviders(ctx, prepared)
		Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
		Eventually(func() []int { return starts(dir, "directory") }).Should(HaveLen(1))
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(starts(dir, "directory")).To(HaveLen(1))
	})

	It("are left to OpenTofu when they died before they were used", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		workspace.StartProviders(ctx, prepared)
		Eventually(func() []int { return starts(dir, "directory") }).Should(HaveLen(1))
		kill(starts(dir, "directory")[0])
		Eventually(gone(starts(dir, "directory")[0])).Should(BeTrue())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
	})

	It("are started anew after a failure", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		refused := s.vars()
		refused["fail"] = "no"
		Expect(workspace.Apply(ctx, prepared, refused)).NotTo(Succeed())
		Expect(gone(starts(dir, "directory")[0])()).To(BeTrue())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(starts(dir, "directory")).To(HaveLen(2))
	})

	It("may be killed while they work", func(ctx context.Context) {
		prepared := with(ctx, "", oneEntry)
		s.hold("after-create")
		applied := make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
		kill(s.at("after-create"))
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(ContainSubstring("Plugin did not respond")))
		s.release("after-create")
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
	})

	DescribeTable("are left to OpenTofu when they do not start in the usual way", func(ctx context.Context, before string) {
		prepared := with(ctx, `[ "$engine" = no ] || { `+before+`; }`, oneEntry)
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(len(starts(dir, "directory"))).To(BeNumerically(">", 2))
		Expect(gone(starts(dir, "directory")[0])()).To(BeTrue())
	},
		Entry("they end", "exit 3"),
		Entry("they say something else", "echo hello; sleep 1000"),
		Entry("they speak an unknown protocol", "echo '1|4|unix|/nowhere|grpc|'; sleep 1000"),
		Entry("they speak go-plugin's old transport", "echo '1|5|unix|/nowhere|netrpc|'; sleep 1000"),
		Entry("they have a certificate", "echo '1|5|unix|/nowhere|grpc|abc'; sleep 1000"),
		Entry("they do not listen", "echo '1|6|unix|/nowhere|grpc|'; sleep 1000"),
		Entry("they say no end of it", "cat /dev/zero"),
		Entry("they say nothing for 5 seconds", kit.Slow(), "sleep 1000"),
	)

	DescribeTable("that are configured more than once are left to OpenTofu", func(ctx context.Context, text string) {
		prepared := with(ctx, "", text)
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(len(starts(dir, "directory"))).To(BeNumerically(">", 2))
	},
		Entry("by an alias", oneEntry+`provider "directory" { alias = "second" }`),
		Entry("by two names", strings.Replace(oneEntry, "directory = {", `second = { source = "registry.terraform.io/service-adapter/directory" }
    directory = {`, 1)),
		Entry("for each of several keys", oneEntry+`provider "directory" {
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
			Eventually(gone(pid)).Should(BeTrue())
		}
		workspace = open(ctx, engine, "b-1")
	})

	It("whose supervisor was killed, too, are killed by the next one", func(ctx context.Context) {
		s.hold("after-create")
		adapter := s.startAdapter()
		provider := s.at("after-create")
		run := s.tofu("b-1")
		for _, pid := range processesOf(filepath.Join(s.cache, "runs", "b-1")) {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == "sh" {
				kill(pid)
			}
		}
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		kill(run)
		Eventually(gone(run)).Should(BeTrue())
		Expect(gone(provider)()).To(BeFalse())
		workspace = open(ctx, engine, "b-1")
		Expect(gone(provider)()).To(BeTrue())
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
