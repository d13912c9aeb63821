package main_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter/config"
	"service-adapter/spec/kit"
)

// properties are the properties of a job in a deployment manifest.
type properties = map[string]any

// ruby renders the templates of a job for the first VM of its instance group. stdout is a JSON object of the texts by
// their destinations. stderr is the Director's message for a failure, on one line.
func ruby(ctx context.Context, job string, values properties, env ...string) (stdout []byte, stderr string) {
	GinkgoHelper()
	return rubyOn(ctx, job, true, values, env...)
}

// rubyOn renders the templates of a job. bootstrap is true for the first VM of an instance group. See ruby for the
// results.
func rubyOn(
	ctx context.Context, job string, bootstrap bool, values properties, env ...string,
) (stdout []byte, stderr string) {
	GinkgoHelper()
	input, err := json.Marshal(map[string]any{"properties": values, "spec": properties{"bootstrap": bootstrap}})
	Expect(err).NotTo(HaveOccurred())
	var out, complaints bytes.Buffer
	command := exec.CommandContext(ctx, "ruby", "render.rb", kit.Path("jobs", job))
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &complaints
	command.Env = append(os.Environ(), env...)
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	return out.Bytes(), complaints.String()
}

// render renders the templates of a job for the first VM of an instance group, and returns the texts by their
// destinations. Rendering must succeed.
func render(ctx context.Context, job string, values properties) map[string]string {
	GinkgoHelper()
	return renderOn(ctx, job, true, values)
}

// renderOn does the same as render. bootstrap is true for the first VM of an instance group.
func renderOn(ctx context.Context, job string, bootstrap bool, values properties) map[string]string {
	GinkgoHelper()
	stdout, stderr := rubyOn(ctx, job, bootstrap, values)
	Expect(stderr).To(BeEmpty())
	rendered := map[string]string{}
	Expect(json.Unmarshal(stdout, &rendered)).To(Succeed())
	return rendered
}

// load decodes a configuration with the adapter's code.
func load(text string) (config.Config, error) {
	GinkgoHelper()
	file := filepath.Join(kit.Directory(GinkgoT()), "service-adapter.yml")
	writeFile(text, file)
	loaded, _, err := config.Load(func(name string) (string, bool) { return file, name == config.Variable })
	return loaded, err
}

// preparedDir is the directory of prepared templates on the VM.
const preparedDir = "/var/vcap/data/service-adapter/prepared"

// minimal returns the required properties of the job service-adapter.
func minimal() properties {
	return properties{"paks": []any{"/paks/redis"}, "state": properties{"type": "local"}}
}

// with returns the required properties, with others added.
func with(others properties) properties {
	values := minimal()
	maps.Copy(values, others)
	return values
}

