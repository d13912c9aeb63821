package prepare_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter/session"
	"service-adapter/internal/operate/prepare"
	"service-adapter/spec/kit/site"
)

// Settings of the tests: a key of 32 bytes, and a state backend that the adapter and the errands share.
const (
	zeroKey    = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	sameState  = `{type: pg, config: {conn_str: "postgres://a@b/c"}}`
	errandPaks = "paks: [/var/vcap/packages/service-adapter-paks/one]"
)

// template returns a provision template with an input that is computed by an expression.
func template(input string) string {
	return "[]\n  computed_inputs:\n  - " + input + `
  template: |
    variable "path" { type = string }
    output "path" { value = var.path }`
}

// run calls prepare.Run and returns its warnings and the text of its error, "" for none.
func run(s *site.Site) (warnings, failure string) {
	invocation := session.Process{Stderr: &bytes.Buffer{}, Getenv: s.Getenv}
	done, err := prepare.Run(context.Background(), invocation, filepath.Join(s.Dir, "prepared"))
	if done != nil {
		warnings = strings.Join(done.Warnings, "\n")
	}
	if err != nil {
		failure = err.Error()
	}
	return warnings, failure
}

// generateWithErrands creates an instance whose plan has both lifecycle errands.
func generateWithErrands(s *site.Site) site.Answer {
	GinkgoHelper()
	created := site.Instance()
	created.Plan["lifecycle_errands"] = object{
		"post_deploy": []any{object{"name": "apply-instance", "instances": []string{"server/0"}}},
		"pre_delete":  []any{object{"name": "destroy-instance", "instances": []string{"server/0"}}},
	}
	created.Deployment.Releases[0].Jobs = append(created.Deployment.Releases[0].Jobs, "apply-instance",
		"destroy-instance")
	return s.Call("generate-manifest", created.Generate(site.Body(nil)))
}

