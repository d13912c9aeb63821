package backends_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("an instance whose provision template an errand applies", func() {
	It("is created, changed, bound and deleted, and no request waits for an errand", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		w.encrypt()
		m := w.newErrandBroker()
		spy := m.spy()
		m.deployWith(ctx, object{"content": "first", "password": `a"b` + "\n((c)) 🔑"})
		Expect(w.stored()).To(BeEmpty(), "no resource exists yet")
		Expect(spy()).To(BeEmpty(), "no process is started")

		refused := m.bind(ctx, "bind-0")
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(ContainSubstring("The service instance is not ready"))

		vm := m.newErrandVM()
		got := vm.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		outside := w.outside()
		Expect(outside).To(HaveKeyWithValue("inst-1-data", "first"))
		generated, password, _ := strings.Cut(outside["inst-1-data-access"], " ")
		Expect(generated).To(HaveLen(32))
		Expect(password).To(Equal(`a"b` + "\n((c)) 🔑"))
		for _, text := range []string{m.Manifest, got.Stdout, got.Stderr} {
			Expect(text).NotTo(ContainSubstring(generated))
			Expect(text).NotTo(ContainSubstring(`a"b`))
			Expect(text).NotTo(ContainSubstring(`a\"b`))
		}

		bound := m.bind(ctx, "bind-1")
		Expect(bound.Exit).To(Equal(0), bound.Stderr)
		Expect(bound.Stdout).To(ContainSubstring(`"host":"inst-1-data.example.com"`))

		By("no changes are pending, and another run of the errand changes nothing")
		before := w.outside()
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		Expect(w.outside()).To(Equal(before))

		By("an update, and an upgrade, which brings no secrets")
		m.deployWith(ctx, object{"content": "second"})
		m.upgrade(ctx)
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		after := maps.Clone(before)
		after["inst-1-data"] = "second"
		Expect(w.outside()).To(Equal(after))

		By("a deletion while a binding exists")
		got = vm.destroy(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stdout).To(ContainSubstring("bind-1"))
		Expect(vm.destroy(ctx).Exit).To(Equal(0), "destroying an absent instance succeeds")
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
		w.expectNothingLeft()
	})

	It("is applied and destroyed even if another pak of the errands cannot be read", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		m.deployWith(ctx, object{})
		vm := m.newErrandVM()
		paks := vm.config["paks"].([]any)
		missing := filepath.Join(w.dir, "missing")
		vm.set(object{"paks": []any{missing}})
		got := vm.apply(ctx)
		Expect(got.Exit).To(Equal(3))
		Expect(got.Stderr).To(ContainSubstring(missing))
		Expect(w.stored()).To(BeEmpty())

		vm.set(object{"paks": append([]any{missing}, paks...)})
		got = vm.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stderr).To(ContainSubstring(missing))
		Expect(w.outside()).To(HaveLen(2))
		vm.delete(ctx)
	})

	It("has an equal manifest whenever it is generated", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		m.deployWith(ctx, object{"password": "s3cret"})
		for range 50 {
			m.expectNothingPending(ctx)
		}
		before := m.Manifest
		m.upgrade(ctx)
		Expect(m.Manifest).To(Equal(before))
		m.deployWith(ctx, object{})
		Expect(m.Manifest).To(Equal(before))
	})

	It("keeps the resources of a failed errand, reports the error, and is completed later", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		m.deployWith(ctx, object{"failure": "no space"})
		vm := m.newErrandVM()
		got := vm.apply(ctx)
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(ContainSubstring("Entry refused"))
		Expect(w.outside()).To(HaveLen(1), "the resource is kept")
		refused := m.bind(ctx, "bind-1")
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(ContainSubstring("The last attempt failed: There is no space left for the file."))
		shown := vm.run(ctx, "", "instance", "show", "inst-1")
		Expect(shown.Stdout).To(And(ContainSubstring("Entry refused"),
			ContainSubstring("There is no space left for the file."), ContainSubstring("creating")))

		By("an update that corrects the failure")
		m.deployWith(ctx, object{"failure": ""})
		vm.render(m)
		got = vm.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stderr).To(ContainSubstring("continuing after a failure"))
		Expect(m.bind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).NotTo(ContainSubstring("no space"))

		By("an update that fails leaves the outputs for bindings unchanged")
		m.deployWith(ctx, object{"content": "changed", "failure": "no space"})
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(1))
		bound := m.bind(ctx, "bind-2")
		Expect(bound.Exit).To(Equal(0), bound.Stderr)
		Expect(bound.Stdout).To(ContainSubstring(`"content":"as made"`))
		Expect(m.unbind(ctx, "bind-2").Exit).To(Equal(0))
		got = vm.destroy(ctx)
		Expect(got.Exit).To(Equal(0))
		Expect(got.Stderr).NotTo(ContainSubstring("finishing"), "all resources that the errand created are recorded")
		w.expectNothingLeft()
	})
})