// hostile returns texts that have a meaning in YAML, ERB, shells or BOSH.
func hostile() []any {
	return []any{
		"", " ", "~", "null", "yes", "no", "n", "010", "0o10", "1_000", "1e3", "1:30", "2020-01-01", "*a", "&a",
		"!ruby/object:X {}",
		"<%= raise %>", "((x))", "a: b", "- a", "# a", "'", `"`, `\`, "a\nb", "\t", "\x00", "\x1b[31m", "\u007f",
		"\u0085", "\u00a0",
		"\u2028", "\ufeff", "\uffff", "é", "😀", "$(touch /x)", "`touch /x`", "'; touch /x; '",
		strings.Repeat("x", 2000),
	}
}

var _ = Describe("The job service-adapter", func() {
	DescribeTable("renders a configuration", func(ctx context.Context, values, wanted properties) {
		text := render(ctx, "service-adapter", values)["config/service-adapter.yml"]
		var config map[string]any
		Expect(yaml.Unmarshal([]byte(text), &config)).To(Succeed())
		Expect(config).To(Equal(wanted))
		_, err := load(text)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("with defaults", minimal(), properties{
			"paks": []any{"/paks/redis"}, "state": properties{"type": "local"}, "budget": "45s", "log_level": "info",
			"prepared_dir": preparedDir, "disable_bosh_configs": false,
			"brokerpak_updates_enabled": false, "terraform_upgrades_enabled": false,
		}),
		Entry("with all properties", full(), properties{
			"paks": []any{"/paks/redis", "/paks/old"}, "service": "redis", "secure_manifests": false,
			"state": properties{
				"type": "local", "config": properties{"dir": "/store"},
				"encryption": properties{"key": key('n'), "old_keys": []any{key('o')}},
			},
			"budget":             "30s",
			"errand_limit":       "4h",
			"errand_properties":  properties{"state": properties{"type": "pg"}},
			"provision_defaults": properties{"region": "eu"},
			"services": properties{"redis": properties{
				"provision_defaults": properties{"maxclients": 5000}, "bind_defaults": properties{"tls": true},
				"plans": []any{properties{"id": "i", "name": "n", "size": 2}},
			}},
			"global_labels": properties{"team": "data"}, "config": properties{"redis.port": 6379},
			"allowed_references": []any{"/global/root_ca"}, "record_requests": "/requests", "audit_log": "/audit.log",
			"max_request_kb": 64, "log_level": "debug",
			"prepared_dir": preparedDir, "disable_bosh_configs": true, "brokerpak_updates_enabled": true,
			"terraform_upgrades_enabled": true,
		}),
	)

	It("renders every text unchanged", func(ctx context.Context) {
		keys := properties{}
		for _, text := range hostile() {
			if len(text.(string)) < 1000 { // YAML does not allow longer keys
				keys[text.(string)] = text
			}
		}
		text := render(ctx, "service-adapter",
			with(properties{"config": keys, "provision_defaults": properties{"texts": hostile()}}))
		config, err := load(text["config/service-adapter.yml"])
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Config).To(Equal(keys))
		Expect(config.ProvisionDefaults).To(HaveKeyWithValue("texts", Equal(hostile())))
	})

	It("creates the directory of a local state, whatever its name is", func(ctx context.Context) {
		dir := "/var/vcap/store/it's $(touch /x)"
		script := render(ctx, "service-adapter",
			with(properties{"state": properties{"type": "local", "config": properties{"dir": dir}}}))["bin/pre-start"]
		Expect(script).To(ContainSubstring("\nown " + `/var/vcap/store/it\'s\ \$\(touch\ /x\)` + "\n"))
		script = render(ctx, "service-adapter", with(properties{"state": properties{"type": "pg"}}))["bin/pre-start"]
		Expect(script).NotTo(ContainSubstring("/var/vcap/store"))
	})

	It("has no secret in the directory bin", func(ctx context.Context) {
		values := full()
		values["state"] = properties{
			"type": "pg", "config": properties{"conn_str": "postgres://planted"},
			"encryption": properties{"key": "planted", "old_keys": []any{"planted"}},
		}
		values["config"], values["provision_defaults"] = properties{"a": "planted"}, properties{"a": "planted"}
		for name, text := range render(ctx, "service-adapter", values) {
			Expect(strings.Contains(text, "planted")).To(Equal(name == "config/service-adapter.yml"), name)
		}
	})

	DescribeTable("cannot be rendered without", func(ctx context.Context, values properties, wanted string) {
		_, stderr := ruby(ctx, "service-adapter", values)
		Expect(stderr).To(Equal("Error filling in template 'service-adapter.yml.erb' (line 4: Can't find property '" +
			wanted + "')\n"))
	},
		Entry("paks", properties{"state": properties{"type": "pg"}}, "paks"),
		Entry("a state backend", properties{"paks": []any{"/a"}, "state": properties{"config": properties{}}},
			"state.type"),
	)
})

// key returns a key for the encryption of states.
func key(letter byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{letter}, 32))
}

