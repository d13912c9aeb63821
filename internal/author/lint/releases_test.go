package lint_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
)

// testReleases is the directory of the releases in the repository, which contain the jobs of public releases.
const testReleases = "../release/testdata/releases/"

// mysqlManifest deploys a cluster of pxc-release with every kind of link that its jobs have.
const mysqlManifest = `instance_groups:
- name: mysql
  jobs:
  - name: pxc-mysql
    provides:
      mysql: {as: cluster}
    consumes:
      mysql: {from: cluster}
      cluster-health-logger: nil
    properties:
      admin_password: ((admin))
      engine_config:
        max_connections: 500
        galera:
          enabled: true
      seeded_users:
        app: {role: admin, host: any, password: ((app))}
      tls:
        required: true
        galera:
          ca: ((tls.ca))
          certificate: ((tls.certificate))
          private_key: ((tls.private_key))
        server:
          ca: ((tls.ca))
          certificate: ((tls.certificate))
          private_key: ((tls.private_key))
  - name: galera-agent
    properties: {db_password: ((agent)), endpoint_password: ((endpoint))}
- name: proxy
  jobs:
  - name: proxy
    consumes:
      mysql: {from: cluster, ip_addresses: true}
      proxy: {from: proxies, deployment: another}
    properties:
      api_password: ((proxy))
variables:
- {name: admin, type: password}
- {name: app, type: password}
- {name: agent, type: password}
- {name: endpoint, type: password}
- {name: proxy, type: password}
- {name: tls, type: certificate, options: {common_name: mysql, is_ca: true}}
`

// releasesOf returns the test releases that a pak needs: those that have one of its jobs. The result is nil if none of
// them is a public release.
func releasesOf(pak string) []*release.Release {
	GinkgoHelper()
	var text strings.Builder
	for _, pattern := range []string{"bosh/*.yml", "bosh/*/*.yml"} {
		files, err := filepath.Glob(filepath.Join(pak, pattern))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			text.Write(content)
		}
	}
	var releases []*release.Release
	public := false
	directories, err := filepath.Glob(testReleases + "*/config")
	Expect(err).NotTo(HaveOccurred())
	for _, directory := range directories {
		opened := openRelease(filepath.Dir(directory))
		if slices.ContainsFunc(opened.Jobs, func(job release.Job) bool {
			return regexp.MustCompile(`name: ` + job.Name + `\b[^-]`).MatchString(text.String())
		}) {
			releases = append(releases, opened)
			names := []string{"postgres", "pxc", "rabbitmq-forge", "redis-forge"}
			public = public || slices.Contains(names, opened.Name)
		}
	}
	if !public {
		return nil
	}
	return releases
}

// ofReleases returns the findings whose rules compare manifests with releases.
func ofReleases(found []diag.Diagnostic) []diag.Diagnostic {
	return slices.DeleteFunc(slices.Clone(found), func(item diag.Diagnostic) bool {
		return !strings.HasPrefix(item.Rule, "release-")
	})
}

