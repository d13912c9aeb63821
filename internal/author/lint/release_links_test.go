package lint_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// linkRelease is a release whose jobs provide and consume links of all kinds.
var linkRelease = map[string]string{
	"links/jobs/server/spec": "name: server\nprovides: [{name: db, type: database, properties: [port]}]\n" +
		"properties: {port: {default: 1}, tls.enabled: {default: false}, tls.key: {}, accounts: {}}\n" +
		"templates: {tls.erb: tls}\n",
	"links/jobs/server/templates/tls.erb": `<% if p("tls.enabled") %><%= p("tls.key") %><% end %>` + "\n",
	"links/jobs/client/spec":              "name: client\nconsumes: [{name: db, type: database}]\n",
	"links/jobs/tool/spec": "name: tool\nconsumes: [{name: db, type: database, optional: true}, " +
		"{name: disk, type: disk, optional: true}]\n",
}

// A manifest is the jobs of one group in a manifest, with other parts of the manifest behind them.
var _ = DescribeTable("Links and properties", func(jobs string, want ...string) {
	manifest := "instance_groups:\n- name: server\n  jobs:\n" + jobs
	found, _ := lintPak(writePak(map[string]string{"bosh/manifest.yml": manifest}), writeReleases(linkRelease)...)
	if want == nil {
		want = []string{}
	}
	Expect(lines(found)).To(HaveExactElements(containing(want)...))
},
	Entry("a link that the manifest does not mention", "  - name: server\n  - name: client\n"),
	Entry("a link by its name", "  - name: server\n  - {name: client, consumes: {db: {from: db}}}\n"),
	Entry("a link by a name with a prefix", "  - name: server\n  - {name: client, consumes: {db: {from: x.db}}}\n"),
	Entry("a link with a network and addresses",
		"  - name: server\n  - {name: client, consumes: {db: {network: default, ip_addresses: true}}}\n"),
	Entry("a shared link with a name", "  - {name: server, provides: {db: {as: main, shared: true}}}\n"+
		"  - {name: client, consumes: {db: {from: main}}}\n"),
	Entry("a link of another deployment", "  - {name: client, consumes: {db: {from: db, deployment: other}}}\n"),
	Entry("a link that the manifest describes",
		"  - {name: client, consumes: {db: {instances: [{address: 10.0.0.1}], properties: {port: 2}}}}\n"),
	Entry("an optional link without a provider", "  - name: tool\n"),
	Entry("an optional link that is refused", "  - name: server\n  - {name: tool, consumes: {db: nil}}\n"),
	Entry("a custom provider", "  - name: server\n    provides: {db: {as: main}}\n"+
		"    custom_provider_definitions: [{name: admin, type: database, properties: [tls.enabled, accounts]}]\n"+
		"  - {name: client, consumes: {db: {from: admin}}}\n"),
	Entry("a provider in an addon", "  - name: client\naddons:\n- {name: all, jobs: [{name: server}]}\n"),
	Entry("a provider in an addon for another group",
		"  - name: client\naddons:\n- {name: all, jobs: [{name: server}], include: {instance_groups: [other]}}\n",
		`job "client" in group "server" consumes the link "db" of the type "database", and no job of the deployment`),
	Entry("a provider in an addon for groups with a job", "  - name: client\n"+
		"addons:\n- {name: all, jobs: [{name: server}], exclude: {jobs: [{name: client, release: links}]}}\n",
		`consumes the link "db" of the type "database", and no job of the deployment`),
	Entry("a required link that is refused", "  - name: server\n  - {name: client, consumes: {db: nil}}\n",
		`consumes the link "db", which is not optional, so that it cannot be nil`),
	Entry("a link from nil", "  - name: server\n  - {name: tool, consumes: {db: {from: nil}}}\n",
		`consumes the link "db" from "nil" of the type "database", which no job provides; links of this type are db`),
	Entry("an optional link that the manifest mentions", "  - {name: tool, consumes: {db: {from: db}}}\n",
		`consumes the link "db" from "db" of the type "database", which no job provides`),
	Entry("a provider with another type",
		"  - name: server\n    custom_provider_definitions: [{name: main, type: x}]\n"+
			"  - {name: client, consumes: {db: {from: main}}}\n",
		`from "main" of the type "database", which no job provides; "main" of job "server" in group "server" has the `+
			`type "x"; links of this type are db`),
	Entry("several providers", "  - name: server\n  - name: client\n- {name: other, jobs: [{name: server}]}\n",
		`of the type "database", which several jobs provide: "db" of job "server" in group "server", and "db" of job `+
			`"server" in group "other"; choose one by consumes.db.from`),
	Entry("several providers of an optional link",
		"  - name: server\n  - name: tool\n- {name: other, jobs: [{name: server}]}\n", `which several jobs provide`),
	Entry("several providers with a name", "  - name: server\n  - {name: client, consumes: {db: {from: db}}}\n"+
		"- {name: other, jobs: [{name: server}]}\n",
		`which several jobs provide: "db" of job "server" in group "server", and "db" of job "server" in group `+
			`"other"; `+"give them different names by the key as of provides"),
	Entry("an unknown provided link", "  - {name: server, provides: {dbs: {as: main}}}\n",
		`job "server" provides no link "dbs", and BOSH ignores it; did you mean "db"?; it provides db`),
	Entry("a custom provider with the name of a link",
		"  - {name: server, custom_provider_definitions: [{name: db, type: x}]}\n",
		`job "server" provides a link "db" already`),
	Entry("a custom provider with a property that does not exist",
		"  - {name: server, custom_provider_definitions: [{name: x, type: x, properties: [tls.enable]}]}\n",
		`the link "x" publishes the property "tls.enable", which job "server" does not have; `+
			`did you mean "tls.enabled"?`),
	Entry("no provider if a job is unknown", "  - name: client\n  - name: sever\n",
		`no release of --release contains a job "sever"`),
	Entry("properties of the group and the manifest",
		"  - name: server\n  properties: {unknown: 1}\nproperties: {other: 2}\n"),
	Entry("keys below a property", "  - {name: server, properties: {accounts: {admin: {role: x}}}}\n"),
	Entry("a property that a switch needs", "  - {name: server, properties: {tls: {enabled: true}}}\n",
		`warning: job "server" needs the property "tls.key", which has no default and is not set; line 1 of its `+
			`template tls.erb reads it if "tls.enabled" is true`),
	Entry("a property that a switch does not need", "  - {name: server, properties: {tls: {enabled: false}}}\n"),
	Entry("a property that is a variable", "  - {name: server, properties: {tls: {enabled: true, key: ((key))}}}\n"+
		"variables: [{name: key, type: password}]\n"),
	Entry("a mapping for a number", "  - {name: server, properties: {port: {number: 1}}}\n",
		`property "port" of job "server" is a mapping here, and the spec declares it with the default 1`),
	Entry("a text for a mapping", "  - {name: server, properties: {tls: enabled}}\n",
		`property "tls" of job "server" must be a mapping, because the spec declares tls.enabled`),
)