var _ = Describe("errand_properties", func() {
	var s *site.Site

	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Inputs: template("{name: path, type: string, default: '/${request.instance_id}', overwrite: true}"),
		}.String()))
	})

	// configure sets the state of the adapter and the properties of the errands, in YAML. A state of "" is that of
	// the backend pg.
	configure := func(state, properties string) {
		if state == "" {
			state = sameState
		}
		s.Env["SERVICE_ADAPTER_STATE"], s.Env["SERVICE_ADAPTER_ERRAND_PROPERTIES"] = state, properties
	}

	DescribeTable("are rejected if their state differs from that of the adapter",
		func(state, errands, message string) {
			configure(state, "{"+errandPaks+", state: "+errands+"}")
			_, failure := run(s)
			Expect(failure).To(And(HavePrefix("checking the configuration: "), ContainSubstring(message)))
			result := generateWithErrands(s)
			Expect(result.Code).To(Equal(1))
			Expect(result.Stderr).To(ContainSubstring(strings.ReplaceAll(message, `"`, `\"`)))
			Expect(failure + result.Stdout + result.Stderr).NotTo(ContainSubstring("planted"))
		},
		Entry("type", sameState, `{type: s3, config: {bucket: a, key: b}}`,
			"errand_properties must have the same state.type as the adapter"),
		Entry("local, with a reference", `{config: {dir: /states}}`, `{type: ((type)), config: {dir: /states}}`,
			"which must not be local"),
		Entry("pg: schema", `{type: pg, config: {schema_name: one}}`, `{type: pg, config: {schema_name: planted}}`,
			"errand_properties.state.config.schema_name "),
		Entry("pg: the default schema", `{type: pg}`, `{type: pg, config: {schema_name: planted}}`,
			`OpenTofu's default is "terraform_remote_state"`),
		Entry("pg: the default schema of the errands", `{type: pg, config: {schema_name: planted}}`, `{type: pg}`,
			"errand_properties.state.config.schema_name "),
		Entry("pg: table", sameState, `{type: pg, config: {table_name: planted}}`,
			"errand_properties.state.config.table_name "),
		Entry("s3: bucket", `{type: s3, config: {bucket: a, key: k}}`, `{type: s3, config: {bucket: planted, key: k}}`,
			"errand_properties.state.config.bucket "),
		Entry("s3: key", `{type: s3, config: {bucket: a, key: k}}`, `{type: s3, config: {bucket: a, key: planted}}`,
			"errand_properties.state.config.key "),
		Entry("s3: prefix", `{type: s3, config: {bucket: a, key: k}}`,
			`{type: s3, config: {bucket: a, key: k, workspace_key_prefix: planted}}`,
			"errand_properties.state.config.workspace_key_prefix "),
		Entry("s3: an empty prefix is not the default", `{type: s3, config: {bucket: a, key: k}}`,
			`{type: s3, config: {bucket: a, key: k, workspace_key_prefix: ""}}`,
			`OpenTofu's default is "env:"`),
		Entry("gcs: bucket", `{type: gcs, config: {bucket: a}}`, `{type: gcs, config: {bucket: planted}}`,
			"errand_properties.state.config.bucket "),
		Entry("gcs: prefix", `{type: gcs, config: {bucket: a}}`, `{type: gcs, config: {bucket: a, prefix: planted}}`,
			"errand_properties.state.config.prefix "),
		Entry("azurerm: container", `{type: azurerm, config: {container_name: a, key: k}}`,
			`{type: azurerm, config: {container_name: planted, key: k}}`,
			"errand_properties.state.config.container_name "),
		Entry("azurerm: key", `{type: azurerm, config: {container_name: a, key: k}}`,
			`{type: azurerm, config: {container_name: a, key: planted}}`,
			"errand_properties.state.config.key "),
		Entry("no encryption of the errands", `{type: pg, encryption: {key: `+zeroKey+`}}`, `{type: pg}`,
			"errand_properties.state.encryption.key must be set"),
		Entry("an encryption without a key", `{type: pg, encryption: {key: `+zeroKey+`}}`,
			`{type: pg, encryption: {old_keys: [planted]}}`,
			"errand_properties.state.encryption.key must be set"),
		Entry("encryption of the errands alone", `{type: pg}`,
			`{type: pg, encryption: {key: '${credhub("/planted")}'}}`,
			"errand_properties.state.encryption must not be set"),
		Entry("encryption that is a reference", `{type: pg}`, `{type: pg, encryption: ((planted))}`,
			"errand_properties.state.encryption must not be set"),
	)

	DescribeTable("are accepted if only the connection to the state differs",
		func(state, errands string) {
			configure(state, "{"+errandPaks+", state: "+errands+"}")
			_, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
			result := generateWithErrands(s)
			Expect(result.Code).To(Equal(0), result.Stderr)
			Expect(result.Stderr).NotTo(ContainSubstring("level=WARN"))
		},
		Entry("host, user and certificates", `{type: pg, config: {conn_str: "postgres://a@b/c"}}`,
			`{type: pg, config: {conn_str: "postgres://${request.instance_id}@d/c?sslrootcert=/x", `+
				`index_name: i, skip_schema_creation: true}}`),
		Entry("an absent schema and table, and OpenTofu's", `{type: pg, config: {conn_str: x}}`,
			`{type: pg, config: {conn_str: x, schema_name: terraform_remote_state, table_name: states}}`),
		Entry("an absent schema and null", `{type: pg, config: {schema_name: null}}`, `{type: pg}`),
		Entry("s3: region, credentials and the default prefix",
			`{type: s3, config: {bucket: a, key: k, region: eu, access_key: x}}`,
			`{type: s3, config: {bucket: a, key: k, region: us, workspace_key_prefix: "env:", `+
				`access_key: '${credhub("/k")}'}}`),
		Entry("gcs: slashes around the prefix", `{type: gcs, config: {bucket: a, prefix: p}}`,
			`{type: gcs, config: {bucket: a, prefix: /p/}}`),
		Entry("azurerm: the account", `{type: azurerm, config: {container_name: a, key: k, storage_account_name: x}}`,
			`{type: azurerm, config: {container_name: a, key: k, storage_account_name: y}}`),
		Entry("references", `{type: pg, config: {schema_name: one}}`,
			`{type: pg, config: {schema_name: '${credhub("/schema")}', table_name: ((table))}}`),
		Entry("a reference to all settings", `{type: pg, config: {schema_name: one}}`,
			`{type: pg, config: ((settings))}`),
		Entry("references of the adapter", `{type: pg, config: {schema_name: ((schema))}}`,
			`{type: pg, config: {schema_name: one}}`),
		Entry("encryption on both sides with other keys", `{type: pg, encryption: {key: `+zeroKey+`}}`,
			`{type: pg, encryption: {key: '${credhub("/k")}', old_keys: [a]}}`),
		Entry("encryption by a reference", `{type: pg, encryption: {key: `+zeroKey+`}}`,
			`{type: pg, encryption: ((e))}`),
		Entry("a backend whose settings are not known", `{type: consul, config: {path: a}}`,
			`{type: consul, config: {path: b}}`),
	)

	It("are compared after their expressions are evaluated for the instance", func() {
		configure(`{type: gcs, config: {bucket: a, prefix: `+site.ServiceID+`}}`,
			"{"+errandPaks+", state: {type: gcs, config: {bucket: a, prefix: '${request.service_id}'}}}")
		Expect(generateWithErrands(s).Code).To(Equal(0))
		configure("", "{"+errandPaks+", state: {type: pg, config: {schema_name: '${request.instance_id}'}}}")
		_, failure := run(s)
		Expect(failure).NotTo(HavePrefix("checking the configuration: "), "the instance is not known")
		result := generateWithErrands(s)
		Expect(result.Code).To(Equal(1))
		Expect(result.Stderr).To(ContainSubstring("errand_properties.state.config.schema_name "))
	})

	DescribeTable("are rejected if no errand could work with them",
		func(properties, message string) {
			s.Env["SERVICE_ADAPTER_BUDGET"], s.Env["SERVICE_ADAPTER_ERRAND_LIMIT"] = "30s", "40s"
			configure("", properties)
			_, failure := run(s)
			Expect(failure).To(And(HavePrefix("checking the configuration: "), ContainSubstring(message)))
			result := generateWithErrands(s)
			Expect(result.Code).To(Equal(1))
			Expect(result.Stderr).To(ContainSubstring(message))
		},
		Entry("no paks", "{errand_limit: 1h, state: "+sameState+"}", "errand_properties.paks must name"),
		Entry("an empty list of paks", "{errand_limit: 1h, paks: [], state: "+sameState+"}",
			"errand_properties.paks must name"),
		Entry("the adapter's limit below the job's budget", "{"+errandPaks+", state: "+sameState+"}",
			"the errand_limit of the errands, 40s, must not be below their budget, 45s"),
		Entry("their limit below the job's budget", "{"+errandPaks+", state: "+sameState+", errand_limit: 44s}",
			"the errand_limit of the errands, 44s, must not be below their budget, 45s"),
		Entry("their limit below their budget", "{"+errandPaks+", state: "+sameState+", errand_limit: 1m, budget: 2m}",
			"the errand_limit of the errands, 1m0s, must not be below their budget, 2m0s"),
		Entry("a limit that is not a duration", "{"+errandPaks+", state: "+sameState+", errand_limit: soon}",
			"errand_properties.errand_limit must be a duration"),
	)

	DescribeTable("may leave the limit to the adapter and the job",
		func(properties string) {
			s.Env["SERVICE_ADAPTER_BUDGET"], s.Env["SERVICE_ADAPTER_ERRAND_LIMIT"] = "30s", "40s"
			configure("", properties)
			_, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
			result := generateWithErrands(s)
			Expect(result.Code).To(Equal(0), result.Stderr)
		},
		Entry("equal ones", "{"+errandPaks+", state: "+sameState+", errand_limit: 45s}"),
		Entry("a smaller budget", "{"+errandPaks+", state: "+sameState+", budget: 40s}"),
		Entry("null, for which the job has a limit", "{"+errandPaks+", state: "+sameState+", errand_limit: null}"),
		Entry("references", "{paks: ((paks)), state: "+sameState+", errand_limit: ((limit)), budget: 2h}"),
	)

	It("must not have keys that the jobs lack: an error of prepare, a warning for each manifest", func() {
		configure("", "{"+errandPaks+", errand_limitt: 1h, state: {type: pg, encrypt: true, config: {anything: x}}}")
		_, failure := run(s)
		Expect(failure).To(And(
			ContainSubstring(`unknown key "errand_limitt" in errand_properties; did you mean "errand_limit"?`),
			ContainSubstring(`unknown key "encrypt" in errand_properties.state`),
			Not(ContainSubstring("anything")),
		))
		result := generateWithErrands(s)
		Expect(result.Code).To(Equal(0), result.Stderr)
		Expect(result.Stderr).To(And(ContainSubstring("level=WARN"), ContainSubstring("errand_limitt"),
			ContainSubstring("encrypt")))
	})

	It("may have the properties of the jobs, and no others", func() {
		for _, job := range []string{"apply-instance", "destroy-instance"} {
			var spec struct{ Properties map[string]any }
			jobSpec := site.ReadFile(filepath.Join("..", "..", "..", "jobs", job, "spec"))
			Expect(yaml.Unmarshal([]byte(jobSpec), &spec)).To(Succeed())
			properties := object{}
			for name := range spec.Properties {
				if name == "intent" || name == "secrets" || name == "instance_id" { // the adapter sets these
					continue
				}
				into := properties
				path := strings.Split(name, ".")
				for _, key := range path[:len(path)-1] {
					if into[key] == nil {
						into[key] = object{}
					}
					into = into[key].(object)
				}
				into[path[len(path)-1]] = "((" + name + "))"
			}
			text, err := yaml.Marshal(properties)
			Expect(err).NotTo(HaveOccurred())
			configure(`{type: pg, encryption: {key: `+zeroKey+`}}`, string(text))
			_, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
		}
		configure("", "{"+errandPaks+", intent: x, state: "+sameState+"}")
		_, failure := run(s)
		Expect(failure).To(ContainSubstring(`unknown key "intent" in errand_properties`))
	})

	Describe("with a pak that reads the configuration", func() {
		const reading = `{name: path, type: string, default: '${config("entries.path")}', overwrite: true}`

		// serve serves a pak that reads the configuration and requires an environment variable.
		serve := func(definitions ...string) string {
			pak := s.Pak("reading", definitions...)
			manifest := filepath.Join(pak, "manifest.yml")
			Expect(os.WriteFile(manifest, []byte(site.ReadFile(manifest)+"required_env_variables: [GCP_KEY]\n"),
				0o600)).To(Succeed())
			s.Serve(pak)
			return pak
		}
		properties := func(config string) string {
			return "{" + errandPaks + ", state: " + sameState + ", config: " + config + "}"
		}

		It("are rejected without keys that the pak reads", func() {
			serve(site.Definition{Inputs: template(reading)}.String())
			s.Env["GSB_ENTRIES_PATH"], s.Env["GCP_KEY"] = "/broker", "key" // errands lack both
			configure("", properties("{GCP_KEY: ''}"))
			_, failure := run(s)
			Expect(failure).To(And(HavePrefix("checking the configuration: "), ContainSubstring(
				`errand_properties.config lacks keys that the errands of service "one" read: GCP_KEY, entries.path`)))
			result := generateWithErrands(s)
			Expect(result.Code).To(Equal(1))
			Expect(result.Stderr).To(ContainSubstring(
				`errand_properties.config lacks keys that the errands of service \"one\" read: ` +
					`GCP_KEY, entries.path`))
		})

		DescribeTable("are accepted with them",
			func(config string) {
				serve(site.Definition{Inputs: template(reading)}.String())
				configure("", properties(config))
				_, failure := run(s)
				Expect(failure).NotTo(HavePrefix("checking the configuration: "))
				result := generateWithErrands(s)
				Expect(result.Code).To(Equal(0), result.Stderr)
			},
			Entry("a dotted key", `{GCP_KEY: '${credhub("/gcp")}', entries.path: /x}`),
			Entry("a nested key", "{GCP_KEY: ((gcp)), entries: {path: 0}}"),
			Entry("a reference to the whole configuration", "((config))"),
		)

		It("are rejected without a key of an expression that overwrites the plan's value", func() {
			s.Serve(s.Pak("reading", site.Definition{Properties: "{path: /x}", Inputs: template(reading)}.String()))
			configure("", properties("{}"))
			_, failure := run(s)
			Expect(failure).To(ContainSubstring("read: entries.path"))
		})

		It("need no key whose input always has another value, or that has a default", func() {
			serve(site.Definition{
				Properties: "{size: 3}",
				Inputs: `
  - {field_name: size, type: integer, default: '${config("size")}', details: Size}
  - {field_name: zone, type: string, default: '${config("zone")}', details: Zone}
  computed_inputs:
  - {name: path, type: string, default: '${config.find("entries.path", "/x")}', overwrite: true}
  template: |
    variable "path" { type = string }
    output "path" { value = var.path }`,
			}.String())
			s.Env["GSB_SERVICE_ONE_PROVISION_DEFAULTS"] = `{"zone": "z1"}`
			configure("", properties("{GCP_KEY: x}"))
			_, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
			result := generateWithErrands(s)
			Expect(result.Code).To(Equal(0), result.Stderr)
		})

		It("lack a key: a warning if several services can have the errands, an error if only one can", func() {
			other := site.Definition{
				Name: "other", ID: "00000000-0000-4000-8000-000000000002",
				PlanID: "00000000-0000-4000-8000-000000000012",
				Inputs: template(strings.Replace(reading, "entries", "other", 1)),
			}.String()
			first, second := s.Pak("first", site.Definition{Inputs: template(reading)}.String()), s.Pak("second", other)
			s.Serve(first, second)
			configure("", properties("{entries.path: /x}"))
			warnings, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
			Expect(warnings).To(Equal(`errand_properties.config lacks keys that the errands of service "other" read: ` +
				`other.path, if a plan has them`))
			Expect(generateWithErrands(s).Code).To(Equal(0), "they are not those of this service")

			for pak, message := range map[string]string{
				first: "", second: `errands of service "other" read: other.path`,
			} {
				configure("", strings.Replace(properties("{entries.path: /x}"),
					"/var/vcap/packages/service-adapter-paks/one", pak, 1))
				warnings, failure := run(s)
				Expect(warnings).To(BeEmpty())
				Expect(strings.HasPrefix(failure, "checking the configuration: ")).To(Equal(message != ""), failure)
				Expect(failure).To(ContainSubstring(message))
			}
		})

		It("need the keys of the pak that serves the service, and not those of an older one", func() {
			newer := s.Pak("newer", site.Definition{Inputs: template(reading)}.String())
			older := s.Pak("older", site.Definition{Inputs: template(`
      {name: path, type: string, default: '${config("old.path")}', overwrite: true}`)}.String())
			s.Serve(newer, older)
			configure("", properties("{entries.path: /x}"))
			warnings, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
			Expect(warnings).To(BeEmpty())
		})

		It("need no keys of a service whose manifest needs outputs, because errands cannot apply its template", func() {
			s.Serve(s.Pak("inline", site.Definition{
				Inputs: template(reading),
				Labels: `{path: '${instance.details["path"]}'}`,
			}.String()))
			configure("", properties("{}"))
			_, failure := run(s)
			Expect(failure).NotTo(HavePrefix("checking the configuration: "))
		})
	})
})
