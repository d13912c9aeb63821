package main_test

import (
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	yamlv2 "gopkg.in/yaml.v2"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/schemas"
	"service-adapter/spec/kit"
)

// interpolated returns the example manifest with ops files, as `bosh interpolate` evaluates it.
func interpolated(ops ...string) map[string]any {
	GinkgoHelper()
	return interpolatedWith(nil, ops...)
}

// operations returns the operations of the text of an ops file.
func operations(text string) patch.Ops {
	GinkgoHelper()
	var definitions []patch.OpDefinition
	Expect(yamlv2.Unmarshal([]byte(text), &definitions)).To(Succeed())
	ops, err := patch.NewOpsFromDefinitions(definitions)
	Expect(err).NotTo(HaveOccurred())
	return ops
}

// opsFile returns the operations of a file in manifests/operations.
func opsFile(name string) patch.Ops {
	GinkgoHelper()
	return operations(readFile(kit.Path("manifests", "operations", name)))
}

// interpolatedWith returns the example manifest with ops files, as `bosh interpolate` evaluates it with more variables.
func interpolatedWith(variables map[string]any, ops ...string) map[string]any {
	GinkgoHelper()
	var all patch.Ops
	for _, name := range ops {
		all = append(all, opsFile(name))
	}
	return evaluated(variables, all)
}

// evaluated returns the example manifest after operations, as `bosh interpolate` evaluates it with more variables.
func evaluated(variables map[string]any, ops patch.Ops) map[string]any {
	GinkgoHelper()
	static := template.StaticVariables{
		"pak_name": "redis", "instances_to_destroy": []any{"i1"}, "service_adapter_state_key": "old",
		"new_service_adapter_state_key":  "new",
		"service_adapter_state_database": "postgres://", "service_adapter_version": "1.0.0",
	}
	maps.Copy(static, variables)
	text, err := template.NewTemplate([]byte(readFile(kit.Path("manifests", "broker.yml")))).Evaluate(
		static, ops, template.EvaluateOpts{})
	Expect(err).NotTo(HaveOccurred())
	var manifest map[string]any
	Expect(yaml.Unmarshal(text, &manifest)).To(Succeed())
	return value.Normalise(manifest).(map[string]any)
}

// anotherPak returns the section of docs/deploying.md on the broker's manifest for a pak other than redis.
func anotherPak() string {
	GinkgoHelper()
	_, section, found := strings.Cut(readFile(kit.Path("docs", "deploying.md")), "\n### The service of another pak\n")
	Expect(found).To(BeTrue())
	section, _, _ = strings.Cut(section, "\n### ")
	return section
}

// errandExample returns the errand_properties of docs/deploying.md, as yaml.v2 decodes them.
func errandExample() any {
	GinkgoHelper()
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(
		readFile(kit.Path("docs", "deploying.md")), -1) {
		var example struct {
			Properties map[string]any `yaml:"properties"`
		}
		Expect(yamlv2.Unmarshal([]byte(block[1]), &example)).To(Succeed())
		if properties := example.Properties["errand_properties"]; properties != nil {
			return properties
		}
	}
	Fail("docs/deploying.md has no example of errand_properties")
	return nil
}

// expectDeclared asserts that a manifest sets only properties that the jobs of on-demand-service-broker declare.
func expectDeclared(manifest map[string]any) {
	GinkgoHelper()
	var declared map[string][]string
	Expect(yaml.Unmarshal([]byte(readFile("testdata", "odb-properties.yml")), &declared)).To(Succeed())
	for job, values := range propertiesOf(manifest, "on-demand-service-broker") {
		Expect(undeclared("", values, declared[job])).To(BeEmpty(), job)
	}
}

// undeclared returns the paths of the values, below the path of properties, for which neither the path nor a parent of
// it is among the declared names, such as "tls.certificate".
func undeclared(path string, properties map[string]any, declared []string) []string {
	var found []string
	for name, item := range properties {
		name = strings.TrimPrefix(path+"."+name, ".")
		tree, isTree := item.(map[string]any)
		switch {
		case slices.Contains(declared, name):
		case isTree:
			found = append(found, undeclared(name, tree, declared)...)
		default:
			found = append(found, name)
		}
	}
	return found
}

