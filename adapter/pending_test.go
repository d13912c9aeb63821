package adapter_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
)

var _ = Describe("pending changes", func() {
	It("tells what is another value each time", func() {
		s := newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{
			inputs: "[]\n  computed_inputs: [{name: r, default: '${rand.base64(8)}', overwrite: true}]",
			bosh:   "    ops:\n    - inline:\n      - {type: replace, path: '/tags?', value: {r: ((r))}}\n",
		}.String()))
		result := s.call("generate-manifest", instance().Generate(body(nil)))
		Expect(result.Code).To(Equal(0))
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		plan := jsonText(instance().Plan)
		invocation := adapter.Invocation{Getenv: s.getenv}

		changes, err := adapter.PendingChanges(context.Background(), invocation, product.Manifest, plan, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(BeEmpty(), "a generated value is carried over")

		// Without the record nothing carries it over.
		foreign, _, found := strings.Cut(product.Manifest, "\nbrokerpak: ")
		Expect(found).To(BeTrue())
		changes, err = adapter.PendingChanges(context.Background(), invocation, foreign+"\n", plan, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(HaveLen(1))
		Expect(changes[0].Path).To(Equal("/tags/r"))
		Expect(changes[0].Reason).To(HavePrefix("not deterministic: "))
		Expect(changes[0].Deployed).NotTo(Equal(changes[0].Generated))
	})

	It("compares entries of lists by their names where there are others", func() {
		s := newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{}.String()))
		result := s.call("generate-manifest", instance().Generate(body(nil)))
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		deployed := strings.Replace(product.Manifest, "instance_groups:\n", "instance_groups:\n  - {name: gone, instances: 2}\n", 1)
		changes, err := adapter.PendingChanges(context.Background(), adapter.Invocation{Getenv: s.getenv}, deployed, jsonText(instance().Plan), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(HaveLen(1))
		Expect(changes[0].Path).To(Equal("/instance_groups/name=gone"))
		Expect(changes[0].Deployed).To(HaveKeyWithValue("instances", int64(2)))
		Expect(changes[0].Generated).To(BeNil())
	})

	It("refuses what is no manifest", func() {
		s := newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{}.String()))
		_, err := adapter.PendingChanges(context.Background(), adapter.Invocation{Getenv: s.getenv}, "[]", "{}", nil)
		Expect(err).To(MatchError(ContainSubstring("reading the deployed manifest")))
	})
})
