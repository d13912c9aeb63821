package release_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/release"
)

// serverSpec is the spec of a job with everything that the package reads.
const serverSpec = `---
name: server
templates:
  config.erb: config/config.yml
  hooks/start.sh.erb: bin/start
  absent.erb: config/absent
packages: [server-1]
provides:
- name: server
  type: database
  properties: [port, tls.enabled]
consumes:
- {name: peers, type: database, optional: true}
- {name: logs, type: syslog}
properties:
  port: {description: "the port\nof clients", default: 5432, type: integer}
  tls.enabled: {default: no}
  tls.mode: {default: "no"}
  since: {default: 2026-01-31}
  users:
    description: the accounts
    example: [{name: admin}]
  password:
  cleared: {default: null}
  limits: {default: &limits {soft: 1}}
  ceilings: {default: {<<: *limits, hard: 2}}
`

// server returns the job of serverSpec.
func server() release.Job {
	return release.Job{
		Name: "server",
		Properties: map[string]release.Property{
			"port": {
				Description: "the port\nof clients", Default: int64(5432), HasDefault: true, Type: "integer",
			},
			"tls.enabled": {Default: false, HasDefault: true},
			"tls.mode":    {Default: "no", HasDefault: true},
			"since":       {Default: "2026-01-31", HasDefault: true},
			"users":       {Description: "the accounts", Example: []any{map[string]any{"name": "admin"}}},
			"password":    {},
			"cleared":     {},
			"limits":      {Default: map[string]any{"soft": int64(1)}, HasDefault: true},
			"ceilings":    {Default: map[string]any{"soft": int64(1), "hard": int64(2)}, HasDefault: true},
		},
		Provides: []release.Link{{Name: "server", Type: "database", Properties: []string{"port", "tls.enabled"}}},
		Consumes: []release.Link{{Name: "peers", Type: "database", Optional: true}, {Name: "logs", Type: "syslog"}},
		Templates: map[string]string{
			"config.erb": "port: <%= p('port') %>\n", "hooks/start.sh.erb": "exec\n", "monit": "check\n",
		},
	}
}

// write writes files into a new directory and returns the directory.
func write(files ...file) string {
	dir := GinkgoT().TempDir()
	for _, entry := range files {
		name := filepath.Join(dir, entry.name)
		Expect(os.MkdirAll(filepath.Dir(name), 0o700)).To(Succeed())
		Expect(os.WriteFile(name, []byte(entry.content), 0o600)).To(Succeed())
	}
	return dir
}

// source returns the files of the source of the release "example", with further ones.
func source(more ...file) []file {
	return append([]file{
		{"config/final.yml", "name: example\nblobstore: {provider: s3}\n"},
		{"jobs/.gitkeep", ""},
		{"jobs/server/spec", serverSpec},
		{"jobs/server/monit", "check\n"},
		{"jobs/server/templates/config.erb", "port: <%= p('port') %>\n"},
		{"jobs/server/templates/hooks/start.sh.erb", "exec\n"},
		{"jobs/server/templates/unused.erb", "unused\n"},
	}, more...)
}

// tarball writes a release tarball and returns its path.
func tarball(files ...file) string {
	return filepath.Join(write(file{"release.tgz", archive(files...)}), "release.tgz")
}