// propertiesOf returns the properties of the jobs of a release in a manifest, by the jobs' names.
func propertiesOf(manifest map[string]any, release string) map[string]properties {
	found := map[string]properties{}
	for _, group := range manifest["instance_groups"].([]any) {
		for _, job := range group.(map[string]any)["jobs"].([]any) {
			job := job.(map[string]any)
			if job["release"] == release {
				found[job["name"].(string)], _ = job["properties"].(map[string]any)
			}
		}
	}
	return found
}

var _ = Describe("The example manifest", func() {
	It("and its ops files set only valid properties of the jobs, and make up a valid manifest",
		func(ctx context.Context) {
			manifest := interpolated("service-adapter.yml", "errands.yml", "rotate-encryption-key.yml", "backup.yml")
			Expect(schemas.CheckManifest(manifest)).To(Succeed())
			found := propertiesOf(manifest, "service-adapter")
			colocated := slices.DeleteFunc(jobs(), func(job string) bool {
				return slices.Contains(instanceJobs(),
					job)
			})
			Expect(slices.Sorted(maps.Keys(found))).To(Equal(colocated))
			for job, values := range found {
				Expect(complaints(ctx, job, values)).To(BeEmpty(), job)
				render(ctx, job, values)
			}
			config, err := load(render(ctx, "service-adapter", found["service-adapter"])["config/service-adapter.yml"])
			if err == nil || !strings.Contains(err.Error(), "state.encryption") { // the keys are placeholders
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(config.Paks).To(Equal([]string{"/var/vcap/packages/service-adapter-paks/redis"}))
			Expect(config.State.Type).To(Equal("pg"))
		})

	It("sets only properties that the jobs of the broker's release declare", func() {
		expectDeclared(interpolated("service-adapter.yml"))
	})

	It("replaces the keys of the adapter's states and of its errands with an ops file", func() {
		const credhub = "/director/redis-broker/"
		job := func(ops ...patch.Ops) properties {
			all := append(opsFile("service-adapter.yml"), patch.ReplaceOp{
				Path: patch.MustNewPointerFromString(
					"/instance_groups/name=broker/jobs/name=service-adapter/properties/errand_properties?"),
				Value: errandExample(),
			})
			for _, op := range ops {
				all = append(all, op)
			}
			variables := map[string]any{"director_name": "director", "broker_deployment": "redis-broker"}
			return propertiesOf(evaluated(variables, all), "service-adapter")["service-adapter"]
		}
		encryption := func(values properties) any {
			return values["errand_properties"].(properties)["state"].(properties)["encryption"]
		}
		rotated := job(opsFile("rotate-encryption-key.yml"), opsFile("rotate-encryption-key-of-errands.yml"))
		Expect(rotated["state"]).To(HaveKeyWithValue("encryption",
			properties{"key": "new", "old_keys": []any{"old"}}))
		Expect(encryption(rotated)).To(Equal(properties{
			"key":      `${credhub("` + credhub + `new_service_adapter_state_key")}`,
			"old_keys": []any{`${credhub("` + credhub + `service_adapter_state_key")}`},
		}))
		By("changing no other value")
		before := job()
		before["state"].(properties)["encryption"] = rotated["state"].(properties)["encryption"]
		before["errand_properties"].(properties)["state"].(properties)["encryption"] = encryption(rotated)
		Expect(rotated).To(Equal(before))
	})

	DescribeTable("describes the service of another pak with the variables that pak catalog prints",
		func(ctx context.Context, pak string) {
			printed := run(ctx, kit.Path(), adapterBinary, "pak", "catalog", kit.Path("examples", pak))
			var variables map[any]any // the type to which the BOSH CLI decodes a file of variables
			Expect(yamlv2.Unmarshal([]byte(printed), &variables)).To(Succeed())
			catalog := map[string]any{}
			for name, item := range variables {
				catalog[name.(string)] = item
			}
			var ops []string
			named := regexp.MustCompile(`-o manifests/operations/(\S+)`)
			for _, found := range named.FindAllStringSubmatch(anotherPak(), -1) {
				ops = append(ops, found[1])
			}
			manifest := interpolatedWith(catalog, ops...)
			Expect(schemas.CheckManifest(manifest)).To(Succeed())
			Expect(value.MustJSON(manifest)).NotTo(ContainSubstring("redis_"), "variables of the redis service")
			expectDeclared(manifest)
			jobs := propertiesOf(manifest, "on-demand-service-broker")
			Expect(jobs["register-broker"]).To(HaveKeyWithValue("broker_name", pak))
			var properties map[string]any
			Expect(yaml.Unmarshal([]byte(printed), &properties)).To(Succeed())
			for name, item := range value.Normalise(properties).(map[string]any) {
				Expect(jobs["broker"]).To(HaveKeyWithValue(name, item))
			}
		},
		Entry(nil, "mysql"), Entry(nil, "rabbitmq"), Entry(nil, "redis-cluster"),
	)

	It("mounts all paths of the configuration into the broker's container", func() {
		broker := propertiesOf(interpolated("service-adapter.yml"), "on-demand-service-broker")["broker"]
		adapter := broker["service_adapter"].(map[string]any)
		mounts := adapter["mount_paths"].([]any)
		for _, needed := range []string{"/var/vcap/jobs/service-adapter/config/service-adapter.yml", preparedDir} {
			for !slices.Contains(mounts, any(needed)) && needed != "/" {
				needed = path.Dir(needed)
			}
			Expect(needed).NotTo(Equal("/"))
		}
		Expect(adapter["path"]).To(Equal(installedAdapter))
		Expect(broker).To(And(HaveKeyWithValue("use_stdin", true), HaveKeyWithValue("enable_secure_manifests", true)))
	})
})

var _ = Describe("The scripts of the jobs", func() {
	It("have no findings of shellcheck when they are rendered", func(ctx context.Context) {
		dir := kit.Directory(GinkgoT())
		scripts := []string{}
		add := func(name, text string) {
			if strings.HasPrefix(text, "#!") {
				writeFile(text, dir, name)
				scripts = append(scripts, filepath.Join(dir, name))
			}
		}
		for _, state := range []properties{{"type": "pg"}, {"type": "local", "config": properties{"dir": "/a b"}}} {
			for name, text := range render(ctx, "service-adapter", properties{"paks": []any{"/a"}, "state": state}) {
				add("service-adapter-"+state["type"].(string)+"-"+filepath.Base(name), text)
			}
		}
		for _, job := range []string{"drift", "preview-upgrade", "upgrade-bindings", "rotate-encryption-key"} {
			add(job, render(ctx, job, properties{})["bin/run"])
		}
		for name, instances := range map[string][]any{"none": {}, "one": {"i1"}, "some": {"i1", "a b'$(touch /x)"}} {
			add("destroy-"+name, render(ctx, "destroy-instances", properties{"instances": instances})["bin/run"])
		}
		add("destroy-gone", render(ctx, "destroy-instances", properties{"director": directorProperties()})["bin/run"])
		for _, job := range instanceJobs() {
			values := errand(job, nil)
			if job == "destroy-instance" {
				values["instance_id"] = "a b'$(touch /x)"
			}
			add(job, render(ctx, job, values)["bin/run"])
		}
		for name, text := range backupScripts(ctx) {
			add(name, text)
		}
		Expect(scripts).To(HaveLen(18))
		shellcheck := kit.Path("build", "tools", "shellcheck")
		if _, err := os.Stat(shellcheck); err != nil {
			shellcheck = kit.Program(GinkgoT(), "shellcheck", "scripts/lint-shell")
		}
		run(ctx, dir, shellcheck, scripts...)
	})
})

// labelledBlock returns the block of YAML with a label in a text.
func labelledBlock(text, label string) string {
	block := regexp.MustCompile("(?ms)^```yaml " + regexp.QuoteMeta(label) + "\n(.*?)^```$").FindStringSubmatch(text)
	Expect(block).To(HaveLen(2), label)
	return block[1]
}

var _ = Describe("docs/deploying.md", func() {
	It("has properties that the job accepts", func(ctx context.Context) {
		blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(
			readFile(kit.Path("docs", "deploying.md")), -1)
		Expect(blocks).NotTo(BeEmpty())
		found := 0
		for _, block := range blocks {
			var example struct{ Properties properties }
			Expect(yaml.Unmarshal([]byte(block[1]), &example)).To(Succeed())
			if example.Properties == nil {
				continue // the block is a plan
			}
			Expect(complaints(ctx, "service-adapter", example.Properties)).To(BeEmpty())
			if errands, ok := example.Properties["errand_properties"].(properties); ok {
				errands["instance_id"] = "id"
				Expect(complaints(ctx, "destroy-instance", errands)).To(BeEmpty())
				found++
			}
		}
		Expect(found).To(Equal(1), "examples of errand_properties")
	})

	It("has an ops file for the properties of the broker that few paks need", func() {
		block := regexp.MustCompile("(?ms)^```yaml broker-properties.yml\n(.*?)^```$").FindStringSubmatch(anotherPak())
		Expect(block).To(HaveLen(2))
		manifest := evaluated(nil, operations(block[1]))
		Expect(propertiesOf(manifest, "on-demand-service-broker")["broker"]).To(
			HaveKeyWithValue("disable_bosh_configs", false))
	})

	It("has a file of variables and an ops file for the manifest of the broker", func() {
		text := readFile(kit.Path("docs", "deploying.md"))
		variables := template.StaticVariables{
			"broker_deployment": "redis-broker", "service_adapter_version": "1.0.0", "pak_name": "redis",
			"broker_password": "x", "service_adapter_state_key": "x", "service_adapter_state_database": "x",
		}
		Expect(yamlv2.Unmarshal([]byte(labelledBlock(text, "broker-vars.yml")), &variables)).To(Succeed())
		ops := append(opsFile("service-adapter.yml"), operations(labelledBlock(text, "access.yml"))...)
		result, err := template.NewTemplate([]byte(readFile(kit.Path("manifests", "broker.yml")))).Evaluate(
			variables, ops, template.EvaluateOpts{ExpectAllKeys: true, ExpectAllVarsUsed: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(string(result)).To(ContainSubstring("cf_service_access: org-restricted"))
	})

	It("has, as docs/operations, ops files that the job service-adapter accepts", func(ctx context.Context) {
		pages, err := filepath.Glob(kit.Path("docs", "operations", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		labelled := regexp.MustCompile(`(?ms)^( *)` + "```" + `yaml [a-z0-9-]+\.yml\n(.*?)^ *` + "```$")
		found := 0
		for _, page := range append(pages, kit.Path("docs", "deploying.md")) {
			for _, block := range labelled.FindAllStringSubmatch(readFile(page), -1) {
				text := regexp.MustCompile(`(?m)^`+block[1]).ReplaceAllString(block[2], "")
				if !strings.Contains(text, "name=service-adapter/properties/") {
					continue // a file for another job, or no ops file
				}
				manifest := evaluated(nil, append(opsFile("service-adapter.yml"), operations(text)...))
				jobs := propertiesOf(manifest, "service-adapter")
				Expect(complaints(ctx, "service-adapter", jobs["service-adapter"])).To(BeEmpty(), page)
				found++
			}
		}
		Expect(found).To(BeNumerically(">=", 4))
	})

	It("names every variable of the manifest and the ops files, every job and every ops file", func() {
		text := readFile(kit.Path("docs", "deploying.md"))
		files, err := filepath.Glob(kit.Path("manifests", "operations", "*.yml"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range append(files, kit.Path("manifests", "broker.yml")) {
			Expect(text).To(ContainSubstring(strings.TrimPrefix(file, kit.Path()+"/")))
			for _, found := range regexp.MustCompile(`\(\(([a-z_]+)`).FindAllStringSubmatch(readFile(file), -1) {
				if found[1] != "broker_password" { // BOSH generates it
					Expect(text).To(MatchRegexp(`\b` + found[1] + `\b`))
				}
			}
		}
		for _, job := range jobs() {
			Expect(text).To(ContainSubstring("`" + job + "`"))
		}
	})
})
