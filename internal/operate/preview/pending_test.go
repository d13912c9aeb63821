package preview_test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/internal/operate/preview"
	"service-adapter/spec/kit/site"
)

var _ = Describe("a check for pending changes", func() {
	It("reports values that differ in each call", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Inputs: "[]\n  computed_inputs: [{name: r, default: '${rand.base64(8)}', overwrite: true}]",
			Bosh:   "    ops:\n    - inline:\n      - {type: replace, path: '/tags?', value: {r: ((r))}}\n",
		}.String()))
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		Expect(result.Code).To(Equal(0))
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		plan := site.JSONText(site.Instance().Plan)
		invocation := session.Process{Getenv: s.Getenv}

		changes, err := preview.Changes(context.Background(), invocation, product.Manifest, plan, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(BeEmpty(), "a generated value is carried over")

		// Without the record, the value is not carried over.
		foreign, _, found := strings.Cut(product.Manifest, "\nbrokerpak: ")
		Expect(found).To(BeTrue())
		changes, err = preview.Changes(context.Background(), invocation, foreign+"\n", plan, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(HaveLen(1))
		Expect(changes[0].Path).To(Equal("/tags/r"))
		Expect(changes[0].Reason).To(HavePrefix("not deterministic: "))
		Expect(changes[0].Deployed).NotTo(Equal(changes[0].Generated))
	})

	It("matches entries of lists by their names if the number differs", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{}.String()))
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		deployed := strings.Replace(product.Manifest, "instance_groups:\n",
			"instance_groups:\n  - {name: gone, instances: 2}\n", 1)
		changes, err := preview.Changes(context.Background(), session.Process{Getenv: s.Getenv}, deployed,
			site.JSONText(site.Instance().Plan), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(HaveLen(1))
		Expect(changes[0].Path).To(Equal("/instance_groups/name=gone"))
		Expect(changes[0].Deployed).To(HaveKeyWithValue("instances", int64(2)))
		Expect(changes[0].Generated).To(BeNil())
	})

	It("names a manifest that an operator edited and deployed", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{}.String()))
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		// reasons returns the reasons for the changes after operators have edited a manifest with ops files.
		reasons := func(manifest string, paths ...string) (reasons []string) {
			GinkgoHelper()
			var edits patch.Ops
			for _, path := range paths {
				edits = append(edits, patch.ReplaceOp{Path: patch.MustNewPointerFromString(path), Value: "edited"})
			}
			deployed, err := template.NewTemplate([]byte(manifest)).Evaluate(template.StaticVariables{}, edits,
				template.EvaluateOpts{})
			Expect(err).NotTo(HaveOccurred())
			changes, err := preview.Changes(context.Background(), session.Process{Getenv: s.Getenv}, string(deployed),
				site.JSONText(site.Instance().Plan), nil)
			Expect(err).NotTo(HaveOccurred())
			for _, change := range changes {
				reasons = append(reasons, change.Reason)
			}
			return reasons
		}
		const edited = "edited by hand: the text of the deployed manifest is not as the adapter writes it; " +
			"otherwise "
		Expect(reasons(product.Manifest)).To(BeEmpty())
		Expect(reasons(product.Manifest, "/instance_groups/name=server/jobs/name=server/properties?/a",
			"/instance_groups/name=server/vm_type")).To(ConsistOf(HavePrefix(edited+"template or plan changed"),
			HavePrefix(edited+"plan changed")))

		By("and not one that another adapter wrote")
		foreign, _, found := strings.Cut(product.Manifest, "\nbrokerpak: ")
		Expect(found).To(BeTrue())
		Expect(reasons(foreign, "/tags?/a")).To(ConsistOf(HavePrefix("parameter lost: ")))
	})

	It("rejects a text that is not a manifest", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{}.String()))
		_, err := preview.Changes(context.Background(), session.Process{Getenv: s.Getenv}, "[]", "{}", nil)
		Expect(err).To(MatchError(ContainSubstring("reading the deployed manifest")))
	})
})
