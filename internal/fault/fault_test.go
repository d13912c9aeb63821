package fault_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/fault"
)

var _ = Describe("a UserError", func() {
	It("has a message for the end user and a detail for the operator", func() {
		err := fmt.Errorf("creating: %w", &fault.UserError{Message: "too many clients", Err: fault.ErrBindingExists})
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue())
		Expect(user.Message).To(Equal("too many clients"))
		Expect(err).To(MatchError(fault.ErrBindingExists))
		Expect(err).To(MatchError("creating: too many clients: binding already exists"))
	})

	It("may have no detail", func() {
		err := fault.Userf("parameter %q is too large", "a")
		Expect(err).To(MatchError(`parameter "a" is too large`))
		Expect(errors.Unwrap(err)).To(BeNil())
	})
})

var _ = DescribeTable("the message for the end user", func(err error, message string) {
	Expect(fault.UserMessage(err)).To(Equal(message))
},
	Entry("of no error", nil, ""),
	Entry("of an error for the operator", errors.New("disk full"), ""),
	Entry("of a wrapped error", fmt.Errorf("creating: %w",
		&fault.UserError{Message: "too many clients", Err: errors.New("70000")}), "too many clients"),
	Entry("of joined errors, each once", fmt.Errorf("checking: %w", errors.Join(
		fault.Userf("no broker"), errors.New("disk full"),
		errors.Join(fmt.Errorf("group a: %w", fault.Userf("no agent")), fault.Userf("no broker")),
	)), "no broker; no agent"),
	Entry("of causes that only the operator can fix",
		errors.Join(fault.Operatorf("no release"), fault.Userf("too many"), fault.Operatorf("no %s", "job")),
		"too many; Contact your operator, service configuration issue occurred: no release; no job"),
)

var _ = DescribeTable("an error that only the operator can fix", func(err error, ofOperator bool) {
	Expect(fault.OnlyForOperator(err)).To(Equal(ofOperator))
},
	Entry(nil, errors.New("disk full"), true),
	Entry(nil, fmt.Errorf("group a: %w", fault.Operatorf("no job")), true),
	Entry(nil, fault.Userf("too many"), false),
	Entry(nil, errors.Join(fault.Operatorf("no job"), fault.Userf("too many")), false),
)

var _ = It("distinguishes the errors with exit codes", func() {
	all := []error{fault.ErrNotImplemented, fault.ErrBindingNotFound, fault.ErrAppGUIDMissing, fault.ErrBindingExists}
	for i, a := range all {
		for j, b := range all {
			Expect(errors.Is(fmt.Errorf("wrapped: %w", a), b)).To(Equal(i == j))
		}
	}
})
