package provision_test

import (
	"context"
	"errors"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/fault"
	"service-adapter/spec/kit"
)

// importable is a template with the imported resource in main.tf and a new resource in the other file.
const importable = `
resource "directory_entry" "data" {
  path = var.path
  name = "data"
}
`

const beside = `
variable "content" { default = null }
variable "fail" { default = "" }
resource "directory_entry" "beside" {
  path = var.path
  name = "beside"
}
resource "directory_entry" "last" {
  path = directory_entry.beside.path
  name = "last"
  fail = var.fail
}
output "content" { value = directory_entry.data.content }
output "secret" {
  value     = directory_entry.data.secret
  sensitive = true
}
`

const importInputs = `  import_inputs:
  - {field_name: data_id, type: string, details: x, tf_resource: directory_entry.data}
  import_parameter_mappings:
  - {tf_variable: content, parameter_name: var.content}
  import_parameters_to_delete: [directory_entry.data.secret]
  import_parameters_to_add:
  - {tf_variable: directory_entry.data.fail, parameter_name: var.fail}
  user_inputs:
  - {field_name: content, type: string, details: x}
  - {field_name: fail, type: string, details: x}
  - {field_name: label, type: string, details: x, tf_attribute: directory_entry.data.name,
    tf_attribute_skip: without_label}
  - {field_name: without_label, type: boolean, details: x}
`