// full returns all properties with values that differ from the defaults.
func full() properties {
	return properties{
		"paks": []any{"/paks/redis", "/paks/old"}, "service": "redis", "secure_manifests": false,
		"state": properties{
			"type": "local", "config": properties{"dir": "/store"},
			"encryption": properties{"key": key('n'), "old_keys": []any{key('o')}},
		},
		"disable_bosh_configs": true, "brokerpak_updates_enabled": true, "terraform_upgrades_enabled": true,
		"budget": "30s", "errand_limit": "4h", "errand_properties": properties{"state": properties{"type": "pg"}},
		"provision_defaults": properties{"region": "eu"},
		"services": properties{"redis": properties{
			"provision_defaults": properties{"maxclients": 5000}, "bind_defaults": properties{"tls": true},
			"plans": []any{properties{"id": "i", "name": "n", "size": 2}},
		}},
		"global_labels": properties{"team": "data"}, "config": properties{"redis.port": 6379},
		"allowed_references": []any{"/global/root_ca"}, "record_requests": "/requests", "audit_log": "/audit.log",
		"max_request_kb": 64, "log_level": "debug",
		"unknown": "is not rendered",
	}
}

// A declared is the spec file of a job.
type declared struct {
	Properties map[string]struct {
		Description string `yaml:"description"`
		Default     any    `yaml:"default"`
		Example     any    `yaml:"example"`
	} `yaml:"properties"`
	Templates map[string]string `yaml:"templates"`
}

// jobs returns the names of all jobs of the release.
func jobs() []string {
	names := []string{}
	entries, err := os.ReadDir("../../jobs")
	if err != nil {
		return nil // other specs report this
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// readSpec decodes the spec file of a job.
func readSpec(job string) declared {
	GinkgoHelper()
	var spec declared
	decoder := yaml.NewDecoder(strings.NewReader(readFile(kit.Path("jobs", job, "spec"))))
	Expect(decoder.Decode(&spec)).To(Succeed())
	return spec
}

var _ = Describe("Every job", func() {
	It("has no process, and describes each property with a default or an example", func() {
		Expect(jobs()).To(ContainElement("service-adapter"))
		for _, job := range jobs() {
			Expect(readFile(kit.Path("jobs", job, "monit"))).To(BeEmpty(), job)
			for name, property := range readSpec(job).Properties {
				Expect(property.Description).NotTo(BeEmpty(), job+" "+name)
				Expect(property.Default != nil || property.Example != nil).To(BeTrue(), job+" "+name)
			}
		}
	})

	It("has a property for every key of the configuration, with the same defaults", func(ctx context.Context) {
		_, err := load("qqqqqqqq: 1")
		_, allowed, found := strings.Cut(err.Error(), "; allowed: ")
		Expect(found).To(BeTrue())
		keys := strings.Split(strings.TrimSpace(strings.Split(allowed, "\n")[0]), ", ")
		spec := readSpec("service-adapter")
		own := []string{}
		for name := range spec.Properties {
			own = append(own, strings.Split(name, ".")[0])
		}
		own = append(own, "prepared_dir", "cache_dir") // the job and the container determine these
		Expect(own).To(ContainElements(keys))
		config, err := load("paks: [/a]")
		Expect(err).NotTo(HaveOccurred())
		budget, err := time.ParseDuration(spec.Properties["budget"].Default.(string))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Budget).To(Equal(budget))
		Expect(config.LogLevel).To(Equal(spec.Properties["log_level"].Default))
	})
})

// complaints returns the errors that the Director finds in the properties of a job before it renders them, as texts by
// path.
func complaints(ctx context.Context, job string, values properties) []string {
	GinkgoHelper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	schema, err := compiler.Compile(kit.Path("jobs", job, "properties_schema.json"))
	Expect(err).NotTo(HaveOccurred())
	merged, stderr := ruby(ctx, job, values, "SHOW_PROPERTIES=1")
	Expect(stderr).To(BeEmpty())
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(merged))
	Expect(err).NotTo(HaveOccurred())
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(document); !errors.As(err, &invalid) {
		Expect(err).NotTo(HaveOccurred())
		return nil
	}
	found := []string{}
	var walk func(unit *jsonschema.OutputUnit)
	walk = func(unit *jsonschema.OutputUnit) {
		if unit.Error != nil {
			found = append(found, unit.InstanceLocation)
		}
		for i := range unit.Errors {
			walk(&unit.Errors[i])
		}
	}
	walk(invalid.DetailedOutput())
	slices.Sort(found)
	return slices.Compact(found)
}

