package lifecycle_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

var _ = Describe("a record", func() {
	It("is decoded with the values that were encoded", func() {
		values := map[string]any{"size": int64(3), "ratio": 0.5, "list": []any{int64(1), "a"}, "none": nil}
		remembered := &lifecycle.StateRecord{
			Subject: lifecycle.Subject{Instance: record.Instance{InstanceID: "i1"}},
			ResolvedInputs: lifecycle.ResolvedInputs{
				Request: values, Inputs: values, Generated: map[string]map[string]any{"input": {"call": int64(7)}},
			},
			LastApply: lifecycle.LastApply{Outputs: values},
			Import:    lifecycle.Import{ImportedValues: values, ImportedParameters: values},
		}
		text, err := remembered.Encode("1.2.3")
		Expect(err).NotTo(HaveOccurred())
		Expect(lifecycle.DecodeRecord(text)).To(Equal(remembered))
	})

	It("is stored as one JSON object with the keys that every release reads", func() {
		values := map[string]any{"a": "b"}
		full := &lifecycle.StateRecord{
			Subject: lifecycle.Subject{
				BindingID: "b1",
				Instance: record.Instance{
					InstanceID: "i1", Deployment: "d", Service: "s", ServiceID: "si", Plan: "p", PlanID: "pi",
				},
				Owner: record.Owner{App: "a", Organization: "o", Space: "sp"},
			},
			Source: lifecycle.Source{
				AppliedWith: lifecycle.AppliedWith{Pak: "pak", PakVersion: "1", Tofu: "1.12.6"},
				Providers:   []opentofu.Provider{{}}, Templates: map[string]string{"main.tf": ""},
				Declared: []string{"a"},
			},
			ResolvedInputs: lifecycle.ResolvedInputs{
				Request: values, Inputs: values, Live: []lifecycle.LiveInput{{}},
				Generated: map[string]map[string]any{"a": values},
			},
			LastApply: lifecycle.LastApply{
				Attempt: "x", Outputs: values, Failure: &lifecycle.Failure{}, Lost: []string{"a.b"},
			},
			Import: lifecycle.Import{
				Imported: map[string]string{"a.b": "id"}, ImportedValues: values, ImportedParameters: values,
			},
			Times: lifecycle.Times{CreatedAt: "2026-01-02T03:04:05Z"},
		}
		text, err := full.Encode("1.2.3")
		Expect(err).NotTo(HaveOccurred())
		Expect(value.DecodeObject(text)).To(WithTransform(value.Keys[any], ConsistOf(
			"format", "adapter_version",
			"binding_id", "instance_id", "deployment", "service", "service_id", "plan", "plan_id",
			"app_guid", "organization_guid", "space_guid", "pak", "pak_version", "tofu_version",
			"providers", "templates", "declared", "request", "inputs", "live", "generated",
			"attempt", "outputs", "failure", "lost", "imported", "found",
			"found_parameters", "created_at", "updated_at",
		)))
		Expect(lifecycle.DecodeRecord(text)).To(Equal(full))
	})

	It("of each release can be decoded, and any other data is rejected with a reason", func() {
		for _, fixture := range []string{"format-1", "format-1-times"} {
			text, err := os.ReadFile(filepath.Join("testdata", "records", fixture+".json"))
			Expect(err).NotTo(HaveOccurred())
			decoded, err := lifecycle.DecodeRecord(text)
			Expect(err).NotTo(HaveOccurred(), fixture)
			entry := decoded.Entry()
			Expect(entry.ID).To(Equal("b1"))
			Expect(entry.Adapter).To(BeEmpty(), "releases before 1.0 did not write it")
			Expect(entry.Owner).To(Equal(record.Owner{App: "app", Space: "space", Organization: "org"}))
			Expect(entry.CreatedAt == "").To(Equal(fixture == "format-1"))
			// A key of a later release is ignored.
			_, err = lifecycle.DecodeRecord([]byte(strings.Replace(string(text), "{", `{"later": {"a": 1},`, 1)))
			Expect(err).NotTo(HaveOccurred())
			_, err = lifecycle.DecodeRecord([]byte(strings.Replace(string(text), `"format":1`, `"format":2`, 1)))
			Expect(err).To(MatchError("reading the record: format 2 is not supported; a newer adapter may have " +
				"written it"))
		}
	})

	It("names the adapter that encoded it last", func() {
		remembered := &lifecycle.StateRecord{Subject: lifecycle.Subject{Instance: record.Instance{InstanceID: "i1"}}}
		for _, version := range []string{"1.2.3", "1.3.0"} {
			text, err := remembered.Encode(version)
			Expect(err).NotTo(HaveOccurred())
			remembered, err = lifecycle.DecodeRecord(text)
			Expect(err).NotTo(HaveOccurred())
			Expect(remembered.Entry().Adapter).To(Equal(version))
		}
	})

	It("has the time of its encoding, and keeps the time of its creation", func() {
		const made = "2026-01-02T03:04:05Z"
		remembered := &lifecycle.StateRecord{
			Subject: lifecycle.Subject{Instance: record.Instance{InstanceID: "i1"}},
			Times:   lifecycle.Times{CreatedAt: made},
		}
		text, err := remembered.Encode("1.2.3")
		Expect(err).NotTo(HaveOccurred())
		again, err := lifecycle.DecodeRecord(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.CreatedAt).To(Equal(made))
		at, err := time.Parse(time.RFC3339, again.UpdatedAt)
		Expect(err).NotTo(HaveOccurred())
		Expect(at).To(And(BeTemporally("~", time.Now(), time.Minute), HaveField("Location()", time.UTC)))
	})
})
