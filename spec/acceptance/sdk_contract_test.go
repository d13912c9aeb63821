package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"
)

// An sdkCase is a line of testdata/sdk-contract/cases.jsonl: an input, and the answer of a minimal adapter that uses
// the Go SDK. A case may refer to bindings that earlier cases created. Lacks is the interface that the adapter of the
// case did not implement, "dashboard" or "binder", or "".
type sdkCase struct {
	Name  string
	Lacks string
	Args  []string
	Stdin string
	SDK   answer
}

// different contains the cases in which the two adapters write different texts to standard output, by name.
// docs/compatibility.md explains the differences.
var different = map[string]struct{ theirs, ours string }{
	"C same binding again": {theirs: "binding already exists: %!s(<nil>)"},
	"C no app_guid":        {theirs: "app GUID not provided: %!s(<nil>)"},
	"D again: not found":   {theirs: "binding not found: %!s(<nil>)"},
	"G release lacks job (operator error)": {
		ours: "Contact your operator, service configuration issue occurred: job 'server' not provided by any " +
			"release of the deployment",
	},
}

// sdkCases returns the recorded cases in order.
func sdkCases() []sdkCase {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", "sdk-contract", "cases.jsonl"))
	Expect(err).NotTo(HaveOccurred())
	var cases []sdkCase
	for line := range bytes.Lines(text) {
		var c sdkCase
		Expect(json.Unmarshal(line, &c)).To(Succeed())
		cases = append(cases, c)
	}
	return cases
}

// sdkPaks returns the paths of paks with the service of the cases: the complete pak under "", and under the names of
// interfaces those without the corresponding section.
func sdkPaks(s *site) map[string]string {
	GinkgoHelper()
	paks := map[string]string{"": s.pak}
	for lacks, section := range map[string]string{
		"dashboard": `(?m)^    dashboard_url:.*\n`,
		"binder":    `(?ms)^bind:\n.*`,
	} {
		paks[lacks] = s.pak + "-without-" + lacks
		Expect(os.CopyFS(paks[lacks], os.DirFS(s.pak))).To(Succeed())
		file := filepath.Join(paks[lacks], "mini.yml")
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		without := regexp.MustCompile(section).ReplaceAll(text, nil)
		Expect(len(without)).To(BeNumerically("<", len(text)))
		Expect(os.WriteFile(file, without, 0o600)).To(Succeed())
	}
	return paks
}

// asTheBrokerReads decodes a manifest with the SDK's struct, as the broker does.
func asTheBrokerReads(manifest string) bosh.BoshManifest {
	GinkgoHelper()
	var decoded bosh.BoshManifest
	Expect(yaml.Unmarshal([]byte(manifest), &decoded)).To(Succeed())
	return decoded
}

// expectAsSDK compares a product with that of the SDK. Manifests are compared as the broker decodes them. Schemas only
// have to be complete. Every other product must be equal byte by byte.
func (c sdkCase) expectAsSDK(stdout string) {
	GinkgoHelper()
	succeeded := c.SDK.Exit == 0
	differs, isDifferent := different[c.Name]
	switch {
	case succeeded && c.Args[0] == generatePlanSchemas:
		var ours, theirs serviceadapter.PlanSchema
		Expect(json.Unmarshal([]byte(stdout), &ours)).To(Succeed())
		Expect(json.Unmarshal([]byte(c.SDK.Stdout), &theirs)).To(Succeed())
		Expect(ours.ServiceInstance.Create.Parameters).To(HaveKeyWithValue("type", "object"))
		Expect(ours.ServiceInstance.Update.Parameters).To(HaveKeyWithValue("type", "object"))
		Expect(ours.ServiceBinding.Create.Parameters).To(HaveKeyWithValue("type", "object"))
	case succeeded && c.Args[0] == generateManifest && len(c.Args) > 1:
		Expect(asTheBrokerReads(stdout)).To(Equal(asTheBrokerReads(c.SDK.Stdout)))
	case succeeded && c.Args[0] == generateManifest:
		var ours, theirs serviceadapter.MarshalledGenerateManifest
		Expect(json.Unmarshal([]byte(stdout), &ours)).To(Succeed())
		Expect(json.Unmarshal([]byte(c.SDK.Stdout), &theirs)).To(Succeed())
		Expect(asTheBrokerReads(ours.Manifest)).To(Equal(asTheBrokerReads(theirs.Manifest)))
		Expect(theirs.ODBManagedSecrets).To(BeEmpty())
		Expect(ours.ODBManagedSecrets).To(BeEmpty())
		Expect(theirs.Configs).To(BeEmpty())
		Expect(ours.Configs).To(BeEmpty())
	case isDifferent:
		Expect(c.SDK.Stdout).To(Equal(differs.theirs))
		Expect(stdout).To(Equal(differs.ours))
	default:
		Expect(stdout).To(Equal(c.SDK.Stdout))
	}
}

var _ = Describe("the contract of the Go SDK", func() {
	It("is met for every recorded input", func(ctx context.Context) {
		s := newSite(filepath.Join("..", "sdk-contract", "pak"))
		paks, b := sdkPaks(s), newBroker(s)
		cases := sdkCases()
		Expect(cases).To(HaveLen(99))
		covered := 0
		for _, c := range cases {
			By(c.Name)
			s.set(map[string]any{"paks": []string{paks[c.Lacks]}})
			got := b.run(ctx, c.Stdin, c.Args...)
			Expect(got.Exit).To(Equal(c.SDK.Exit), "%s: %s", c.Name, got.Stderr)
			c.expectAsSDK(got.Stdout)
			if _, ok := different[c.Name]; ok {
				covered++
			}
			Expect(strings.Contains(got.Stderr, "internal error")).To(BeFalse(), got.Stderr)
		}
		Expect(covered).To(Equal(len(different)))

		By("a pak without bind deletes nothing, whatever the input is")
		s.set(map[string]any{"paks": []string{paks["binder"]}})
		for _, input := range []string{"", "asd", "{}"} {
			Expect(b.run(ctx, input, deleteBinding).Exit).To(Equal(10))
		}
	})

	It("allows the deletion of bindings that an earlier version of the pak created", func(ctx context.Context) {
		s := newSite("entries")
		b := newBroker(s)
		b.deploy(ctx, nil)
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
		definition, err := os.ReadFile(filepath.Join(s.pak, "entries.yml"))
		Expect(err).NotTo(HaveOccurred())
		s.write("entries.yml",
			string(regexp.MustCompile(`(?ms)^bind:\n.*?(^\S|\z)`).ReplaceAll(definition, []byte("$1"))))
		got := b.bind(ctx, "bind-2", nil)
		Expect(got.Exit).To(Equal(10), got.Stderr)
		Expect(got.Stdout).To(BeEmpty())
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(10))
		s.expectNothingLeft()
	})
})