var _ = Describe("The schema of the properties", func() {
	It("has the only draft that the Director supports", func() {
		for _, job := range jobs() {
			var schema map[string]any
			Expect(json.Unmarshal([]byte(readFile(kit.Path("jobs", job, "properties_schema.json"))),
				&schema)).To(Succeed())
			Expect(schema).To(HaveKeyWithValue("$schema", "https://json-schema.org/draft/2020-12/schema"), job)
		}
	})

	It("accepts the defaults, all properties and every example", func(ctx context.Context) {
		Expect(complaints(ctx, "service-adapter", minimal())).To(BeEmpty())
		Expect(complaints(ctx, "service-adapter", full())).To(BeEmpty())
		for _, job := range jobs() {
			values := properties{}
			for name, property := range readSpec(job).Properties {
				if property.Example == nil {
					continue
				}
				tree := values
				path := strings.Split(name, ".")
				for _, key := range path[:len(path)-1] {
					if tree[key] == nil {
						tree[key] = properties{}
					}
					tree = tree[key].(properties)
				}
				tree[path[len(path)-1]] = property.Example
			}
			Expect(complaints(ctx, job, values)).To(BeEmpty(), job)
		}
	})

	DescribeTable("reports the path of an error:", func(ctx context.Context, wrong properties, pointer string) {
		Expect(complaints(ctx, "service-adapter", with(wrong))).To(ConsistOf(pointer))
	},
		Entry("no paks", properties{"paks": []any{}}, "/paks"),
		Entry("paks that are not a list", properties{"paks": "/paks/redis"}, "/paks"),
		Entry("missing paks", properties{"paks": nil}, "/paks"),
		Entry("a relative pak", properties{"paks": []any{"redis"}}, "/paks/0"),
		Entry("no state backend", properties{"state": properties{}}, "/state/type"),
		Entry("a state backend that is not a name", properties{"state": properties{"type": "PG\n"}}, "/state/type"),
		Entry("settings that are not a mapping", properties{"state": properties{"type": "pg", "config": "x"}},
			"/state/config"),
		Entry("a key that is not a text",
			properties{"state": properties{"type": "pg", "encryption": properties{"key": 1}}}, "/state/encryption/key"),
		Entry("secure_manifests as text", properties{"secure_manifests": "true"}, "/secure_manifests"),
		Entry("a budget without a unit", properties{"budget": "45"}, "/budget"),
		Entry("a service that is a list", properties{"services": properties{"redis": []any{}}}, "/services/redis"),
		Entry("an unknown key of a service", properties{"services": properties{"redis": properties{"binds": 1}}},
			"/services/redis"),
		Entry("a plan without a name",
			properties{"services": properties{"redis": properties{"plans": []any{properties{"id": "1"}}}}},
			"/services/redis/plans/0"),
		Entry("a label that is not a text", properties{"global_labels": properties{"a": 1}}, "/global_labels/a"),
		Entry("a relative reference", properties{"allowed_references": []any{"a"}}, "/allowed_references/0"),
		Entry("a relative record_requests", properties{"record_requests": "a"}, "/record_requests"),
		Entry("a relative audit_log", properties{"audit_log": "a"}, "/audit_log"),
		Entry("a size limit of 0 for requests", properties{"max_request_kb": 0}, "/max_request_kb"),
		Entry("an unknown log level", properties{"log_level": "trace"}, "/log_level"),
		Entry("a flag as text", properties{"terraform_upgrades_enabled": "yes"}, "/terraform_upgrades_enabled"),
	)
})
