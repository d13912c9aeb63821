package manifestgen_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// inject returns the files of a pak whose definition and template use the parameters a and b in one further position:
// in a section of provision.bosh, in the computed inputs, or in the template. An empty argument adds nothing.
func inject(section, computed, manifest string) map[string]string {
	if computed == "" {
		computed = "[]"
	}
	return map[string]string{
		"service.yml": fmt.Sprintf(`plans:
- {name: small, id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02, description: Small, display_name: Small}
provision:
  user_inputs:
  - {field_name: a, details: Anything}
  - {field_name: b, details: Anything, default: b}
  computed_inputs: %s
  bosh:
    manifest_ref: bosh.yml
    secrets: [{name: secret, length: 16}]
%sbind: {}
`, computed, section),
		"bosh.yml": `instance_groups:
- name: box
  jobs:
  - name: box
    properties:
      secret: ((secret))
      ca: ((ca.certificate))
` + manifest + `variables:
- {name: ca, type: certificate, options: {is_ca: true, common_name: x}}
`,
	}
}

// replaced replaces a text in the template once and returns the files.
func replaced(files map[string]string, before, after string) map[string]string {
	files["bosh.yml"] = strings.Replace(files["bosh.yml"], before, after, 1)
	return files
}

// injectionPoints are paks by the position in which they use values from the user.
var injectionPoints = map[string]map[string]string{
	"a whole value":      inject("", "", "      v: ((a))\n"),
	"a text":             inject("", "", "      v: x-((a))-y\n"),
	"two in one text":    inject("", "", "      v: ((a))((b))\n"),
	"before parentheses": inject("", "", "      v: ((a))(ca))\n"),
	"a key":              inject("", "", "      v: {((a)): 1}\n"),
	"a block":            inject("", "", "      v: |\n        ((a))\n        (ca))\n"),
	"a computed input":   inject("", `[{name: c, default: "${a}", overwrite: true}]`, "      v: ((c))\n"),
	"a joined text":      inject("", `[{name: c, default: "(${a}${b}", overwrite: true}]`, "      v: ((c))(ca))\n"),
	"the context": inject("",
		`[{name: c, default: '${request.context["name"]}', overwrite: true}]`, "      v: ((c))(ca))\n"),
	"an ops condition": inject(
		"    ops: [{inline: [{type: replace, path: \"/tags?/x\", value: ((a))}], if: '${a}'}]\n", "", ""),
	"a config":           inject("    configs: {cloud: {inline: {x: ((a)), z: \"((a))(ca))\"}}}\n", "", ""),
	"a config condition": inject("    configs: {cloud: {inline: {x: 1}, if: '${a}'}}\n", "", ""),
	"a label":            inject("    labels: {x: \"${a}\"}\n", "", ""),
	"an output":          inject("    outputs: {x: \"${a}\"}\n", "", ""),
	"the dashboard":      inject("    dashboard_url: https://example.com/(${a}\n", "", ""),
	"a message":          inject("    checks: [{that: '${b == \"b\"}', message: \"${a}\", audience: user}]\n", "", ""),
	"the update block":   inject("    update: {canary_watch_time: \"${a}\"}\n", "", ""),
	"variable options":   replaced(inject("", "", ""), "common_name: x", "common_name: ((a))"),
	"a variable's name": replaced(inject("", "", ""),
		"variables:\n", "variables:\n- {name: ca-((a)), type: password}\n"),
	"a name in a reference": inject("", "", "      v: ((ca((a))))\n"),
	"nowhere":               inject("", "", ""),
}

var _ = Describe("a value from the user", func() {
	hostileValues := map[string]any{
		"a reference":                 "((ca))",
		"a path":                      "((/other/credential))",
		"a secret":                    "((secret))",
		"a placeholder":               "((odb_secret:secret))",
		"the end of a reference":      "(ca))",
		"one parenthesis":             "(",
		"two parentheses":             "((",
		"closing ones":                "))",
		"private characters of users": "\uE0F2\uE0F2ca\uE0F3\uE0F3",
		"private characters":          "\uE0F0\uE0F0ca\uE0F1\uE0F1",
		"a list":                      []any{"x", []any{"((ca))"}},
		"a mapping":                   map[string]any{"x": map[string]any{"y": "((ca))"}},
		"a key":                       map[string]any{"((ca))": 1},
		"half a key":                  map[string]any{"(ca))": "("},
		"a private key":               map[string]any{"\uE0F2": 1},
		"several lines":               "(\n(ca))",
	}
	for point, files := range injectionPoints {
		It("never becomes a reference in "+point, func() {
			w := newWorld(packed(files))
			_, err := w.generate(call{Parameters: map[string]any{"a": "1"}, Context: map[string]any{"name": "1"}})
			if point != "a name in a reference" {
				Expect(err).NotTo(HaveOccurred())
			}
			for _, name := range value.Keys(hostileValues) {
				hostile := hostileValues[name]
				for _, secure := range []bool{true, false} {
					w.secure(secure)
					expectHarmless(w, name, call{
						Parameters: map[string]any{"a": hostile}, Context: map[string]any{"name": hostile},
					})
					expectHarmless(w, name, call{
						Parameters: map[string]any{"a": "(", "b": hostile}, Context: map[string]any{"name": "("},
					})
				}
			}
		})
	}

	It("never becomes a reference through a secret with a literal value in the manifest", func() {
		files := inject("", "", "      v: ((key))(ca))\n")
		files["service.yml"] = strings.Replace(files["service.yml"], "{name: secret, length: 16}",
			`{name: secret, length: 16}, {name: key, value: "${a}"}`, 1)
		w := newWorld(packed(files))
		w.secure(false)
		for _, name := range value.Keys(hostileValues) {
			hostile := hostileValues[name]
			expectHarmless(w, name, call{Parameters: map[string]any{"a": hostile}})
		}
	})

	DescribeTable("is rejected with the name of the parameter if it contains",
		func(item any) {
			w := newWorld(packed(injectionPoints["nowhere"]))
			_, err := w.generate(call{Parameters: map[string]any{"a": item}})
			var user *fault.UserError
			Expect(errors.As(err, &user)).To(BeTrue())
			Expect(user.Message).To(ContainSubstring(`"a"`))
		},
		Entry("a reference", "x((ca))"),
		Entry("half a reference", "(("),
		Entry("a private character", "\uE0F1"),
		Entry("the key that merges mappings", map[string]any{"<<": map[string]any{}}),
		Entry("a private character in a key", map[string]any{"\uE0F3": 1}),
	)

	It("does not form a reference with the deployment name, which must not contain parentheses", func() {
		w := newWorld(packed(injectionPoints["nowhere"]))
		w.instance.Deployment.DeploymentName = "service-instance_((ca))"
		_, err := w.generate(call{})
		Expect(err).To(MatchError(`the deployment name "service-instance_((ca))" must not contain parentheses`))
	})
})

// expectHarmless generates a manifest and expects an error, or a result in which all references are those of the
// template. The name describes the hostile value in failures.
func expectHarmless(w *world, name string, c call) {
	GinkgoHelper()
	result, err := w.generate(c)
	if err != nil {
		return
	}
	expected := regexp.MustCompile(`^\(\((odb_secret:secret|odb_secret:key|ca\.certificate)\)\)$`)
	for _, text := range []string{result.Manifest, string(value.MustJSON(result.Labels)), result.Configs["cloud"]} {
		for _, reference := range regexp.MustCompile(`(?s)\(\(.*?\)\)`).FindAllString(text, -1) {
			Expect(expected.MatchString(reference)).To(BeTrue(), "%s: %s in %s", name, reference, text)
		}
	}
}
