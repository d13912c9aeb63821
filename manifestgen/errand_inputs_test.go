package manifestgen_test

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/record"
)

var _ = Describe("a plan with the lifecycle errands", func() {
	// newErrandBox returns a world in which an errand applies the template that outputs these inputs, and whose
	// computed inputs are given. The lifecycle errands may be placed on instances.
	newErrandBox := func(computed, used string, broker map[string]any) *world {
		GinkgoHelper()
		files := map[string]string{"service.yml": smallPlan + `provision:
  user_inputs: [{field_name: size, type: integer, default: 1, details: A size}]
  computed_inputs:
` + computed + `
  template: |
    output "used" { value = "` + used + `" }
  bosh: {manifest_ref: bosh.yml}
`, "bosh.yml": boxTemplate("a")}
		w := newWorld(packed(files))
		s := step{BrokerPlan: broker}
		const releases = `[{"Name": "main", "Version": "2", "Jobs": ["box"]},
			{"Name": "odb-service-adapter", "Version": "1", "Jobs": ["apply-instance", "destroy-instance"]}]`
		Expect(json.Unmarshal([]byte(releases), &s.Releases)).To(Succeed())
		Expect(json.Unmarshal([]byte(`{"Properties": {"state": {"type": "pg"}}}`), &s.Errands)).To(Succeed())
		w.configure(s, files)
		return w
	}

	group := func(name string, keys ...string) map[string]any {
		entry := map[string]any{
			"name": name, "vm_type": "small", "instances": 1, "networks": []any{"a"}, "azs": []any{"z1"},
		}
		for _, lifecycle := range keys {
			entry["lifecycle"] = lifecycle
		}
		return entry
	}
	errand := func(name string, instances ...any) []any {
		return []any{map[string]any{"name": name, "instances": instances}}
	}
	together := map[string]any{
		"instance_groups": []any{group("box"), group("errands", "errand")},
		"lifecycle_errands": map[string]any{
			"post_deploy": errand(record.ApplyErrand), "pre_delete": errand(record.DestroyErrand),
		},
	}

	It("may run one of them on an instance of the service, and the other one in a group for errands", func() {
		const computed = "  - {name: name, type: string, default: 'x', overwrite: true}"
		w := newErrandBox(computed, "${var.name}", map[string]any{
			"instance_groups": together["instance_groups"],
			"lifecycle_errands": map[string]any{
				"post_deploy": errand(record.ApplyErrand, "box/0"), "pre_delete": errand(record.DestroyErrand),
			},
		})
		result := w.must(call{})
		jobs := map[string][]string{}
		for _, item := range decode(result.Manifest)["instance_groups"].([]any) {
			entry := item.(map[string]any)
			for _, job := range entry["jobs"].([]any) {
				name := entry["name"].(string)
				jobs[name] = append(jobs[name], job.(map[string]any)["name"].(string))
			}
		}
		Expect(jobs).To(Equal(map[string][]string{
			"box": {"box", record.ApplyErrand}, "errands": {record.DestroyErrand},
		}))
	})

	It("passes the errand what only its own inputs need", func() {
		w := newErrandBox(`  - {name: region, type: string, default: '${config("region")}-${size}', overwrite: true}`,
			"${var.region}", together)
		w.must(call{Parameters: map[string]any{"size": 7}})
		properties, found, err := w.instance.JobProperties(record.ApplyErrand)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeTrue())
		intent, err := record.DecodeIntent(properties["intent"].(string))
		Expect(err).NotTo(HaveOccurred())
		Expect(intent.Inputs).To(Equal(map[string]any{"size": int64(7)}))
		Expect(intent.EvaluatedByErrand).To(Equal([]string{"region"}))
	})

	It("checks later requests although only the errand has a configuration value", func() {
		w := newErrandBox(`  - {name: region, type: string, default: '${config("region")}-${size}', overwrite: true}`,
			"${var.region}", together)
		definition := smallPlan + `provision:
  user_inputs: [{field_name: size, type: integer, default: 1, details: A size}]
  computed_inputs:
  - {name: region, type: string, default: '${config("region")}-${size}', overwrite: true}
  template: |
    output "used" { value = "${var.region}" }
  bosh:
    manifest_ref: bosh.yml
    checks:
    - {that: '${!previous.exists || previous.parameter("size") == size}', message: size is fixed, audience: user}
`
		w.install(packed(map[string]string{"service.yml": definition, "bosh.yml": boxTemplate("a")}))
		w.must(call{Parameters: map[string]any{"size": 7}})
		w.must(call{Parameters: map[string]any{"size": 7}})
		_, err := w.generate(call{Parameters: map[string]any{"size": 8}})
		Expect(err).To(MatchError(ContainSubstring("size is fixed")))
	})

	DescribeTable("rejects a new secret that is computed from one whose value is in CredHub only", func(
		between, source string,
	) {
		const made = "  - {name: made, type: string, default: '${rand.base64(16)}', overwrite: true}"
		w := newErrandBox(made, "${var.made}", together)
		w.must(call{})
		definition := smallPlan + "provision:\n  computed_inputs:\n" + made + `
` + between + `  - {name: url, type: string, default: 'x://${` + source + `}', overwrite: true}
  template: |
    output "used" { value = "${var.made}${var.url}" }
  bosh: {manifest_ref: bosh.yml}
`
		w.install(packed(map[string]string{"service.yml": definition, "bosh.yml": boxTemplate("a")}))
		w.generator.Errands.UseInstalledTemplate = true
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring(
			`input "url" is computed from "made", which an earlier request generated: ` +
				"its value is stored only in CredHub")))
		Expect(strings.Count(err.Error(), "\n")).To(BeZero())
	},
		Entry("directly", "", "made"),
		Entry("through another input",
			"  - {name: link, type: string, default: 'a-${made}', overwrite: true}\n", "link"),
	)
})
