package vars_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/vars"
)

var _ = Describe("functions of values that a user controls", func() {
	scope := func(guard bool) *vars.Scope {
		s := vars.NewScope(vars.Options{GuardReferences: guard})
		s.Set(vars.ParameterLayer, values{
			"text": "(,(a))", "bare": "a))", "open": "(", "list": []any{"(", "(a))"}, "map": values{"k": "(a))"},
			"number": int64(3), "bad": "[",
		})
		return s
	}

	DescribeTable("cannot construct a reference to a credential",
		func(text string) {
			_, err := scope(true).Eval("out", template(text))
			Expect(fault.UserMessage(err)).To(Equal(`the value of "out" would contain "((", which is not allowed`))
			result, err := scope(false).Eval("out", template(text))
			Expect(err).NotTo(HaveOccurred())
			Expect(vars.HasReference(result)).To(BeTrue(), "the expression does not construct a reference")
		},
		Entry("join", `${join("", list)}`),
		Entry("join of split", `${join("", split(",", text))}`),
		Entry("join of sort, reverse, distinct and slice",
			`${join("", slice(distinct(reverse(reverse(sort(list)))), 0, 2))}`),
		Entry("join of concat and flatten", `${join("", concat(flatten(list), list))}`),
		Entry("join of values", `${join("", concat(split(",", open), values(map)))}`),
		Entry("join of regex", `${join("", regex("(\\().(.*)", text))}`),
		Entry("join by the user's text", `${join(open, split("x", "(xa))"))}`),
		Entry("keys", `${join("", concat(keys(map), list))}`),
		Entry("replace", `${replace(text, ",", "")}`),
		Entry("replace of a pattern", `${replace(text, "/[,x]/", "")}`),
		Entry("replace by groups", `${replace(text, "/^(.).*/", "$1$1")}`),
		Entry("replace by the user's text", `${replace("xxa))", "x", open)}`),
		Entry("trim", `${"(${trim(text, ",a)")}${bare}"}`),
		Entry("trimprefix and trimsuffix", `(${trimprefix(trimsuffix(text, ")"), "x")}`),
		Entry("lower and trimspace", `(${lower(trimspace(" ${open}A))"))}`),
		Entry("element", `(${element(split(",", text), 1)}`),
		Entry("element of a list", `(${element(list, -1)}`),
		Entry("an element of a list", `${concat(split("x", replace(text, ",", "")), list)}`),
		Entry("an element of a range", `${concat(range(number), split(",", "((${bare}"))}`),
		Entry("a value of a map", `${merge(map, regex("(?P<k>.*)", replace(text, ",", "")))}`),
		Entry("numbers", `${min(number, 1)}((${max(number, 1)}))`),
	)

	It("report errors to the user if they reject a parameter", func() {
		for text, message := range map[string]string{
			`${regex("^[a-z]+$", open)}`: `parameter "open" cannot be used: the text does not match the regular ` +
				`expression ^[a-z]+$`,
			`${regex(bad, "a")}`: `parameter "bad" cannot be used: invalid regular expression: missing ` +
				`closing ]`,
			`${max(number, bad)}`: `parameter "bad", "number" cannot be used: the text is not a number`,
			`${slice(list, 0, number)}`: `parameter "list", "number" cannot be used: the indexes must be from 0 ` +
				`to 2, the first not after the second`,
			`${join(",", concat(list, m))}`: "",
		} {
			_, err := scope(true).Eval("out", template(text))
			Expect(err).To(HaveOccurred(), text)
			Expect(fault.UserMessage(err)).To(Equal(message), text)
		}
	})

	It("return lists, maps and numbers for inputs of these types", func() {
		s := scope(true)
		Expect(s.Computed([]brokerpak.Variable{
			computed("parts", "array", false, `${split("-", "a-b")}`),
			computed("first", "string", false, `${parts[0]}`),
			computed("count", "integer", false, `${max(number, length(parts))}`),
			computed("all", "object", false, `${merge(map, regex("(?P<x>\\d)", "5"))}`),
			computed("is", "boolean", false, `${contains(parts, "b")}`),
		})).To(Succeed())
		Expect(s.Values).To(And(
			HaveKeyWithValue("parts", []any{"a", "b"}), HaveKeyWithValue("first", "a"),
			HaveKeyWithValue("count", int64(3)),
			HaveKeyWithValue("all", values{"k": "(a))", "x": "5"}), HaveKeyWithValue("is", true),
		))
		var user *fault.UserError
		err := s.Computed([]brokerpak.Variable{computed("ends", "array", false,
			`${split(",", replace(text, ",", ""))}`)})
		Expect(errors.As(err, &user)).To(BeTrue())
	})
})
