package expr_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak/expr"
)

var _ = Describe("Template.Check of types", func() {
	known := expr.Names{
		Variables: []string{"text", "tags", "labels", "anything"},
		Types:     map[string]expr.Type{"text": expr.String, "tags": expr.List, "labels": expr.Map},
		Functions: map[string]expr.Function{
			"names": {Result: expr.List, Call: func([]any) (any, error) { return []any{"a"}, nil }},
			"alive": {Result: expr.Bool, Call: func([]any) (any, error) { return true, nil }},
		},
	}
	scope := func() *expr.Scope {
		s := scopeOf(vars{
			"text": "5", "tags": []any{"1", "2"}, "labels": map[string]any{"a": "1"}, "anything": "1",
		})
		s.Functions = known.Functions
		return s
	}

	DescribeTable("reports operations that fail with every value",
		func(text, message string) {
			template := parse(text)
			Expect(template.Check(known).Err()).To(MatchError(ContainSubstring(message)))
			_, err := template.Eval(scope())
			Expect(err).To(HaveOccurred(), "a static fault must be one at run time as well")
		},
		Entry("a list in a text", `a ${tags}`, "12:14: a list cannot be a part of a text"),
		Entry("a map in a text", `a ${labels}`, "a map cannot be a part of a text"),
		Entry("a list from a function in a text", `a ${names()}`, "a list cannot be a part of a text"),
		Entry("a word as a number", `${str.truncate("two", text)}`,
			`12:26: argument 1 of str.truncate must be an int, not "two"`),
		Entry("a map as a text", `${config(labels)}`, "argument 1 of config must be a string, not a map"),
		Entry("a text as a map", `${map.flatten(":", ",", text)}`,
			"argument 3 of map.flatten must be a map, not a string"),
		Entry("a list as a map", `${lookup(tags, "a", "b")}`, "argument 1 of lookup must be a map, not a list"),
		Entry("a number as a condition", `${5 ? "a" : "b"}`, "the condition must be true or false"),
		Entry("a list as a condition", `${tags ? "a" : "b"}`, "the condition must be true or false, not a list"),
		Entry("a list in an arm", `${alive() ? tags : tags}`, "12:22: an arm of a conditional must not be a list; "+
			"use json.marshal in both arms, in an input of type array"),
		Entry("a map in an arm", `${alive() ? labels : labels}`, "an arm of a conditional must not be a map; "+
			"use json.marshal in both arms, in an input of type object"),
		Entry("a word in a sum", `${1 + "two"}`, `the operand must be a number, not "two"`),
		Entry("a boolean in a sum", `${1 + alive()}`, "the operand must be a number, not a bool"),
		Entry("a list that is compared", `${tags == "a"}`, "a list cannot be an operand"),
		Entry("a number that is and-ed", `${alive() && 5}`, "the operand must be true or false"),
		Entry("a text that is indexed", `${text["a"]}`, "text is a string, neither a map nor a list"),
		Entry("a list indexed by a word", `${tags["one"]}`, "the index of list tags must be a number"),
		Entry("a text among lists", `${concat(tags, tags, text)}`, "argument 3 of concat must be a list, not a string"),
		Entry("a list among maps", `${merge(labels, tags)}`, "argument 2 of merge must be a map, not a list"),
		Entry("a word among numbers", `${max(1, "two", text)}`, `argument 2 of max must be a number, not "two"`),
		Entry("a boolean among numbers", `${min(1, alive())}`, "argument 2 of min must be a number, not a bool"),
		Entry("a map as the end of a range", `${range(1, labels)}`, "argument 2 of range must be a number, not a map"),
		Entry("a number of a function as a condition", `${max(1, text) ? "a" : "b"}`,
			"the condition must be true or false, not a number"),
		Entry("a list of a function in a text", `a ${split(",", text)}`, "a list cannot be a part of a text"),
		Entry("a fault below others", `${alive() ? "x-${str.truncate("two", "a")}" : "b"}`, `not "two"`),
	)

	DescribeTable("reports nothing if an operation succeeds with some value",
		func(text string) {
			template := parse(text)
			Expect(template.Check(known).All()).To(BeEmpty())
			_, err := template.Eval(scope())
			Expect(err).NotTo(HaveOccurred())
		},
		Entry("a text as a number", `${str.truncate(text, "abc")}`),
		Entry("a number in quotes", `${str.truncate("2", "abc")}`),
		Entry("a text in a sum", `${text + 1}`),
		Entry("a text as a condition", `${anything ? "a" : "b"}`),
		Entry("a boolean in a text", `is ${alive()}`),
		Entry("a list by itself", `${tags}`),
		Entry("a list indexed by a number", `${tags[1]}`),
		Entry("a list indexed by a text", `${tags[anything]}`),
		Entry("a key of a map", `${labels["a"]}`),
		Entry("JSON of a map", `x${json.marshal(labels)}`),
		Entry("a comparison", `${alive() && text > 3}`),
		Entry("numbers of all kinds", `${max(text, 1.5, "2", anything) + 1}`),
		Entry("a number as an index", `${tags[min(1, text)]}`),
		Entry("a number as a text", `${lower(max(1, 2))} ${str.truncate(max(1, 1.5), text)}`),
		Entry("parts of a text", `${length(concat(tags, split(",", text), values(labels)))}`),
		Entry("groups of a regular expression",
			`${lookup(regex("(?P<a>.)", text), "a", "")} ${join("", regex("(.)", text))} ${regex(".", text)}`),
		Entry("an unknown type", `${str.truncate(anything, anything)} ${anything}`),
	)
})