var _ = Describe("Releases", func() {
	It("have versions that expressions see", func() {
		pak := writePak(map[string]string{
			"bosh/manifest.yml": "instance_groups:\n- name: server\n  jobs: []\n",
			"bosh/client.yml": "- {type: replace, path: /instance_groups/name=server/jobs/-, " +
				"value: {name: client}}\n",
			"service.yml": "provision:\n  bosh:\n    manifest_ref: bosh/manifest.yml\n    ops:\n" +
				"    - {ref: bosh/client.yml, if: '${release.version(\"links\") == \"9\"}'}\n",
		})
		releases := writeReleases(linkRelease)
		found, _ := lintPak(pak, releases...)
		Expect(lines(found)).To(BeEmpty())
		releases[0].Version = "9"
		found, _ = lintPak(pak, releases...)
		Expect(lines(found)).To(HaveExactElements(ContainSubstring("bosh/client.yml:1:")))
	})

	It("are not compared with combinations of ops files that no plan has", func() {
		server := "- {type: replace, path: /instance_groups/name=server/jobs/-, value: {name: server%s}}\n"
		pak := writePak(map[string]string{
			"bosh/manifest.yml": "instance_groups:\n- name: server\n  jobs: [{name: client}]\n" +
				"- name: other\n  jobs: []\n",
			"bosh/one.yml": fmt.Sprintf(server, ""),
			"bosh/two.yml": strings.ReplaceAll(
				fmt.Sprintf(server, ", properties: {prot: 1}"), "name=server", "name=other"),
			"service.yml": "provision:\n" +
				"  user_inputs:\n  - {field_name: two, type: boolean, default: false, details: x}\n" +
				"  bosh:\n    manifest_ref: bosh/manifest.yml\n    ops:\n" +
				"    - {ref: bosh/one.yml, if: '${!two}'}\n    - {ref: bosh/two.yml, if: '${two}'}\n",
		})
		found, _ := lintPak(pak, writeReleases(linkRelease)...)
		Expect(lines(found)).To(HaveExactElements(And(
			HavePrefix("bosh/two.yml:1:"), ContainSubstring(`has no property "prot"`))))
	})

	It("are given once", func() {
		opened := writeReleases(linkRelease)[0]
		pak := writePak(map[string]string{"bosh/manifest.yml": "instance_groups:\n- name: server\n  jobs: []\n"})
		found, _ := lintPak(pak, opened, opened)
		Expect(lines(found)).To(ConsistOf(`manifest.yml:1: --release names two releases with the name "links"; ` +
			"a deployment has one version of a release [release-job]"))
	})

	It("are compared with each plan, whose optional groups the checks choose", func() {
		manifest := "instance_groups:\n- name: server\n  jobs: [{name: client}]\n" +
			"- name: other\n  jobs: [{name: server}]\n"
		service := "plans:\n" +
			"- {name: small, id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11, description: s, display_name: S, " +
			"properties: {cluster: false}}\n" +
			"- {name: large, id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a12, description: l, display_name: L, " +
			"properties: {cluster: true}}\n" +
			"provision:\n  plan_inputs:\n  - {field_name: cluster, type: boolean, details: x}\n  bosh:\n" +
			"    manifest_ref: bosh/manifest.yml\n    optional_instance_groups: [other]\n    checks:\n" +
			"    - {that: '${plan.has_group(\"other\") == cluster}', message: m, audience: operator}\n"
		found, report := lintPak(writePak(map[string]string{"bosh/manifest.yml": manifest, "service.yml": service}),
			writeReleases(linkRelease)...)
		Expect(lines(found)).To(HaveExactElements(
			MatchRegexp(`^bosh/manifest.yml:3:11: .* no job of the deployment provides .*; ` +
				`the plans with this finding are small `)))
		Expect(report.Notes).NotTo(ContainElement(ContainSubstring("compared")))

		// Only the large plan has the group with the client, and the server that it needs.
		found, _ = lintPak(writePak(map[string]string{
			"bosh/manifest.yml": "instance_groups:\n- name: server\n  jobs: []\n" +
				"- name: other\n  jobs: [{name: client}]\n",
			"bosh/server.yml": "- {type: replace, path: /instance_groups/name=server/jobs/-, " +
				"value: {name: server}}\n",
			"service.yml": service + "    ops: [{ref: bosh/server.yml, if: '${cluster}'}]\n",
		}), writeReleases(linkRelease)...)
		Expect(lines(found)).To(BeEmpty())
	})
})

// containing returns matchers of strings that contain the texts.
func containing(texts []string) []any {
	var all []any
	for _, text := range texts {
		all = append(all, ContainSubstring(text))
	}
	return all
}