var _ = Describe("Open", func() {
	serverArchive := archive(
		file{"./monit", "check\n"}, file{"./templates/config.erb", "port: <%= p('port') %>\n"},
		file{"./templates/hooks/start.sh.erb", "exec\n"}, file{"./templates/unused.erb", "unused\n"},
		file{"./job.MF", serverSpec})
	agentArchive := archive(file{"job.MF", "name: agent\n"})
	const manifest = "name: example\nversion: 1.10\njobs:\n- {name: server, version: a}\n- {name: agent}\n"

	It("reads a tarball, and stops after the last job", func(ctx SpecContext) {
		whole := archive(file{"./jobs/server.tgz", serverArchive}, file{"./release.MF", manifest},
			file{"./packages/server-1.tgz", "not an archive"}, file{"./jobs/unlisted.tgz", "not an archive"},
			file{"./jobs/agent.tgz", agentArchive}, file{"./jobs/broken.tgz", "not an archive"})
		path := filepath.Join(write(file{"r.tgz", whole}), "r.tgz")
		opened, err := release.Open(ctx, path, "7")
		Expect(err).NotTo(HaveOccurred())
		empty := release.Job{
			Name: "agent", Properties: map[string]release.Property{}, Templates: map[string]string{},
		}
		Expect(*opened).To(Equal(release.Release{
			Name: "example", Version: "1.10", Jobs: []release.Job{empty, server()},
		}))
		Expect(opened.Job("server")).To(Equal(&opened.Jobs[1]))
		Expect(opened.Job("serve")).To(BeNil())
	})

	It("reads a compiled release, which has no packages", func(ctx SpecContext) {
		path := tarball(file{"./release.MF", "name: example\nversion: '2'\ncompiled_packages: [{name: server-1}]\n"},
			file{"./compiled_packages/server-1.tgz", "x"})
		Expect(release.Open(ctx, path, "")).To(Equal(&release.Release{Name: "example", Version: "2"}))
	})

	It("reads the source of a release, with the version of the latest final release", func(ctx SpecContext) {
		dir := write(source(file{"releases/example/index.yml", `builds:
  a: {version: 1.9.0}
  b: {version: "1.10.0"}
  c: {version: "1.10.0-rc.1"}
  d: {version: "?"}
  e: {}
format-version: "2"
`})...)
		Expect(release.Open(ctx, dir, "9")).To(Equal(&release.Release{
			Name: "example", Version: "1.10.0", Jobs: []release.Job{server()},
		}))
	})

	It("takes the version of the caller if a release has none", func(ctx SpecContext) {
		opened, err := release.Open(ctx, write(source()...), "9")
		Expect(err).NotTo(HaveOccurred())
		Expect(opened.Version).To(Equal("9"))
		opened, err = release.Open(ctx, tarball(file{"release.MF", "name: example\n"}), "8")
		Expect(err).NotTo(HaveOccurred())
		Expect(opened.Version).To(Equal("8"))
	})

	It("follows symbolic links only inside of the release", func(ctx SpecContext) {
		outside := write(file{"spec", "name: outside\n"})
		dir := write(source(file{"src/agent/spec", "name: agent\n"})...)
		Expect(os.Symlink("../src/agent", filepath.Join(dir, "jobs/agent"))).To(Succeed())
		opened, err := release.Open(ctx, dir, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(opened.Job("agent")).NotTo(BeNil())
		Expect(os.Symlink(outside, filepath.Join(dir, "jobs/outside"))).To(Succeed())
		_, err = release.Open(ctx, dir, "")
		Expect(err).To(MatchError(ContainSubstring("jobs/outside/spec: path escapes from parent")))
	})

	It("reads no template outside of the job", func(ctx SpecContext) {
		dir := write(file{"config/final.yml", "final_name: example\n"}, file{"secret", "x"},
			file{"jobs/a/spec", "name: a\ntemplates: {../../../secret: a, /etc/passwd: b, ./../monit: c}\n"})
		opened, err := release.Open(ctx, dir, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(opened.Job("a").Templates).To(BeEmpty())
	})

	It("ends with the context", func(ctx SpecContext) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := release.Open(ended, write(source()...), "")
		Expect(err).To(MatchError(context.Canceled))
		_, err = release.Open(ended, tarball(file{"release.MF", manifest}), "")
		Expect(err).To(MatchError(context.Canceled))
	})

	It("does not wait for a pipe", func(ctx SpecContext) {
		pipe := filepath.Join(GinkgoT().TempDir(), "pipe")
		Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
		_, err := release.Open(ctx, pipe, "")
		Expect(err).To(MatchError(pipe + " is neither a release tarball nor a directory with the source of a release"))
	})

	DescribeTable("rejects a tarball", func(ctx SpecContext, want string, files ...file) {
		path := tarball(files...)
		_, err := release.Open(ctx, path, "")
		Expect(err).To(MatchError(ContainSubstring(strings.ReplaceAll(want, "PATH", path))))
	},
		Entry("without a manifest", "PATH: the tarball has no release.MF, so it is not a BOSH release", file{"a", "b"}),
		Entry("with two manifests", "PATH: the tarball contains two files release.MF",
			file{"release.MF", manifest}, file{"./release.MF", manifest}),
		Entry("with a manifest that is not YAML", "PATH!/release.MF: ", file{"release.MF", "a: [\n"}),
		Entry("with an empty manifest", "PATH!/release.MF: the file is empty", file{"release.MF", "# nothing\n"}),
		Entry("without a name", "PATH!/release.MF:1: name: it must be set", file{"release.MF", "version: 1\n"}),
		Entry("with a name that is a list", "PATH!/release.MF:1: name: it must be a text, not a list",
			file{"release.MF", "name: []\n"}),
		Entry("with jobs that are a mapping", "PATH!/release.MF:2: jobs: it must be a list, not a mapping",
			file{"release.MF", "name: a\njobs: {a: b}\n"}),
		Entry("with a job without a name", "PATH!/release.MF:3: jobs[0].name: it must be set",
			file{"release.MF", "name: a\njobs:\n- version: 1\n"}),
		Entry("with a job that is a text", `PATH!/release.MF:3: jobs[0]: it must be a mapping, not a string`,
			file{"release.MF", "name: a\njobs:\n- server\n"}),
		Entry("without the archive of a job",
			`PATH: release.MF lists the job "agent", and the tarball has no file jobs/agent.tgz`,
			file{"release.MF", manifest}, file{"jobs/server.tgz", serverArchive}),
		Entry("with a broken job", "PATH!/jobs/agent.tgz: not an archive that was compressed with gzip",
			file{"release.MF", manifest}, file{"jobs/agent.tgz", "x"}),
		Entry("with an incomplete job", "PATH!/jobs/agent.tgz: the archive is broken: unexpected EOF",
			file{"release.MF", manifest}, file{"jobs/agent.tgz", agentArchive[:len(agentArchive)/2]}),
		Entry("with a job without a manifest", "PATH!/jobs/agent.tgz: the archive of the job has no job.MF",
			file{"release.MF", manifest}, file{"jobs/agent.tgz", archive(file{"monit", ""})}),
		Entry("with the archive of another job",
			`PATH!/jobs/agent.tgz!/job.MF: name: the job has the name "server", `+
				`and its archive is that of the job "agent"`,
			file{"release.MF", manifest}, file{"jobs/agent.tgz", serverArchive}),
		Entry("with a template that is too large", "templates/a: the file is larger than 4 MB",
			file{"release.MF", manifest},
			file{"jobs/agent.tgz", archive(file{"templates/a", strings.Repeat("a", 5<<20)})}),
		Entry("with a job that unpacks to too much", "it unpacks to more than 256 MB",
			file{"release.MF", manifest}, file{"jobs/agent.tgz", archive(file{"a", strings.Repeat("a", 257<<20)})}),
	)

	It("limits the size of all templates and monit files of a release", func(ctx SpecContext) {
		const jobs = 17 // with files of 4 MB each
		list, large := "name: large\njobs:\n", strings.Repeat("a", 4<<20)
		for _, name := range []string{"templates/a", "monit"} {
			files, tree := []file{{"release.MF", ""}}, []file{{"config/final.yml", "name: large\n"}}
			for job := range jobs {
				id := "j" + strconv.Itoa(job)
				spec := "name: " + id + "\ntemplates: {a: b}\n"
				files[0].content += "- name: " + id + "\n"
				files = append(files, file{"jobs/" + id + ".tgz", archive(file{"job.MF", spec}, file{name, large})})
				tree = append(tree, file{"jobs/" + id + "/spec", spec}, file{"jobs/" + id + "/" + name, large})
			}
			files[0].content = list + files[0].content
			_, err := release.Open(ctx, tarball(files...), "")
			Expect(err).To(MatchError(ContainSubstring("the templates of the release are larger than 64 MB")), name)
			_, err = release.Open(ctx, write(tree...), "")
			Expect(err).To(MatchError(ContainSubstring("the templates of the release are larger than 64 MB")), name)
		}
	})

	It("rejects a file that is not an archive", func(ctx SpecContext) {
		dir := write(file{"a.tgz", "text"})
		_, err := release.Open(ctx, dir+"/a.tgz", "")
		Expect(err).To(MatchError(ContainSubstring(dir + "/a.tgz: not an archive that was compressed with gzip")))
		_, err = release.Open(ctx, dir+"/b.tgz", "")
		Expect(err).To(MatchError(os.ErrNotExist))
	})

	DescribeTable("rejects the source of a release", func(ctx SpecContext, want string, files []file) {
		dir := write(files...)
		_, err := release.Open(ctx, dir, "")
		Expect(err).To(MatchError(strings.ReplaceAll(want, "DIR", dir)))
	},
		Entry("without config/final.yml",
			"DIR/config/final.yml: no such file or directory; the source of a release has its name in this file", nil),
		Entry("without a name", "DIR/config/final.yml:1: name: it must be set", []file{{"config/final.yml", "a: b\n"}}),
		Entry("without jobs", "DIR/jobs: no such file or directory", []file{{"config/final.yml", "name: a\n"}}),
		Entry("with a job without a spec", "DIR/jobs/b/spec: no such file or directory",
			source(file{"jobs/b/monit", ""})),
		Entry("with an index that is not YAML", "DIR/releases/example/index.yml:1: it must be a mapping, not a string",
			source(file{"releases/example/index.yml", "text\n"})),
		Entry("with two jobs of the same name", `DIR: the release has two jobs with the name "server"`,
			source(file{"jobs/b/spec", "name: server\n"})),
	)

	DescribeTable("rejects a spec", func(ctx SpecContext, want, spec string) {
		dir := write(file{"config/final.yml", "name: a\n"}, file{"jobs/b/spec", spec})
		_, err := release.Open(ctx, dir, "")
		Expect(err).To(MatchError(dir + "/jobs/b/spec:" + want))
	},
		Entry("that is a list", "1: it must be a mapping, not a list", "[]\n"),
		Entry("without a name", "1: name: it must be set", "templates: {}\n"),
		Entry("with properties that are a list", "2: properties: it must be a mapping, not a list",
			"name: b\nproperties: []\n"),
		Entry("with a property that is a list", "3: properties.c: it must be a mapping, not a list",
			"name: b\nproperties:\n  c: []\n"),
		Entry("with templates that are a list", "2: templates: it must be a mapping, not a list",
			"name: b\ntemplates: [c]\n"),
		Entry("with links that are a mapping", "2: provides: it must be a list, not a mapping",
			"name: b\nprovides: {c: d}\n"),
		Entry("with a link without a type", "2: consumes[0].type: it must be set", "name: b\nconsumes: [{name: c}]\n"),
		Entry("with a link that is a text", "2: consumes[0]: it must be a mapping, not a string",
			"name: b\nconsumes: [c]\n"),
		Entry("with two links of the same name", `2: provides[1]: the name "c" is used twice`,
			"name: b\nprovides: [{name: c, type: d}, {name: c, type: e}]\n"),
		Entry("with an optional provider", "2: provides[0].optional: a provided link cannot be optional",
			"name: b\nprovides: [{name: c, type: d, optional: true}]\n"),
		Entry("with link properties that are a mapping", "2: provides[0].properties: it must be a list, not a mapping",
			"name: b\nprovides: [{name: c, type: d, properties: {e: f}}]\n"),
		Entry("with a link property that is a mapping",
			"2: provides[0].properties: an entry must be the name of a property",
			"name: b\nprovides: [{name: c, type: d, properties: [{e: f}]}]\n"),
		Entry("whose aliases multiply",
			"2: the file has more than 200000 nodes after its aliases and merges are resolved",
			"name: b\nx: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"+multiplied("ab")+multiplied("bc")+multiplied("cd")+
				multiplied("de")+multiplied("ef")+multiplied("fg")+multiplied("gh")+multiplied("hi")),
	)
})

// multiplied returns a list of ten aliases of the anchor that is the first letter, with the second letter as its
// anchor.
func multiplied(letters string) string {
	alias := "*" + letters[:1]
	return letters + ": &" + letters[1:] + " [" + strings.TrimSuffix(strings.Repeat(alias+", ", 10), ", ") + "]\n"
}
