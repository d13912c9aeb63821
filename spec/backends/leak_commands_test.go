package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
)

// leakyRequest returns the body of a request with planted parameters. mode selects the message that shows them, or
// "none".
func (m *machine) leakyRequest(from, mode string) object {
	parameters := plantedValues(from)
	parameters["mode"] = mode
	return object{
		"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID,
		"parameters":    parameters,
		"bind_resource": object{"app_guid": "app"},
	}
}

// newLeakyMachine returns a machine with encrypted states whose instance of the leaky pak is deployed.
func (w *world) newLeakyMachine(ctx context.Context) *machine {
	GinkgoHelper()
	w.encrypt()
	m := w.bareMachine()
	m.set(object{
		"paks": []string{leakyPak()}, "services": object{}, "log_level": "debug",
		"audit_log":       filepath.Join(w.dir, "audit.log"),
		"record_requests": filepath.Join(w.dir, "requests"),
	})
	m.deploy(ctx)
	return m
}

// writeInput writes a file that a command reads, and returns its path.
func writeInput(dir, name string, content any) string {
	GinkgoHelper()
	text, isText := content.(string)
	if !isText {
		encoded, err := json.Marshal(content) // JSON is valid YAML
		Expect(err).NotTo(HaveOccurred())
		text = string(encoded)
	}
	path := filepath.Join(dir, name)
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

var _ = Describe("secrets under 40 names", func() {
	It("are neither shown nor stored by a lifecycle errand", kit.Slow(), func(ctx context.Context) {
		w := newWorld(ctx, pg)
		w.encrypt()
		m := w.newErrandBroker()
		audit := filepath.Join(w.dir, "audit.log")
		m.set(object{
			"paks": []string{leakyErrandsPak()}, "services": object{}, "log_level": "debug",
			"errand_properties": object{
				"paks": []string{leakyErrandsPak()}, "state": w.state(), "log_level": "debug", "audit_log": audit,
			},
		})
		m.Plan["properties"] = object{"other": plantedValues("plan")}
		deploy := func(from, mode string) {
			GinkgoHelper()
			got := expectNoLeak(m.call(ctx, generateManifest, m.Generate(m.leakyRequest(from, mode))), 0, true)
			Expect(m.Deploy(got.Stdout)).To(Succeed())
		}
		deploy("parameters", "template")
		vm := m.newErrandVM()
		// expectNothingStored asserts that no planted value is stored. The intent is excepted: BOSH renders it.
		expectNothingStored := func() {
			GinkgoHelper()
			intent := read(vm.intent())
			Expect(leaks(intent)).NotTo(BeEmpty())
			Expect(os.Remove(vm.intent())).To(Succeed())
			w.expectNoStoredLeak(ctx, leakyErrandsPak())
			Expect(os.WriteFile(vm.intent(), []byte(intent), 0o600)).To(Succeed())
		}
		got := expectNoLeak(vm.apply(ctx), 1, false)
		Expect(got.Stderr).To(ContainSubstring("[redacted]"))
		deploy("parameters", "none")
		vm.render(m)
		vm.strikeAt(beforeApply, theMachine, vm.beginApply)
		_, clear := filesWithLeaks(vm.cache)
		Expect(clear).NotTo(BeEmpty(), "the killed run leaves files that the next run removes")
		expectNoLeak(vm.apply(ctx), 0, false)
		expectNothingStored()
		deploy("manifest", "template")
		vm.render(m)
		expectNoLeak(vm.apply(ctx), 1, false)
		deploy("manifest", "none")
		vm.render(m)
		for _, arguments := range [][]string{
			vm.applyArguments(),
			{"instance", "list", "--json"},
			{"instance", "show", vm.ID, "--json"},
			{"instance", "drift", vm.ID},
			{"instance", "state", "exec", vm.ID, "--", "state", "list"},
		} {
			expectNoLeak(vm.run(ctx, "", arguments...), 0, false)
		}
		expectNothingStored()
		vm.strikeAt(beforeDestroy, theMachine, vm.beginDestroy)
		expectNoLeak(vm.run(ctx, "", "instance", "list"), 0, false)
		expectNothingStored()
		expectNoLeak(vm.destroy(ctx), 0, false)
		w.expectNothingLeft()
		Expect(read(audit)).NotTo(BeEmpty())
		_, clear = filesWithLeaks(vm.cache, vm.temporary, w.server.Dir, audit)
		Expect(clear).To(BeEmpty())
	})

	It("are shown by commands for states only in their products", kit.Slow(), func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newLeakyMachine(ctx)
		inputs := GinkgoT().TempDir() // the files of the operator are not searched
		state := func(exit int, product bool, arguments ...string) answer {
			GinkgoHelper()
			return expectNoLeak(m.run(ctx, "", append([]string{"bindings", "state"}, arguments...)...), exit, product)
		}
		expectNoLeak(m.call(ctx, createBinding, m.Bind("b-1", m.leakyRequest("parameters", "none"))), 0, false)
		pulled := filepath.Join(inputs, "pulled")
		state(0, false, "pull", "b-1", "--output", pulled)
		Expect(leaks(read(pulled))).NotTo(BeEmpty())
		Expect(leaks(state(0, true, "pull", "b-1", "--output", "-").Stdout)).NotTo(BeEmpty())
		state(3, false, "pull", "b-1", "--output", filepath.Join(inputs, "none", "pulled"))

		state(3, false, "push", "b-2", pulled)
		state(3, false, "push", "b-1", edited(pulled, `"lineage":"`, `"lineage":"0`))
		state(3, false, "push", "b-1", edited(pulled, `\u003cparameters`, `\u003cmanifest`))
		state(3, false, "push", "b-1", edited(pulled, `"version":4`, `"version":"pl@nted"`))
		text := read(pulled)
		state(3, false, "push", "b-1", writeInput(inputs, "cut", text[:len(text)*2/3]))
		state(3, false, "push", "b-1", writeInput(inputs, "text", planted("parameters", "password")))
		state(3, false, "push", "b-1",
			writeInput(inputs, "number", `{"version": `+planted("parameters", "password")+`}`))
		pushed := kept(state(0, false, "push", "b-1",
			edited(pulled, `\u003cparameters`, `\u003cmanifest`, `"serial":`, `"serial":1`)))
		Expect(kept(state(0, false, "push", "b-1", "--force", pushed))).NotTo(BeEmpty())

		state(0, false, "exec", "b-1", "--", "state", "list")
		Expect(leaks(state(0, true, "exec", "b-1", "--", "state", "show", "-show-sensitive",
			"terraform_data.account").Stdout)).NotTo(BeEmpty())
		state(0, false, "exec", "b-1", "--", "taint", "terraform_data.account")
		state(0, true, "exec", "b-1", "--", "plan", "-no-color")
		state(0, true, "exec", "b-1", "--", "apply", "-auto-approve", "-no-color")
		state(3, false, "exec", "b-1", "--", "taint", "terraform_data.none")
		removed := kept(state(3, false, "exec", "b-1", "--", "state", "rm", "terraform_data._binding"))
		state(0, false, "push", "b-1", "--force", removed)

		good := w.text("b-1")
		w.damage(ctx, "b-1", regexp.MustCompile(`"encrypted_data": ?"`).ReplaceAllString(good, "${0}AAAA"))
		state(3, false, "pull", "b-1", "--output", filepath.Join(inputs, "damaged"))
		state(3, false, "push", "b-1", pulled)
		name := regexp.MustCompile(`aside-b-b-1-\d+`).FindString(state(0, false, "set-aside", "b-1").Stderr)
		Expect(w.stored()).To(ContainElement(HaveSuffix(name)))
		state(0, false, "push", "b-1", pulled)
		Expect(w.expectNoStoredLeak(ctx, leakyPak())).To(BeNumerically(">", 20))
	})

	DescribeTable("are not shown by commands after a bind that was killed",
		func(ctx context.Context, where string, next ...string) {
			w := newWorld(ctx, pg)
			m := w.newLeakyMachine(ctx)
			killed := m.killed(createBinding, m.Bind("b-1", m.leakyRequest("parameters", "none")), where, theMachine)
			Expect(leaks(killed.Stderr)).To(BeEmpty(), "%s", killed.Stderr)
			_, clear := filesWithLeaks(m.cache)
			Expect(clear).NotTo(BeEmpty(), "the killed run leaves files that the next command removes")
			expectNoLeak(m.run(ctx, "", next...), 0, false)
			w.expectNoStoredLeak(ctx, leakyPak())
			expectNoLeak(m.call(ctx, deleteBinding, m.unbindParameters("b-1")), 0, false)
			w.expectNothingLeft()
		},
		Entry("before OpenTofu applied", kit.Slow(), beforeApply, "bindings", "list"),
		Entry("after OpenTofu applied", kit.Slow(), afterApply, "bindings", "show", "b-1", "--json"),
	)

	It("are shown by commands for authors of paks only in their products", func(ctx context.Context) {
		w := newWorld(ctx, local)
		m := w.newLeakyMachine(ctx)
		defaults, err := json.Marshal(plantedValues("defaults"))
		Expect(err).NotTo(HaveOccurred())
		m.env = append(m.env, "GSB_SERVICE_ENTRIES_BIND_DEFAULTS="+string(defaults),
			"GSB_SERVICE_ENTRIES_PROVISION_DEFAULTS="+string(defaults))
		inputs := GinkgoT().TempDir() // the files of the author are not searched
		pak := func(exit int, product bool, arguments ...string) answer {
			GinkgoHelper()
			return expectNoLeak(m.run(ctx, "", append([]string{"pak"}, arguments...)...), exit, product)
		}
		for mode, exit := range map[string]int{"none": 0, "user": 1, "operator": 3} {
			request := writeInput(inputs, mode+".json", m.leakyRequest("parameters", mode))
			instance := writeInput(inputs, "instance.yml",
				object{"outputs": plantedValues("secrets"), "secrets": plantedValues("secrets")})
			pak(0, true, "evaluate", leakyPak(), "--action", "provision", "--request", request, "--explain")
			pak(exit, exit == 0, "evaluate", leakyPak(), "--action", "bind", "--request", request, "--instance",
				instance)
		}
		pak(1, false, "evaluate", leakyPak(), "--action", "bind", "--request",
			writeInput(inputs, "unknown.json",
				object{"parameters": object{"passwort": planted("parameters", "password")}}))

		source := filepath.Join(inputs, "pak")
		Expect(os.CopyFS(source, os.DirFS(leakyPak()))).To(Succeed())
		for _, mode := range []string{"none", "user", "operator", "template"} {
			parameters := m.leakyRequest("parameters", mode)["parameters"]
			writeInput(source, "tests/"+mode+".yml", object{
				"create": object{}, "bind": parameters, "plan_properties": object{"other": plantedValues("plan")},
				"expect": object{"binding": object{"credentials": object{"host": "other.example.com"}}},
			})
			writeInput(source, "tests/create-"+mode+".yml", object{"create": parameters, "bind": object{}})
		}
		pak(1, false, "test", source)
		definition := read(filepath.Join(source, "entries.yml"))
		var examples strings.Builder // one value on each line, because findings quote their line
		for _, further := range []string{"unknown: value", "mode: user", "mode: operator", "mode: []"} {
			examples.WriteString("- name: '" + further + "'\n  description: One\n  plan_id: " + entriesPlan + "\n")
			for _, parameters := range []string{"provision_params", "bind_params"} {
				fmt.Fprintf(&examples, "  %s:\n    %s\n", parameters, further)
				for key, value := range plantedValues("parameters") {
					fmt.Fprintf(&examples, "    %s: %q\n", key, value)
				}
			}
		}
		writeInput(source, "entries.yml", definition+"examples:\n"+examples.String())
		for _, arguments := range [][]string{{"validate", source}, {"validate", source, "--format", "json"}} {
			got := expectNoLeak(m.run(ctx, "", append([]string{"pak"}, arguments...)...), 0, false)
			Expect(got.Stdout).To(ContainSubstring("would be rejected"))
		}
		Expect(pak(1, false, "test", source, "--run", "mode: ").Stdout).To(ContainSubstring("shown: [redacted]"))

		manifest := writeInput(inputs, "planted.yml", object{
			"name": "planted", "instance_groups": []any{object{"name": "server", "instances": 1, "jobs": []any{
				object{"name": "server", "release": "server", "properties": object{
					"server": plantedValues("manifest"),
					"uri":    "https://reader:" + strings.Repeat("x", 3) + "@db.example.com",
				}},
			}}},
		})
		pak(0, false, "init", filepath.Join(w.dir, "planted"), "--from", manifest)
		process.End(m.dir)
		Expect(w.expectNoStoredLeak(ctx, leakyPak())).To(BeNumerically(">", 10))
	})
})
