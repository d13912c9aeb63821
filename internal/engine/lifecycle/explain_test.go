package lifecycle_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/fault"
)

var _ = Describe("the explanation of an error of a template", func() {
	rules := []brokerpak.ErrorRule{
		{Match: "(", Message: "a pattern that is not valid"},
		{Match: "quota", Message: "The quota is used up."},
		{Match: "no such role", Exit: "41"},
		{Match: "role exists", Exit: "49"},
		{Match: "role|is full"},
		{Match: "role", Message: "a later rule"},
	}
	failure := func(summary string) *opentofu.Error {
		return &opentofu.Error{Command: "apply", ExitCode: 1, Summary: summary, Detail: "in detail"}
	}

	DescribeTable("is that of the first rule that matches",
		func(summary, message string, wrapped error) {
			failed := fmt.Errorf("applying: %w", failure(summary))
			explained := lifecycle.ExplainError(failed, rules, "plan", "apply")
			Expect(explained).To(MatchError(failed))
			Expect(fault.UserMessage(explained)).To(Equal(message))
			if wrapped != nil {
				Expect(explained).To(MatchError(wrapped))
			}
		},
		Entry("with its message", "the quota of roles", "The quota is used up.", nil),
		Entry("with OpenTofu's diagnosis if it has no message", "the disk is full", "the disk is full: in detail", nil),
		Entry("a binding does not exist", "no such role", "", fault.ErrBindingNotFound),
		Entry("a binding exists", "role exists", "", fault.ErrBindingExists),
	)

	It("is missing if no rule may explain the error", func() {
		unchanged := func(err error, commands ...string) {
			GinkgoHelper()
			Expect(lifecycle.ExplainError(err, rules, commands...)).To(BeIdenticalTo(err))
		}
		Expect(lifecycle.ExplainError(nil, rules, "apply")).To(Succeed())
		unchanged(errors.New("the quota"), "apply")
		unchanged(failure("something else"), "apply")
		unchanged(failure("the quota"), "destroy")
		backend := failure("the quota")
		backend.Backend = "pg"
		unchanged(backend, "apply")
	})
})
