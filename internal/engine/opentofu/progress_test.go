package opentofu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = Describe("the progress of a run", func() {
	// message returns a line of the -json output as OpenTofu 1.12 writes it.
	message := func(kind, action, address string) string {
		return `{"@level":"info","type":"` + kind + `","hook":{"resource":{"addr":"` + address + `"},` +
			`"action":"` + action + `"}}` + "\n"
	}

	It("reports the instances that were created, may exist or were destroyed", func() {
		progress := opentofu.ReadProgress([]byte("no JSON\n" +
			message("apply_start", "create", "a.done") + message("apply_complete", "create", "a.done") +
			message("apply_start", "create", "a.failed") + message("apply_errored", "create", "a.failed") +
			message("apply_start", "create", "a.begun") +
			message("apply_start", "delete", "a.old") + message("apply_complete", "delete", "a.old") +
			message("apply_start", "delete", "a.kept") + message("apply_errored", "delete", "a.kept") +
			message("apply_start", "delete", "a.replaced") + message("apply_complete", "delete", "a.replaced") +
			message("apply_start", "create", "a.replaced") + message("apply_complete", "create", "a.replaced") +
			message("apply_start", "create", "terraform_data._complete") +
			message("apply_complete", "create", "terraform_data._complete")))
		Expect(progress.Started).To(BeTrue())
		Expect(progress.Created).To(Equal([]string{"a.done", "a.replaced"}))
		Expect(progress.Begun).To(Equal([]string{"a.failed", "a.begun"}), "a failed creation may leave a resource")
		Expect(progress.Destroyed).To(Equal([]string{"a.old"}))
		Expect(progress.Remaining([]string{"a.old", "a.kept", "a.replaced", "a.untouched"})).To(Equal(
			[]string{"a.begun", "a.done", "a.failed", "a.kept", "a.replaced", "a.untouched"}))
	})

	It("keeps an instance that was created before the old object of its address was destroyed", func() {
		progress := opentofu.ReadProgress([]byte(
			message("apply_start", "create", "a.replaced") + message("apply_complete", "create", "a.replaced") +
				message("apply_start", "delete", "a.replaced") + message("apply_complete", "delete", "a.replaced")))
		Expect(progress.Created).To(Equal([]string{"a.replaced"}))
		Expect(progress.Destroyed).To(BeEmpty())
		Expect(progress.Remaining([]string{"a.replaced"})).To(Equal([]string{"a.replaced"}))
	})

	It("reports that the guard was created, but not that it was updated", func() {
		const guard = "terraform_data._binding"
		Expect(opentofu.ReadProgress([]byte(message("apply_start", "create", guard))).GuardCreated).To(BeTrue())
		Expect(opentofu.ReadProgress([]byte(message("apply_start", "update", guard))).GuardCreated).To(BeFalse())
	})

	It("does not report a start if OpenTofu only read data sources and changed the guard", func() {
		progress := opentofu.ReadProgress([]byte(message("apply_start", "read", "data.a.b") +
			message("apply_start", "update", "terraform_data._binding") +
			message("apply_complete", "update", "terraform_data._binding")))
		Expect(progress).To(Equal(opentofu.Progress{}))
	})
})
