package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/hold"
)

// files returns information about all files and directories below a directory, by their relative paths.
func files(dir string) map[string]fs.FileInfo {
	GinkgoHelper()
	found := map[string]fs.FileInfo{}
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found[strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")], err = entry.Info()
		return err
	})).To(Succeed())
	return found
}

// stat returns the attributes of a file that only Unix has.
func stat(info fs.FileInfo) *syscall.Stat_t {
	GinkgoHelper()
	found, ok := info.Sys().(*syscall.Stat_t)
	Expect(ok).To(BeTrue())
	return found
}

// changed returns the paths that were created, removed or changed between two calls of files, except those below the
// directory apart.
func changed(before, after map[string]fs.FileInfo, apart string) []string {
	GinkgoHelper()
	paths := []string{}
	for path, info := range after {
		if before[path] == nil || stat(info).Ctim != stat(before[path]).Ctim {
			paths = append(paths, path)
		}
	}
	for path := range before {
		if after[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.DeleteFunc(paths, func(path string) bool { return strings.HasPrefix(path+"/", apart+"/") })
}

// holders returns the files of a VM that contain secrets in clear text, by path, with the names of these secrets.
func (l *landscape) holders(v *vm, all map[string]fs.FileInfo) map[string][]string {
	GinkgoHelper()
	found := map[string][]string{}
	for path, info := range all {
		if !info.Mode().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(v.vcap, path))
		if !errors.Is(err, fs.ErrNotExist) { // a running errand may have removed it
			Expect(err).NotTo(HaveOccurred())
		}
		for _, what := range slices.Sorted(maps.Keys(l.secrets)) {
			if bytes.Contains(text, []byte(l.secrets[what])) {
				found[path] = append(found[path], what)
			}
		}
	}
	return found
}

// expectRendered asserts which files of the jobs contain secrets, and that only root and vcap can read these files.
func (l *landscape) expectRendered(v *vm, i *odb.Instance) {
	GinkgoHelper()
	all := files(v.vcap)
	found := l.holders(v, all)
	Expect(found).To(Equal(map[string][]string{
		"jobs/apply-instance/" + intentFile:   {"parameter", "value of " + i.ID},
		"jobs/apply-instance/" + configFile:   {"database", "key"},
		"jobs/destroy-instance/" + configFile: {"database", "key"},
	}))
	for path := range found {
		Expect(all[path].Mode()).To(BeEquivalentTo(0o640), path)
		Expect([]uint32{stat(all[path]).Uid, stat(all[path]).Gid}).To(Equal([]uint32{0, vcapID}), path)
	}
}

// expectPrivate asserts that only vcap can read the files with secrets that the job of an errand received or wrote.
func (l *landscape) expectPrivate(v *vm, job string) {
	GinkgoHelper()
	all := files(v.vcap)
	for path, secrets := range l.holders(v, all) {
		if strings.HasPrefix(path, "jobs/") && !strings.HasPrefix(path, "jobs/"+job+"/") {
			continue // expectRendered checks this file
		}
		Expect(all[path].Mode()).To(BeElementOf(fs.FileMode(0o600), fs.FileMode(0o700)), "%s has %s", path, secrets)
		Expect(stat(all[path]).Uid).To(BeEquivalentTo(vcapID), "%s has %s", path, secrets)
	}
	// No other user could reach other files in these directories either.
	for _, name := range []string{"cache", "tmp"} {
		info, found := all[filepath.Join("data", job, name)]
		Expect(found).To(BeTrue(), name)
		Expect(info.Mode()).To(Equal(fs.ModeDir|0o700), name)
		Expect(stat(info).Uid).To(BeEquivalentTo(vcapID), name)
	}
}

// expectTidy asserts that an errand leaves only prepared directories with secrets, which contain the address of the
// state backend.
func (l *landscape) expectTidy(v *vm, job string) {
	GinkgoHelper()
	for path, secrets := range l.holders(v, files(v.vcap)) {
		if !strings.HasPrefix(path, "jobs/") {
			Expect(path).To(MatchRegexp("^data/[a-z-]+/cache/prepared/"))
			Expect(secrets).To(Equal([]string{"database"}), path)
		}
	}
	for _, dir := range []string{"tmp", "cache/runs"} {
		Expect(filepath.Glob(filepath.Join(v.vcap, "data", job, dir, "*"))).To(BeEmpty())
	}
}

// arguments returns the command lines of all processes of this machine, which every user can read.
func arguments() []string {
	GinkgoHelper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Expect(err).NotTo(HaveOccurred())
	texts := []string{}
	for _, path := range found {
		text, _ := os.ReadFile(path) // the process may have ended
		texts = append(texts, string(text))
	}
	return texts
}

// placed returns the names of the jobs in the deployed manifest, by the names of their groups.
func placed(i *odb.Instance) map[string][]string {
	GinkgoHelper()
	manifest, err := odb.Compared(i.Manifest)
	Expect(err).NotTo(HaveOccurred())
	found := map[string][]string{}
	for _, group := range manifest.InstanceGroups {
		for _, job := range group.Jobs {
			found[group.Name] = append(found[group.Name], job.Name)
		}
	}
	return found
}

// errand runs the errand of a job, asserts the properties that all errands share, and returns the answer. The functions
// are called while the errand runs.
func (l *landscape) errand(v *vm, job string, during ...func()) broker.Answer {
	GinkgoHelper()
	before := files(v.vcap)
	running := v.begin(job)
	// The output is printed even if the errand ended before the functions were done.
	defer func() { GinkgoWriter.Printf("%s: %s\n", job, running.Stderr.Contents()) }()
	for _, act := range during {
		act()
	}
	got := running.Wait()
	l.expectNone(got.Stdout, got.Stderr)
	l.expectPrivate(v, job)
	l.expectTidy(v, job)
	wanted := []string{}
	if _, again := before["data/"+job]; !again {
		wanted = []string{"data"} // the directory of the job was created
	}
	for _, name := range readSpec(job).Templates {
		if strings.HasPrefix(name, "config/") {
			wanted = append(wanted, "jobs/"+job+"/"+name) // the owner of the file changed
		}
	}
	Expect(changed(before, files(v.vcap), "data/"+job)).To(ConsistOf(wanted))
	return got
}

var _ = Describe("The installed release with errands that provision", Ordered, kit.Slow(), func() {
	var l *landscape
	var v *vm // runs the errands

	BeforeAll(func(ctx context.Context) {
		l = newLandscape(ctx)
		l.update(ctx, l.Instance, map[string]any{"password": userSecret})
		v = l.newErrandVM(ctx, l.Instance)
	})

	It("renders secrets only into files that the group vcap cannot read", func() {
		Expect(placed(l.Instance)).To(Equal(map[string][]string{"server": {"server"}, "errands": instanceJobs()}))
		l.expectRendered(v, l.Instance)
	})

	It("renders the same files for errands on an instance group of the service", func(ctx context.Context) {
		i := l.newInstance("i2", "server/0")
		l.update(ctx, i, map[string]any{"password": userSecret})
		Expect(placed(i)).To(HaveLen(1))
		Expect(placed(i)["server"]).To(ConsistOf(append(instanceJobs(), "server")))
		other := l.newErrandVM(ctx, i)
		l.expectRendered(other, i)
		for _, job := range instanceJobs() {
			Expect(readFile(other.vcap, "jobs", job, configFile)).To(Equal(readFile(v.vcap, "jobs", job, configFile)))
		}
	})

	It("applies the template as vcap", func(ctx context.Context) {
		at := hold.Point{Name: "after-create", Dir: l.entries, Provider: true}
		at.Hold()
		got := l.errand(v, "apply-instance", func() {
			at.Reached()
			l.expectPrivate(v, "apply-instance")
			written := []string{}
			for path, secrets := range l.holders(v, files(v.vcap)) {
				if strings.HasPrefix(path, "data/") {
					written = append(written, secrets...)
				}
			}
			Expect(written).To(ContainElements("parameter", "value of i1", "key"),
				"these files exist while OpenTofu runs")
			l.expectNone(arguments()...)
			at.Release()
		})
		Expect(got.Exit).To(BeZero(), got.Stderr)
		Expect(l.resources()).To(HaveLen(1))
		resource := l.resources()["i1"]
		Expect(resource.Content).To(Equal(l.secrets["value of i1"] + " " + userSecret))

		By("the files of the provider are private")
		l.secrets["resource"] = resource.Secret
		l.expectNone(got.Stdout, got.Stderr)
		l.expectTidy(v, "apply-instance")
		Expect(l.stored(ctx)).To(And(HaveLen(1), HaveKeyWithValue("i-i1", ContainSubstring("encrypted_data"))))
		l.expectNone(l.stored(ctx)["i-i1"])
	})

	It("serves a binding in the broker's container", func(ctx context.Context) {
		bound := l.call(ctx, "create-binding", l.Bind("b1", body(l.Instance, map[string]any{
			"app_guid": "app", "bind_resource": map[string]any{"app_guid": "app"}, "parameters": map[string]any{},
		})))
		var binding struct{ Credentials map[string]any }
		Expect(json.Unmarshal([]byte(bound.Stdout), &binding)).To(Succeed())
		Expect(binding.Credentials).To(Equal(map[string]any{"key": l.secrets["resource"]}))
		Expect(l.resources()).To(And(HaveLen(2), HaveKey("b1")))
		l.expectNone(bound.Stderr)
	})

	It("reports the reason of a failure, and no secret", func(ctx context.Context) {
		before := l.resources()
		l.update(ctx, l.Instance, map[string]any{"failure": "no space"})
		v.deployErrands(ctx, l.Instance)
		got := l.errand(v, "apply-instance")
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(And(ContainSubstring("Entry refused"), ContainSubstring("no space")))
		Expect(l.resources()).To(Equal(before))

		By("a state backend that rejects the password")
		l.secrets["old password"] = "planted-password"
		i := *l.Instance
		i.Secrets = maps.Clone(i.Secrets)
		i.Secrets[databaseReference] = strings.Replace(i.Secrets[databaseReference], l.states.Password,
			"planted-password", 1)
		v.deployErrands(ctx, &i)
		for _, job := range instanceJobs() {
			got := l.errand(v, job)
			Expect(got.Exit).NotTo(BeZero(), job)
			Expect(got.Stderr).To(ContainSubstring("password authentication failed"))
		}
		Expect(l.resources()).To(Equal(before))
	})

	It("destroys an instance with its bindings on another VM", func(ctx context.Context) {
		other := l.newErrandVM(ctx, l.Instance)
		got := l.errand(other, "destroy-instance")
		Expect(got.Exit).To(BeZero(), got.Stderr)
		Expect(l.resources()).To(BeEmpty())
		Expect(l.stored(ctx)).To(BeEmpty())
	})
})
