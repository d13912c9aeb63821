package diag_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/diag"
)

var _ = DescribeTable("a diagnostic", func(d diag.Diagnostic, want string) {
	Expect(d.String()).To(BeEquivalentTo(want))
},
	Entry("with a position", diag.Diagnostic{
		Rule: "type", Message: "a must be b",
		Pos: diag.Pos{File: "x.yml", Line: 3, Column: 7},
	}, "x.yml:3:7: a must be b [type]"),
	Entry("with a line", diag.Diagnostic{Rule: "type", Message: "m", Pos: diag.Pos{File: "x.yml", Line: 3}},
		"x.yml:3: m [type]"),
	Entry("of a file", diag.Diagnostic{Rule: "type", Message: "m", Pos: diag.Pos{File: "x.yml"}}, "x.yml: m [type]"),
	Entry("that is a warning", diag.Diagnostic{Severity: diag.Warning, Message: "m", Pos: diag.Pos{File: "x.yml"}},
		"x.yml: warning: m"),
)

var _ = Describe("a list", func() {
	at := func(file string, line, column int) diag.Pos { return diag.Pos{File: file, Line: line, Column: column} }

	It("is sorted and has no repetitions", func() {
		var list, more diag.List
		list.Errorf(at("b", 1, 1), "r", "%d", 4)
		list.Warnf(at("a", 10, 1), "r", "3")
		list.Errorf(at("a", 2, 9), "s", "2")
		list.Errorf(at("a", 2, 9), "r", "1")
		more.Errorf(at("a", 2, 1), "z", "0")
		more.Errorf(at("a", 2, 9), "s", "2")
		list.Append(&more)
		list.Append(nil)

		var messages []string
		for _, d := range list.All() {
			messages = append(messages, d.Message)
		}
		Expect(messages).To(Equal([]string{"0", "1", "2", "3", "4"}))
		Expect(list.Err()).To(MatchError("a:2:1: 0 [z]\na:2:9: 1 [r]\na:2:9: 2 [s]\nb:1:1: 4 [r]"))

		var found diag.Errors
		Expect(errors.As(fmt.Errorf("wrapped: %w", list.Err()), &found)).To(BeTrue())
		Expect(found).To(HaveLen(4))
	})

	It("is not an error if it contains only warnings", func() {
		var list diag.List
		Expect(list.Err()).To(Succeed())
		list.Warnf(at("a", 1, 1), "r", "m")
		Expect(list.HasErrors()).To(BeFalse())
		Expect(list.Err()).To(Succeed())
		list.Errorf(at("a", 1, 1), "r", "m")
		Expect(list.HasErrors()).To(BeTrue())
	})
})

var _ = DescribeTable("a suggestion", func(name, want string) {
	Expect(diag.Suggest(name, []string{
		"n", "plan_inputs", "user_inputs", "ops", "if",
		"outputs",
	})).To(BeEquivalentTo(want))
},
	Entry(nil, "plan_input", `; did you mean "plan_inputs"?`),
	Entry(nil, "usr_inputz", `; did you mean "user_inputs"?`),
	Entry(nil, "op", `; did you mean "ops"?`),
	Entry("too far", "plan", ""),
	Entry("swapped letters", "otupust", `; did you mean "outputs"?`),
	Entry("another case", "Plan_Inputs", `; did you mean "plan_inputs"?`),
	Entry("a letter in another case", "N", `; did you mean "n"?`),
	Entry("another letter", "x", ""),
	Entry("two letters, one of which differs", "of", ""),
	Entry("short names need more in common", "xy", ""),
	Entry("one of three letters", "opt", `; did you mean "ops"?`),
	Entry("three letters differ", "uxer_inqutz", ""),
	Entry("nothing", "", ""),
)

var _ = DescribeTable("names in a message", func(names []string, want string) {
	before := append([]string(nil), names...)
	Expect(diag.Names(names)).To(BeEquivalentTo(want))
	Expect(names).To(Equal(before))
},
	Entry(nil, nil, "none"),
	Entry(nil, []string{"b", "a"}, "a, b"),
	Entry("twice the same", []string{"b", "a", "b", "a"}, "a, b"),
	Entry(nil, []string{"9", "8", "7", "6", "5", "4", "3", "2", "1"}, "1, 2, 3, 4, 5, 6, 7, 8, 9"),
	Entry(nil, []string{"j", "i", "h", "g", "f", "e", "d", "c", "b", "a"}, "a, b, c, d, e, f, g, h, i, …"),
)