var _ = Describe("an instance whose plan gets the errands, and loses them later", func() {
	It("keeps its resources", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		m.set(object{"config": object{"entries.path": w.entries}})
		withErrands := m.Plan
		m.Plan = object{"properties": object{}, "lifecycle_errands": object{}, "instance_groups": []any{}}
		m.deployWith(ctx, object{"password": "s3cret"})
		before := w.outside()
		Expect(before).To(HaveLen(2))
		Expect(m.bind(ctx, "bind-1").Exit).To(Equal(0))

		m.Plan = withErrands
		m.upgrade(ctx)
		m.expectNothingPending(ctx)
		vm := m.newErrandVM()
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		Expect(w.outside()).To(And(HaveKeyWithValue("inst-1-data-access", before["inst-1-data-access"]), HaveLen(3)))
		Expect(m.bind(ctx, "bind-2").Exit).To(Equal(0))

		m.Plan = object{"properties": object{}, "lifecycle_errands": object{}, "instance_groups": []any{}}
		m.upgrade(ctx)
		m.expectNothingPending(ctx)
		Expect(w.outside()).To(HaveKeyWithValue("inst-1-data-access", before["inst-1-data-access"]))
		m.deployWith(ctx, object{"content": "changed"})
		after := w.outside()
		Expect(after).To(And(HaveKeyWithValue("inst-1-data", "changed"),
			HaveKeyWithValue("inst-1-data-access", before["inst-1-data-access"])))
		for _, id := range []string{"bind-1", "bind-2"} {
			Expect(m.unbind(ctx, id).Exit).To(Equal(0))
		}
		vm.delete(ctx)
	})

	It("is destroyed by an errand even if generate-manifest applied its template", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		m.set(object{"config": object{"entries.path": w.entries}})
		m.Plan["lifecycle_errands"] = object{"pre_delete": []any{object{"name": destroyInstance}}}
		m.deployWith(ctx, object{})
		Expect(w.outside()).To(HaveLen(2))
		m.expectNothingPending(ctx)
		_, applies, err := m.JobProperties(applyInstance)
		Expect(err).NotTo(HaveOccurred())
		Expect(applies).To(BeFalse())
		properties := m.jobProperties(destroyInstance)
		Expect(properties).To(HaveKeyWithValue("instance_id", "inst-1"))
		delete(properties, "instance_id")
		vm := &errandVM{w.bareMachine()}
		vm.config = object{}
		vm.set(properties)
		vm.set(object{"cache_dir": vm.cache})
		vm.Instance = m.Instance
		vm.delete(ctx)
	})

	It("is upgraded by the errand through two OpenTofu versions, and keeps its template if the operator disables "+
		"updates",
		func(ctx context.Context) {
			w := newWorld(ctx, pg)
			m := w.newErrandBroker()
			older := filepath.Join(w.dir, "older")
			Expect(os.CopyFS(older, os.DirFS(suite.provided))).To(Succeed())
			definition := read(filepath.Join(older, "manifest.yml"))
			definition = strings.Replace(definition, "- name: tofu\n  version: 1.10.10\n",
				"- name: tofu\n  version: 1.10.10\n  default: true\n", 1)
			definition = strings.Replace(definition, "- name: tofu\n  version: 1.12.6\n  default: true\n", "", 1)
			definition = strings.Replace(definition, "- version: 1.12.6\n", "", 1)
			Expect(os.WriteFile(filepath.Join(older, "manifest.yml"), []byte(definition), 0o600)).To(Succeed())
			newer := m.config["paks"]
			errands := m.config["errand_properties"].(object)
			use := func(paks any) {
				errands["paks"] = paks
				m.set(object{"paks": paks, "errand_properties": errands})
			}
			use([]string{older})
			m.deployWith(ctx, object{})
			vm := m.newErrandVM()
			Expect(vm.apply(ctx).Exit).To(Equal(0))
			before := w.outside()

			By("a newer pak to which the instance may not be upgraded")
			use(newer)
			m.upgrade(ctx)
			vm.render(m)
			got := vm.apply(ctx)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("1.10.10"))

			By("a newer pak to which the instance may be upgraded")
			m.set(object{"terraform_upgrades_enabled": true})
			Expect(m.pendingPaths(ctx)).To(
				ConsistOf("/instance_groups/name=errands/jobs/name=apply-instance/properties/intent/tofu_version"))
			m.upgrade(ctx)
			vm.render(m)
			got = vm.apply(ctx)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("1.12.6"))
			Expect(w.outside()).To(Equal(before))

			By("an errand whose release has another template than the pak that generated the manifest")
			Expect(vm.destroy(ctx).Exit).To(Equal(0))
			Expect(os.WriteFile(filepath.Join(older, "main.tf"),
				[]byte(read(filepath.Join(older, "main.tf"))+"\n# another\n"), 0o600)).To(Succeed())
			vm.set(object{"paks": []string{older}})
			got = vm.apply(ctx)
			Expect(got.Exit).To(Equal(1))
			Expect(got.Stderr).To(ContainSubstring("generated for the provision template of pak provided 0.1.0, but " +
				"the release of this deployment contains"))
			w.expectNothingLeft()
		})
})
