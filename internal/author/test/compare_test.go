package test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

func tree(text string) map[string]any {
	GinkgoHelper()
	var decoded map[string]any
	Expect(yaml.Unmarshal([]byte(text), &decoded)).To(Succeed())
	normal, _ := value.Normalise(decoded).(map[string]any)
	return normal
}

var _ = DescribeTable("the differences between the expectation and the outcome", func(expected, found, want string) {
	err := compare(tree(expected), tree(found))
	if want == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(MatchError(want))
},
	Entry("no difference", "manifest: {a: [1, b]}", "manifest: {a: [1, b]}\nbinding: {}", ""),
	Entry("a value", "manifest: {a: 1}", "manifest: {a: 2}", "manifest/a: expected 1, found 2"),
	Entry("a type", "manifest: {a: 1}", `manifest: {a: "1"}`, `manifest/a: expected 1, found "1"`),
	Entry("a list and a mapping", "manifest: {a: []}", "manifest: {a: {}}", "manifest/a: expected [], found {}"),
	Entry("null", "manifest: {a: null}", "manifest: {a: b}", `manifest/a: expected nothing, found "b"`),
	Entry("a missing key", "manifest: {a: 1, b: 2}", "manifest: {a: 1}", "manifest/b: expected 2, found nothing"),
	Entry("another key", "manifest: {a: 1}", "manifest: {a: 1, b: {c: 2}}",
		`manifest/b: expected nothing, found {"c":2}`),
	Entry("an entry with a name", "manifest: {g: [{name: a, n: 1}, {name: b, n: 1}]}",
		"manifest: {g: [{name: b, n: 2}, {name: c}]}",
		"manifest/g/name=a: expected {\"n\":1,\"name\":\"a\"}, found nothing\n"+
			"manifest/g/name=b/n: expected 1, found 2\n"+
			"manifest/g/name=c: expected nothing, found {\"name\":\"c\"}"),
	Entry("the order", "manifest: {g: [{name: a}, {name: b}]}", "manifest: {g: [{name: b}, {name: a}]}",
		`manifest/g: expected ["a","b"], found ["b","a"]`),
	Entry("two entries with the same name", "manifest: {g: [{name: a, n: 1}, {name: a, n: 2}]}",
		"manifest: {g: [{name: a, n: 1}, {name: a, n: 3}]}",
		"manifest/g/1/n: expected 2, found 3"),
	Entry("the length of a list", "manifest: {a: [1, 2]}", "manifest: {a: [1]}",
		"manifest/a: expected [1,2], found [1]"),
	Entry("a section", "error: no", "manifest: {}", `error: expected "no", there is none`),
	Entry("any text", "binding: {uri: 'a://<any>@b'}", "binding: {uri: 'a://x.y:z@b'}", ""),
	Entry("any value", "binding: {port: <any>}", "binding: {port: 5}", ""),
	Entry("no text", "binding: {port: a<any>}", "binding: {port: 5}", `binding/port: expected "a<any>", found 5`),
	Entry("around any text", "binding: {uri: 'a.<any>'}", "binding: {uri: 'abc'}",
		`binding/uri: expected "a.<any>", found "abc"`),
	Entry("no path", "manifest: {/g/name=a/n: 1, /x: null}", "manifest: {g: [{name: b}, {name: a, n: 1}], y: 1}", ""),
	Entry("a path", "manifest: {/g/name=a/n: 1}", "manifest: {g: [{name: a, n: 2}]}",
		"manifest/g/name=a/n: expected 1, found 2"),
	Entry("a path in a list", "manifest: {g: {/name=a/n: 1}}", "manifest: {g: [{name: b}, {name: a, n: 1}]}", ""),
	Entry("a path that does not exist", "manifest: {/g/name=c: {name: c}}", "manifest: {g: []}",
		`manifest/g/name=c: expected {"name":"c"}, found nothing`),
	Entry("a path that must not exist", "manifest: {/g/0: null}", "manifest: {g: [1]}",
		"manifest/g/0: expected nothing, found 1"),
)

var _ = DescribeTable("the parts of a case file that --update keeps", func(expected, found, want string) {
	Expect(applyForm(tree(expected), tree(found))).To(Equal(any(tree(want))))
},
	Entry("no value that differs", "a: 1", "{a: 2, b: [1]}", "{a: 2, b: [1]}"),
	Entry("any text that matches", "{a: x<any>, b: x<any>}", "{a: xy, b: y}", "{a: x<any>, b: y}"),
	Entry("that of an entry with a name", "a: [{name: x, p: <any>}]", "a: [{name: y, p: 1}, {name: x, p: 2}]",
		"a: [{name: y, p: 1}, {name: x, p: <any>}]"),
	Entry("paths", "{/a/name=x/p: 1, /b: null}", "{a: [{name: x, p: 2}], c: 1}", "{/a/name=x/p: 2, /b: null}"),
)

var _ = DescribeTable("the outcome of a case can become its expectation", func(failure error, updatable bool) {
	result := Result{Case: Case{File: "case.yml"}}
	if failure != nil {
		result.Err = sourceError{failure, func(text string) string { return text }}
	}
	Expect(result.Updatable()).To(Equal(updatable))
	result.Case.File = ""
	Expect(result.Updatable()).To(BeFalse(), "an example")
},
	Entry("if it passed", nil, true),
	Entry("if a step and the case differ", errors.Join(Step{}.wrap(differs), differs), true),
	Entry("if a request was rejected with a message to the user", Step{}.wrap(&rejection{user: "no"}), true),
	Entry("if a step differs and a later one was rejected", errors.Join(differs, &rejection{user: "no"}), true),
	Entry("unless a request was rejected for the operator only", Step{}.wrap(&rejection{reason: "no"}), false),
	Entry("unless a step failed", Step{}.wrap(errors.New("no OpenTofu")), false),
	Entry("unless a step differs and a later one failed",
		errors.Join(Step{}.wrap(differs), Step{}.wrap(errors.New("no OpenTofu"))), false),
	Entry("unless the resources could not be removed", errors.Join(differs, cleanUpError{errors.New("no OpenTofu")}),
		false),
	Entry("unless a deletion after the case was rejected", cleanUpError{&rejection{user: "no"}}, false),
)

// differs is the error of an outcome that differs from its expectation.
var differs = compare(map[string]any{"error": "no"}, nil)
