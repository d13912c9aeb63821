package build_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
	"service-adapter/internal/author/lint"
	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
)

// releasesDir contains the releases with which package release is tested.
const releasesDir = "../release/testdata/releases"

// jobWith returns a release "r" with a job "j" that has these properties and a template.
func jobWith(template string, properties map[string]release.Property) *release.Release {
	return &release.Release{Name: "r", Version: "1", Jobs: []release.Job{{
		Name: "j", Properties: properties, Templates: map[string]string{"t": template},
	}}}
}

// initialised creates a pak of the job of a release, and returns its template, its definition and the notes.
func initialised(from *release.Release) (template, definition, notes string) {
	GinkgoHelper()
	dir := filepath.Join(GinkgoT().TempDir(), "pak")
	_, list, err := build.InitRelease(dir, []*release.Release{from}, []string{from.Jobs[0].Name})
	Expect(err).NotTo(HaveOccurred())
	pak, err := brokerpak.Open(dir)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = pak.Close() }() // opened for reading
	text, err := os.ReadFile(filepath.Join(dir, "pak.yml"))
	Expect(err).NotTo(HaveOccurred())
	return pak.Services[0].Provision.Bosh.Manifest.Text, string(text), strings.Join(list, "\n")
}

var _ = Describe("a pak of a job of a release", func() {
	It("is valid, and compatible with the release, for each job of the test releases", func(ctx context.Context) {
		paths, err := filepath.Glob(filepath.Join(releasesDir, "*", "config"))
		Expect(err).NotTo(HaveOccurred())
		checked := 0
		for _, path := range paths {
			opened, err := release.Open(ctx, filepath.Dir(path), "1")
			Expect(err).NotTo(HaveOccurred())
			for _, job := range opened.Jobs {
				dir := filepath.Join(GinkgoT().TempDir(), "pak")
				_, _, err := build.InitRelease(dir, []*release.Release{opened}, []string{job.Name})
				Expect(err).NotTo(HaveOccurred(), job.Name)
				report, err := lint.Lint(ctx, dir, opened)
				Expect(err).NotTo(HaveOccurred(), job.Name)
				for _, finding := range report.Diagnostics {
					if finding.Rule == "unpinned" {
						continue // a new pak has no lock
					}
					if finding.Severity != diag.Notice { // the job may need others, to which it has links
						Expect(finding.Rule).To(Equal("release-link"), "%s: %s", job.Name, finding.Message)
					}
				}
				checked++
			}
		}
		Expect(checked).To(BeNumerically(">", 15))
	})

	DescribeTable("has for a property", func(
		template string, properties map[string]release.Property, wanted ...string,
	) {
		manifest, definition, notes := initialised(jobWith(template, properties))
		for _, want := range wanted {
			if text, not := strings.CutPrefix(want, "not "); not {
				Expect(manifest + definition + notes).NotTo(ContainSubstring(text))
			} else {
				Expect(manifest + definition + notes).To(ContainSubstring(want))
			}
		}
	},
		Entry("with a default: a comment", "<%= p('a.port') %>", map[string]release.Property{
			"a.port": {Default: int64(1), HasDefault: true, Description: "The port\n\n of clients"},
		}, "    properties: {}\n      # a:\n      #   # The port\n      #   # of clients\n      #   port: 1\n",
			"plan_inputs: []"),
		Entry("with a long default: its size", "", map[string]release.Property{
			"a": {Default: strings.Repeat("x", 300), HasDefault: true},
		}, "# a: # the default has 302 characters\n"),
		Entry("with a secret as its default: a decision", "", map[string]release.Property{
			"password": {Default: "guest", HasDefault: true},
		}, "decide: the secret property password of the job j has a default", "not ((password))"),
		Entry("that is a secret: a generated secret", "", map[string]release.Property{
			"admin.password": {Description: "A password"},
		}, "      admin:\n        # A password\n        password: ((admin_password))\n",
			"- {name: admin_password, length: 32}"),
		Entry("that a template needs: a required input with an example", `<%= p("size") %>`,
			map[string]release.Property{"size": {Example: int64(5), Description: `"5" MB: {more}, #1`}},
			"    size: 5\n", `{field_name: size, type: integer, required: true, details: "\"5\" MB: {more}, #1"}`,
			"decide: ((size)) is an input of plans, because the job j needs its property size"),
		Entry("that a template needs, of a type: a sample", `<%= p("size") %>`, map[string]release.Property{
			"size": {Type: "hash"},
		}, "    size: {}\n", `type: object, required: true, details: "The property size of the job j"`),
		Entry("that a template needs, without a type: a text to change", `<%= p("size") %>`,
			map[string]release.Property{"size": {Example: "((size))"}}, `    size: "change-me"`+"\n"),
		Entry("that no template needs: an optional input", `<% if_p("size") do |s| %><%= s %><% end %>`,
			map[string]release.Property{"size": {}}, "size: ((size))",
			"{field_name: size, type: [string, integer, number, boolean, array, object], details:", "properties: {}\n"),
		Entry("that a template needs only under a condition: an optional input",
			`<% if p("on") %><%= p("size") %><% end %>`,
			map[string]release.Property{"size": {Type: "integer"}, "on": {Default: false, HasDefault: true}},
			"{field_name: size, type: integer, details:"),
		Entry("that a template needs under a condition that is true by default: a required input",
			`<% if p("on") %><%= p("size") %><% end %>`,
			map[string]release.Property{"size": {Type: "integer"}, "on": {Default: true, HasDefault: true}},
			"{field_name: size, type: integer, required: true"),
		Entry("of a certificate that a template needs: a variable of BOSH",
			`<%= p("tls.cert") %>`, map[string]release.Property{
				"tls.cert": {}, "tls.private_key": {}, "tls.ca_cert": {}, "tls.public_key": {},
			}, "ca_cert: ((j_tls.ca))\n        cert: ((j_tls.certificate))\n",
			"        private_key: ((j_tls.private_key))\n",
			"variables:\n- name: j_tls\n  type: certificate\n", "decide: who signs the certificate j_tls",
			"# public_key:\n"),
		Entry("of a certificate that no template needs: a comment", "", map[string]release.Property{
			"tls.cert": {}, "tls.private_key": {},
		}, "      # tls:\n      #   cert:\n      #   private_key:\n", "not variables:", "not ((", "plan_inputs: []"),
		Entry("of a key that a template needs: a variable of BOSH", `<%= p("sign.private_key") %>`,
			map[string]release.Property{"sign.private_key": {}, "sign.public_key": {}},
			"private_key: ((j_sign.private_key))", "public_key: ((j_sign.public_key))", "type: rsa"),
		Entry("whose type is a certificate: a variable of BOSH", `<%= p("tls") %>`, map[string]release.Property{
			"tls": {Type: "certificate"},
		}, "tls: ((j_tls))", "type: certificate"),
		Entry("of which a template needs a part: the part", `<%= p("tls.mode") %>`, map[string]release.Property{
			"tls": {Description: "All of it"},
		}, "# All of it\n      tls:\n        mode: ((tls_mode))", "field_name: tls_mode", "not ((tls))"),
		Entry("whose name cannot be written: nothing", "", map[string]release.Property{"a b": {}},
			`the property "a b" of the job j is left out`),
	)

	It("quotes names that are not texts in YAML", func() {
		from := jobWith("", nil)
		from.Jobs[0].Name = "1"
		template, _, _ := initialised(from)
		Expect(template).To(HaveSuffix("instance_groups:\n- name: \"1\"\n  jobs:\n  - name: \"1\"\n"))
	})

	DescribeTable("is not written for", func(jobs []string, text string) {
		one := jobWith("", nil)
		two := &release.Release{Name: "two", Jobs: []release.Job{{Name: "j"}, {Name: "server"}}}
		dir := filepath.Join(GinkgoT().TempDir(), "pak")
		_, _, err := build.InitRelease(dir, []*release.Release{one, two}, jobs)
		var user *fault.UserError
		Expect(err).To(BeAssignableToTypeOf(user))
		Expect(err).To(MatchError(ContainSubstring(text)))
		Expect(dir).NotTo(BeADirectory())
	},
		Entry("no job", nil, "which jobs? set --job for each; the release r has j; the release two has j, server"),
		Entry("a job that no release has", []string{"serve"},
			`no release has a job "serve"; did you mean "server"?; the release r has j; the release two has j, server`),
		Entry("a job of several releases", []string{"j"}, `the job "j" is in several releases, r, two`),
		Entry("the same job twice", []string{"server", "server"}, `the job "server" is named twice`),
	)

	It("has all jobs in one instance group, and reports links that none of them provides", func() {
		both := jobWith("", nil)
		both.Jobs[0].Consumes = []release.Link{
			{Name: "peers", Type: "db"}, {Name: "logs", Type: "syslog"}, {Name: "more", Type: "none", Optional: true},
		}
		both.Jobs = append(both.Jobs, release.Job{Name: "other", Provides: []release.Link{{Name: "x", Type: "db"}}})
		dir := filepath.Join(GinkgoT().TempDir(), "pak")
		_, notes, err := build.InitRelease(dir, []*release.Release{both}, []string{"j", "other"})
		Expect(err).NotTo(HaveOccurred())
		Expect(notes).To(Equal([]string{
			"decide: the job j consumes the link logs of type syslog, which no job of the pak provides",
		}))
		Expect(os.ReadFile(filepath.Join(dir, "bosh", "manifest.yml"))).To(HaveSuffix(
			"instance_groups:\n- name: j\n  jobs:\n  - name: j\n  - name: other\n"))
		Expect(os.ReadFile(filepath.Join(dir, "tests", "defaults.yml"))).To(
			ContainSubstring("releases:\n- {name: r, version: \"1\", jobs: [\"j\",\"other\"]}\n"))
	})
})

// FuzzInitRelease: whatever the spec of a job contains, the pak can be opened and has no findings.
func FuzzInitRelease(f *testing.F) {
	f.Add("a.b", "text: # ((x)) ${y}", "z")
	f.Add("null", "\u2028- x\n\x85", "((y)")
	f.Add("a.b.private_key", "'\"{", "\x00")
	f.Add("0", "0", "\x7f\u0085\u009f\ufeff\uffff\U0010ffff")
	f.Fuzz(func(t *testing.T, name, text, content string) {
		if len(name)+len(text)+len(content) > 1000 {
			return
		}
		from := jobWith(`<%= p("required") %>`, map[string]release.Property{
			name: {Description: text}, "x." + name: {Default: content, HasDefault: true, Description: content},
			"required": {Example: content, Description: text},
		})
		dir := filepath.Join(t.TempDir(), "pak")
		if _, _, err := build.InitRelease(dir, []*release.Release{from}, []string{"j"}); err != nil {
			t.Fatal(err)
		}
		report, err := lint.Lint(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range report.Diagnostics {
			if finding.Severity != diag.Notice && finding.Rule != "unpinned" {
				t.Errorf("%q, %q, %q: %s: %s", name, text, content, finding.Pos, finding.Message)
			}
		}
	})
}
