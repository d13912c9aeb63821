package doc_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/doc"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
)

// cookbookPak writes the pak of the recipe in docs/cookbook.md for an instance group that only the plan cluster has,
// and returns its directory. The function change replaces the definition of the recipe.
func cookbookPak(change func(definition string) string) string {
	GinkgoHelper()
	const title = "\n## A group that only some plans have\n"
	_, recipe, found := strings.Cut(readFile("../../../docs/cookbook.md"), title)
	Expect(found).To(BeTrue())
	recipe, _, _ = strings.Cut(recipe, "\n## ")
	dir := GinkgoT().TempDir()
	Expect(os.CopyFS(dir, os.DirFS("../lint/testdata/base"))).To(Succeed())
	example := regexp.MustCompile("(?ms)^```yaml good (\\S+)\n(.*?)^```$")
	for _, file := range example.FindAllStringSubmatch(recipe, -1) {
		text := file[2]
		if file[1] == "service.yml" {
			base, _, _ := strings.Cut(readFile("../lint/testdata/base/service.yml"), "\nplans:")
			text = base + "\n" + change(text)
		}
		path := filepath.Join(dir, file[1])
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	return dir
}

// groupsOf returns the names of the instance groups of a manifest.
func groupsOf(manifest string) []string {
	GinkgoHelper()
	var decoded struct {
		InstanceGroups []struct{ Name string } `yaml:"instance_groups"`
	}
	Expect(yaml.Unmarshal([]byte(manifest), &decoded)).To(Succeed())
	return value.Convert(decoded.InstanceGroups, func(group struct{ Name string }) string { return group.Name })
}

var _ = Describe("an instance group that an ops file adds", func() {
	unchanged := func(definition string) string { return definition }
	unsized := func(definition string) string {
		return regexp.MustCompile(`(?m)^    instance_groups:\n.*\n`).ReplaceAllString(definition, "")
	}
	always := func(definition string) string {
		return regexp.MustCompile(`(?m)^      if: .*\n`).ReplaceAllString(unsized(definition), "")
	}
	// byParameter lets the condition of the ops file depend on a parameter of the user.
	byParameter := func(definition string) string {
		return strings.NewReplacer("if: ${proxies > 0}", "if: ${proxies > 0 && wanted}",
			"  bosh:\n", "  user_inputs:\n"+
				"  - {field_name: wanted, type: boolean, default: false, details: Proxies}\n  bosh:\n"+
				"    optional_instance_groups: [proxy]\n").Replace(unsized(definition))
	}

	DescribeTable("is in the plans of the catalog that need it, and the adapter deploys all plans",
		func(ctx context.Context, change func(string) string, inCatalog, inManifest map[string][]string) {
			dir := cookbookPak(change)
			service := openPak(dir).Services[0]
			text, err := doc.Catalog(&brokerpak.Manifest{}, service)
			Expect(err).NotTo(HaveOccurred())
			planGroups, manifestGroups := map[string][]string{}, map[string][]string{}
			for i, plan := range filled(text).Catalog.Plans {
				name := service.Plans[i].Name
				for _, group := range planned(plan).InstanceGroups {
					planGroups[name] = append(planGroups[name], group.Name)
				}
				instance := odb.Sample(service, &service.Plans[i], "one")
				instance.Deployment.Releases[0].Jobs = []string{"server", "proxy"}
				instance.Plan["properties"] = plan["properties"]
				instance.Plan["instance_groups"] = plan["instance_groups"]
				manifest := generated(ctx, instance, map[string]string{"SERVICE_ADAPTER_PAKS": "[" + dir + "]"})
				manifestGroups[name] = groupsOf(manifest)
			}
			Expect(planGroups).To(Equal(inCatalog))
			Expect(manifestGroups).To(Equal(inManifest))
		},
		Entry("and that the definition sizes", unchanged,
			map[string][]string{"single": {"server"}, "cluster": {"server"}},
			map[string][]string{"single": {"server"}, "cluster": {"server", "proxy"}}),
		Entry("and that plans size", unsized,
			map[string][]string{"single": {"server"}, "cluster": {"server", "proxy"}},
			map[string][]string{"single": {"server"}, "cluster": {"server", "proxy"}}),
		Entry("always", always,
			map[string][]string{"single": {"server", "proxy"}, "cluster": {"server", "proxy"}},
			map[string][]string{"single": {"server", "proxy"}, "cluster": {"server", "proxy"}}),
		Entry("if a parameter is set", byParameter,
			map[string][]string{"single": {"server"}, "cluster": {"server"}},
			map[string][]string{"single": {"server"}, "cluster": {"server"}}),
	)

	It("is in a comment of the catalog if a parameter decides, and a plan may have it", func(ctx context.Context) {
		dir := cookbookPak(byParameter)
		service := openPak(dir).Services[0]
		Expect(doc.Catalog(&brokerpak.Manifest{}, service)).To(ContainSubstring(
			"# Add the instance group proxy to plans for which this expression is true: ${proxies > 0 && wanted}"))
		instance := odb.Sample(service, &service.Plans[1], "one")
		instance.Plan["instance_groups"] = []any{odb.SampleGroup("server", ""), odb.SampleGroup("proxy", "")}
		manifest := generated(ctx, instance, map[string]string{"SERVICE_ADAPTER_PAKS": "[" + dir + "]"})
		Expect(groupsOf(manifest)).To(Equal([]string{"server"}))
	})

	It("is in the documentation", func() {
		pak := openPak(cookbookPak(unsized))
		Expect(doc.Markdown(pak)).To(ContainSubstring("- `proxy` with the jobs `proxy`. Not every instance has it.\n"))
	})
})