var _ = Describe("an import", func() {
	var s *site
	var id string

	BeforeEach(func() {
		s = newSite(pak{template: importable, further: beside, provision: importInputs})
		id = s.make("data", "as it was")
	})

	// expectAsBefore asserts that the imported resource is unchanged and that no other resource exists.
	expectAsBefore := func() {
		GinkgoHelper()
		Expect(s.entry("data")).To(Equal(object{"content": "as it was", "secret": "made by hand"}))
		Expect(s.entry("beside")).To(BeNil())
	}

	It("adds a resource to the state without changing it", func(ctx context.Context) {
		result := s.must(ctx, object{"data_id": id})
		Expect(result.Outputs).To(Equal(object{"content": "as it was", "secret": "made by hand"}))
		Expect(s.entry("data")).To(Equal(object{"content": "as it was", "secret": "made by hand"}))
		Expect(s.entry("beside")).NotTo(BeNil())
		record := s.record(ctx)
		Expect(record.Templates["main.tf"]).To(And(ContainSubstring("var.content"), ContainSubstring("var.fail"),
			Not(ContainSubstring("by hand"))))
		Expect(record.Imported).To(Equal(map[string]string{"directory_entry.data": id}))

		changes()
		kept := object{"data_id": id, "content": "as it was"}
		Expect(s.pending(ctx, kept)).To(BeFalse())
		Expect(s.must(ctx, kept).Changed).To(BeFalse())
		Expect(changes()).To(BeEmpty())
		Expect(s.must(ctx, object{"data_id": id, "content": "changed"}).Outputs).To(
			Equal(object{"content": "changed", "secret": "made by hand"}))
		s.destroy(ctx)
		Expect(s.entry("data")).To(BeNil())
	})

	It("sets the user inputs to the values of the resource", func(ctx context.Context) {
		request := s.request(object{"data_id": id})
		var found []map[string]any
		resolve := request.Resolve
		request.Resolve = func(values map[string]any) (map[string]any, map[string]map[string]any, error) {
			found = append(found, values)
			return resolve(values)
		}
		_, err := s.Apply(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(Equal([]map[string]any{{"content": "as it was", "label": "data"}}))
	})

	It("skips a tf_attribute if tf_attribute_skip is true", func(ctx context.Context) {
		request := s.request(object{"data_id": id, "without_label": true})
		resolve := request.Resolve
		request.Resolve = func(values map[string]any) (map[string]any, map[string]map[string]any, error) {
			Expect(values).NotTo(HaveKey("label"))
			return resolve(values)
		}
		_, err := s.Apply(ctx, request)
		Expect(err).NotTo(HaveOccurred())
	})

	It("applies changes that the user requests immediately", func(ctx context.Context) {
		result := s.must(ctx, object{"data_id": id, "content": "changed"})
		Expect(result.Outputs).To(Equal(object{"content": "changed", "secret": "made by hand"}))
	})

	It("keeps the configuration of the resource when a newer pak changes the template", func(ctx context.Context) {
		s.must(ctx, object{"data_id": id})
		s.install(pak{
			version: "2.0.0", template: importable, further: beside + "output \"more\" { value = 1 }\n",
			provision: importInputs,
		})
		s.UseInstalledTemplate, s.AllowUpgrade = true, true
		kept := object{"data_id": id, "content": "as it was"}
		result := s.must(ctx, kept)
		Expect(result.Outputs).To(Equal(object{"content": "as it was", "secret": "made by hand", "more": int64(1)}))
		Expect(s.record(ctx).Templates["main.tf"]).To(ContainSubstring("var.content"))
	})

	It("creates a new resource if there are no import inputs", func(ctx context.Context) {
		Expect(os.Remove(id)).To(Succeed())
		Expect(s.must(ctx, object{"content": "x"}).Outputs).To(HaveKey("secret"))
		Expect(s.record(ctx).Imported).To(BeNil())
	})

	It("forgets the resource when the import fails", func(ctx context.Context) {
		s.install(pak{template: importable, further: beside, provision: importInputs + "  errors:\n" +
			"  - {match: non-existent, exit: user, message: There is no such entry}\n"})
		_, err := s.apply(ctx, object{"data_id": id + "-other"})
		Expect(fault.UserMessage(err)).To(Equal("There is no such entry"), "%s", err)
		expectAsBefore()
		Expect(s.stored()).To(BeEmpty())
	})

	It("forgets the resource and destroys all others when the apply fails", func(ctx context.Context) {
		_, err := s.apply(ctx, object{"data_id": id, "fail": "no space"})
		Expect(err).To(MatchError(ContainSubstring("Entry refused")))
		expectAsBefore()
		Expect(s.stored()).To(BeEmpty())
		s.must(ctx, object{"data_id": id})
	})

	It("succeeds if OpenTofu fails after it stored everything", func(ctx context.Context) {
		mend := fail(atEnd)
		Expect(s.must(ctx, object{"data_id": id}).Outputs).To(
			Equal(object{"content": "as it was", "secret": "made by hand"}))
		mend()
		changes()
		s.known = false
		Expect(s.must(ctx, object{"data_id": id}).Changed).To(BeFalse())
		Expect(s.entry("data")).To(Equal(object{"content": "as it was", "secret": "made by hand"}))
	})

	DescribeTable("forgets the resource if only an output fails", func(ctx context.Context, attribute string) {
		s.install(pak{template: importable, provision: importInputs, further: beside + `
output "checked" {
  value = directory_entry.beside.` + attribute + `
  precondition {
    condition     = directory_entry.beside.secret == "another"
    error_message = "It has the wrong secret."
  }
}
`})
		_, err := s.apply(ctx, object{"data_id": id})
		Expect(err).To(MatchError(ContainSubstring("It has the wrong secret")))
		expectAsBefore()
		Expect(s.stored()).To(BeEmpty())
	}, Entry("that was planned", "name"), Entry("that was not known", kit.Slow(), "secret"))

	It("forgets the resource if the values are rejected", func(ctx context.Context) {
		request := s.request(object{"data_id": id})
		request.Resolve = func(map[string]any) (map[string]any, map[string]map[string]any, error) {
			return nil, nil, fault.Userf("content is too short")
		}
		_, err := s.Apply(ctx, request)
		Expect(err).To(MatchError(ContainSubstring("content is too short")))
		expectAsBefore()
		Expect(s.stored()).To(BeEmpty())
	})

	It("is cancelled if the plan would destroy a resource", func(ctx context.Context) {
		s.install(pak{template: importable, further: beside, provision: importInputs + `  computed_inputs: []
`})
		s.pak.Services[0].Provision.ImportParametersToAdd[0].TFVariable = "directory_entry.data.name"
		s.pak.Services[0].Provision.ImportParametersToAdd[0].Parameter = `"another"`
		_, err := s.apply(ctx, object{"data_id": id})
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue(), "%v", err)
		Expect(user.Message).To(Equal("the plan would destroy directory_entry.data; the import is cancelled"))
		expectAsBefore()
		Expect(s.stored()).To(BeEmpty())
	})

	DescribeTable("begins again after a kill, and never destroys the resource", func(
		ctx context.Context, point string,
	) {
		_ = s.killed(ctx, point, object{"data_id": id})
		Expect(s.entry("data")).To(HaveKeyWithValue("secret", "made by hand"))
		stored, err := s.Lookup(ctx, lifecycle.Instance, s.id)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition).To(Equal(lifecycle.Importing))
		Expect(s.must(ctx, object{"data_id": id}).Outputs).To(HaveKeyWithValue("secret", "made by hand"))
	}, Entry(nil, kit.Slow(), beforeCreate), Entry(nil, afterCreate))

	It("keeps its values although no manifest contains them", func(ctx context.Context) {
		s.must(ctx, object{"data_id": id})
		s.known = false
		request := s.request(object{"data_id": id})
		var found []map[string]any
		resolve := request.Resolve
		request.Resolve = func(values map[string]any) (map[string]any, map[string]map[string]any, error) {
			found = append(found, values)
			return resolve(values)
		}
		result, err := s.Apply(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(Equal([]map[string]any{{"content": "as it was", "label": "data"}}))
		Expect(result.Outputs).To(Equal(object{"content": "as it was", "secret": "made by hand"}))
		s.must(ctx, object{"data_id": id, "content": "changed"})
		Expect(s.record(ctx).ImportedParameters).To(Equal(object{"content": "as it was", "label": "data"}))
	})

	It("is forgotten by an operator's destroy after an interruption", func(ctx context.Context) {
		_ = s.killed(ctx, beforeCreate, object{"data_id": id})
		s.destroy(ctx)
		Expect(s.entry("data")).To(Equal(object{"content": "as it was", "secret": "made by hand"}))
	})

	It("is rejected for an existing instance", func(ctx context.Context) {
		Expect(os.Remove(id)).To(Succeed())
		s.must(ctx, object{"content": "x"})
		s.known = false
		_, err := s.apply(ctx, object{"content": "x", "data_id": s.make("other", "y")})
		Expect(err).To(MatchError(ContainSubstring("exists already")))
	})

	It("needs no import inputs for an instance that has imported its resource", func(ctx context.Context) {
		s.must(ctx, object{"data_id": id})
		s.known = false
		Expect(s.must(ctx, object{"content": "changed"}).Outputs).To(HaveKeyWithValue("content", "changed"))
	})

	It("needs all import inputs", func(ctx context.Context) {
		s.install(pak{template: importable, further: beside, provision: `  import_inputs:
  - {field_name: data_id, type: string, details: x, tf_resource: directory_entry.data}
  - {field_name: beside_id, type: string, details: x, tf_resource: directory_entry.beside}
  - {field_name: last_id, type: string, details: x, tf_resource: directory_entry.last}
`})
		_, err := s.apply(ctx, object{"data_id": id})
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue(), "%v", err)
		Expect(user.Message).To(Equal("must provide values for all import parameters: beside_id, last_id"))
		Expect(s.stored()).To(BeEmpty())
	})
})