var _ = Describe("Releases", func() {
	It("reports no findings for the examples that deploy them", func() {
		examples, err := filepath.Glob("../../../examples/*/manifest.yml")
		Expect(err).NotTo(HaveOccurred())
		var compared []string
		for _, example := range examples {
			pak := filepath.Dir(example)
			if releases := releasesOf(pak); releases != nil {
				compared = append(compared, filepath.Base(pak))
				found, report := lintPak(pak, releases...)
				Expect(lines(found)).To(BeEmpty())
				Expect(report.Notes).NotTo(ContainElement(ContainSubstring("compared")))
			}
		}
		Expect(compared).To(ContainElements("postgresql", "rabbitmq", "redis", "redis-cluster"))
	})

	It("reports no findings for a cluster of pxc-release", func() {
		pak := writePak(map[string]string{"bosh/manifest.yml": mysqlManifest})
		found, _ := lintPak(pak, openRelease(testReleases+"pxc"))
		Expect(lines(found)).To(BeEmpty())
	})

	const postgresql, rabbitmq, rabbitmqTLS = "postgresql/bosh/postgresql.yml", "rabbitmq/bosh/rabbitmq.yml",
		"rabbitmq/bosh/tls.yml"
	const cluster, clusterTLS, mysql = "redis-cluster/bosh/redis-cluster.yml", "redis-cluster/bosh/tls.yml",
		"mysql/bosh/manifest.yml"
	seeded := 0
	// seed copies a pak, makes a mistake in one of its files, and expects a single finding in the line that contains
	// a text. The last argument lists jobs that another release has as well.
	seed := func(rule, file, old, mistake, line, message string, also ...string) {
		seeded++
		It("detects the seeded mistake "+rule+": "+message, func() {
			name, path, _ := strings.Cut(file, "/")
			pak := ""
			if name == "mysql" {
				pak = writePak(map[string]string{"bosh/manifest.yml": mysqlManifest})
			} else {
				pak = GinkgoT().TempDir()
				Expect(os.CopyFS(pak, os.DirFS("../../../examples/"+name))).To(Succeed())
			}
			releases := releasesOf(pak)
			for _, job := range also {
				another := map[string]string{"another/jobs/" + job + "/spec": "name: " + job}
				releases = append(releases, writeReleases(another)...)
			}
			text, err := os.ReadFile(filepath.Join(pak, path))
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(string(text), old)).To(Equal(1), old)
			changed := strings.Replace(string(text), old, mistake, 1)
			Expect(os.WriteFile(filepath.Join(pak, path), []byte(changed), 0o600)).To(Succeed())
			found, _ := lintPak(pak, releases...)
			found = ofReleases(found)
			Expect(found).To(HaveLen(1), "%v", lines(found))
			Expect(found[0].Rule).To(Equal(rule))
			Expect(found[0].Message).To(ContainSubstring(message))
			Expect(found[0].Pos.File).To(Equal(path))
			Expect(strings.Split(changed, "\n")[found[0].Pos.Line-1]).To(ContainSubstring(line))
		})
	}

	seed("release-job", postgresql, "  - name: postgres\n    properties", "  - name: postgress\n    properties",
		"name: postgress", `no release of --release contains a job "postgress"; did you mean "postgres"?`)
	seed("release-job", rabbitmq, "  - name: rabbitmq\n", "  - name: syslog\n  - name: rabbitmq\n", "name: syslog",
		`no release of --release contains a job "syslog"`)
	seed("release-job", clusterTLS, "- type: replace\n  path: /variables?",
		"- type: replace\n  path: /instance_groups/name=node/jobs/-\n  value: {name: cluster-8}\n"+
			"- type: replace\n  path: /variables?", "cluster-8",
		`no release of --release contains a job "cluster-8"; did you mean`)
	seed("release-job", cluster, "  - name: form-cluster\n    consumes",
		"  - name: form-cluster\n    release: redis-forge\n    consumes", "name: form-cluster",
		`the release "redis-forge" has no job "form-cluster"`)
	seed("release-job", cluster, "  - name: form-cluster\n    consumes",
		"  - name: form-cluster\n    release: errands\n    consumes", "release: errands",
		`job "form-cluster" is from the release "errands", which is not one of the releases of --release`)
	seed("release-job", mysql, "variables:\n", "addons:\n- name: helpers\n  jobs: [{name: boot-strap}]\nvariables:\n",
		"boot-strap", `no release of --release contains a job "boot-strap"; did you mean "bootstrap"?`)

	seed("release-property", postgresql, "max_connections: ((", "max_connection: ((", "max_connection:",
		`job "postgres" has no property "databases.max_connection", and BOSH ignores it; `+
			`did you mean "databases.max_connections"?`)
	seed("release-property", rabbitmq, "cookie:", "cokie:", "cokie:",
		`has no property "erlang.cokie", and BOSH ignores it; did you mean "erlang.cookie"?`)
	seed("release-property", rabbitmqTLS, "    crt: ", "    cert: ", "    cert:",
		`has no property "rabbitmq.tls.cert"`)
	seed("release-property", cluster, "maxmemory-policy", "maxmemory_policy", "maxmemory_policy",
		`did you mean "redis.maxmemory-policy"?`)
	seed("release-property", mysql, "      engine_config:\n", "      engine-config:\n", "engine-config:",
		`has no property "engine-config", and BOSH ignores it; did you mean "engine_config"?`)
	seed("release-property", mysql, "        required: true\n", "        server.ca: ((tls.ca))\n", "server.ca:",
		`cannot read a key with a dot such as "server.ca"; write nested mappings, such as server: {ca: …}`)

	seed("release-link", cluster, "redis: {from: redis}", "redis: {from: nodes}", "from: nodes",
		`consumes the link "redis" from "nodes" of the type "conn", which no job provides`)
	seed("release-link", rabbitmq, "{as: rabbitmq-servers}", "{as: nodes}", "from: rabbitmq-servers",
		`from "rabbitmq-servers" of the type "rabbitmq-server", which no job provides; links of this type are nodes`)
	seed("release-link", rabbitmq, "    consumes:\n      rabbitmq-servers", "    consumes:\n      rabbitmq-server",
		"      rabbitmq-server: {from",
		`consumes no link "rabbitmq-server", and BOSH ignores it; did you mean "rabbitmq-servers"?`)
	seed("release-link", clusterTLS, "{from: redis-address,", "{from: redis-addresses,", "redis-addresses",
		`variable "redis_tls" consumes the link "alternative_name" from "redis-addresses" of the type "address"`)
	seed("release-link", mysql,
		"  - name: galera-agent\n    properties: {db_password: ((agent)), endpoint_password: ((endpoint))}\n",
		"", "- name: proxy", `job "proxy" in group "proxy" consumes the link "galera-agent" of the type `+
			`"galera-agent", and no job of the deployment provides a link of this type`)
	seed("release-link", postgresql, "variables:\n- name: pg_admin_password",
		"- name: replica\n  jobs:\n  - name: postgres\n"+
			"    custom_provider_definitions:\n    - {name: postgres-address, type: address}\n"+
			"variables:\n- name: pg_admin_password", "alternative_name",
		`from "postgres-address", which several jobs provide: "postgres-address" of job "postgres" in group `+
			`"postgres", and`)

	seed("release-several", postgresql, "stemcells:", "stemcells:", "name: postgres",
		`the releases postgres and another have a job "postgres"`, "postgres")
	seed("release-several", rabbitmq, "stemcells:", "stemcells:", "name: rabbitmq",
		`the releases rabbitmq-forge and another have a job "rabbitmq"`, "rabbitmq")
	seed("release-several", cluster, "stemcells:", "stemcells:", "name: cluster-7",
		`have a job "cluster-7"`, "cluster-7")
	seed("release-several", cluster, "stemcells:", "stemcells:", "name: form-cluster",
		`have a job "form-cluster"`, "form-cluster")
	seed("release-several", mysql, "variables:", "variables:", "name: pxc-mysql", `have a job "pxc-mysql"`, "pxc-mysql")
	seed("release-several", clusterTLS, "- type: replace\n  path: /variables?",
		"- type: replace\n  path: /instance_groups/name=node/jobs/name=cluster-7:before\n"+
			"  value: {name: standalone-7}\n- type: replace\n  path: /variables?", "standalone-7",
		`have a job "standalone-7"`, "standalone-7")

	seed("release-unset", rabbitmq, "        plan: ((kind))\n", "", "rabbitmq:",
		`job "rabbitmq" needs the property "rabbitmq.plan", which has no default and is not set`)
	seed("release-unset", cluster, "      auth:\n        password: ((password))\n", "", "properties:",
		`job "cluster-7" needs the property "auth.password"`)
	seed("release-unset", cluster, "      password: ((password))\n      replicas: ((replicas))\n",
		"      password: ((password))\n", "properties:", `job "form-cluster" needs the property "replicas"`)
	seed("release-unset", mysql, "      admin_password: ((admin))\n", "", "properties:",
		`job "pxc-mysql" needs the property "admin_password"`)
	seed("release-unset", mysql, "        server:\n          ca: ((tls.ca))\n", "        server:\n", "        server:",
		`job "pxc-mysql" needs the property "tls.server.ca"`)
	seed("release-unset", mysql, "        galera:\n          ca: ((tls.ca))\n", "        galera:\n", "        galera:",
		`job "pxc-mysql" needs the property "tls.galera.ca", which has no default and is not set; line 1 of its `+
			`template required.erb reads it if "engine_config.galera.enabled" is true`)

	It("detects thirty seeded mistakes", func() { Expect(seeded).To(Equal(30)) })
})
