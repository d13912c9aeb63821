package backends_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
)

// The errands, and the plan's part about them.
const (
	applyInstance   = "apply-instance"
	destroyInstance = "destroy-instance"
)

func bothErrands() object {
	return object{"post_deploy": []any{object{"name": applyInstance}}, "pre_delete": []any{object{"name": destroyInstance}}}
}

// newErrandBroker makes a broker's machine whose plan has the errands. Its own configuration lacks what the template needs of the
// operator, which the errands have.
func (w *world) newErrandBroker() *machine {
	GinkgoHelper()
	m := w.bareMachine()
	suite.provided = cmpOr(suite.provided, func() string {
		return makePak(filepath.Join("testdata", "paks", "provided"), kit.Older, kit.Newest)
	})
	state := w.state()
	m.set(object{
		"paks":     []string{suite.provided},
		"services": object{"provided": object{"bind_defaults": object{"path": w.entries}}},
		"errand_properties": object{
			"paks": []string{suite.provided}, "state": state, "config": object{"entries.path": w.entries, "note": "for ${request.instance_id}"},
		},
	})
	m.Plan = object{
		"properties": object{}, "lifecycle_errands": bothErrands(),
		"instance_groups": []any{object{
			"name": "errands", "vm_type": "small", "instances": 1, "networks": []string{"default"}, "azs": []string{"z1"}, "lifecycle": "errand",
		}},
	}
	m.Deployment.Releases = serviceadapter.ServiceReleases{
		{Name: "service-adapter", Version: "1.0.0", Jobs: []string{applyInstance, destroyInstance}},
	}
	m.VMs = map[string][]string{}
	return m
}

func cmpOr(text string, otherwise func() string) string {
	if text != "" {
		return text
	}
	return otherwise()
}

// generate asks for a manifest with these parameters, as a creation or an update does.
func (m *machine) generate(ctx context.Context, parameters object) answer {
	GinkgoHelper()
	return m.call(ctx, generateManifest, m.Generate(object{
		"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID, "parameters": parameters,
	}))
}

// deployWith deploys what that gave.
func (m *machine) deployWith(ctx context.Context, parameters object) {
	GinkgoHelper()
	got := m.generate(ctx, parameters)
	Expect(got.Exit).To(Equal(0), got.Stderr+got.Stdout)
	Expect(m.Deploy(got.Stdout)).To(Succeed())
}

// jobProperties are those of a job of the deployed manifest, as the Director renders them.
func (m *machine) jobProperties(job string) object {
	GinkgoHelper()
	properties, found, err := m.JobProperties(job)
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	return properties
}

// errandVM is one on which the errands of a deployed manifest run. It has the files that their jobs render.
type errandVM struct{ *machine }

// newErrandVM makes such a VM.
func (m *machine) newErrandVM() *errandVM {
	GinkgoHelper()
	vm := &errandVM{m.world.bareMachine()}
	vm.config = object{}
	vm.render(m)
	return vm
}

// render renders the jobs of a manifest, as a deployment does.
func (vm *errandVM) render(m *machine) {
	GinkgoHelper()
	properties := m.jobProperties(applyInstance)
	intent := object{"intent": properties["intent"], "secrets": properties["secrets"]}
	text, err := json.Marshal(intent)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(vm.intent(), text, 0o600)).To(Succeed())
	delete(properties, "intent")
	delete(properties, "secrets")
	vm.set(properties)
	vm.set(object{"cache_dir": vm.cache})
	vm.Instance = m.Instance
}

func (vm *errandVM) intent() string { return filepath.Join(vm.dir, "intent.json") }

func (vm *errandVM) applyArguments() []string {
	return []string{"instance", "apply", "--intent", vm.intent()}
}

// apply runs the errand apply-instance, destroy the errand destroy-instance.
func (vm *errandVM) apply(ctx context.Context) answer {
	GinkgoHelper()
	return vm.run(ctx, "", vm.applyArguments()...)
}

func (vm *errandVM) destroy(ctx context.Context) answer {
	GinkgoHelper()
	return vm.run(ctx, "", "instance", "destroy", "--force", "--", vm.ID)
}

// beginApply starts the errand apply-instance.
func (vm *errandVM) beginApply() *process.Running {
	GinkgoHelper()
	return process.Start(vm.adapter(), nil, "", vm.applyArguments()...)
}

// outside is what the template made, name → content.
func (w *world) outside() map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, name := range w.resources() {
		var entry struct{ Content string }
		Expect(json.Unmarshal([]byte(read(filepath.Join(w.entries, name))), &entry)).To(Succeed())
		found[name] = entry.Content
	}
	return found
}

var _ = Describe("an instance whose provision template an errand applies", func() {
	It("is made, changed, bound and deleted, and no request waits for it", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		w.encrypt()
		m := w.newErrandBroker()
		spy := m.spy()
		m.deployWith(ctx, object{"content": "first", "password": `a"b` + "\n((c)) 🔑"})
		Expect(w.stored()).To(BeEmpty(), "nothing is made yet")
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
		for _, told := range []string{m.Manifest, got.Stdout, got.Stderr} {
			Expect(told).NotTo(ContainSubstring(generated))
			Expect(told).NotTo(ContainSubstring(`a"b`))
			Expect(told).NotTo(ContainSubstring(`a\"b`))
		}

		bound := m.bind(ctx, "bind-1")
		Expect(bound.Exit).To(Equal(0), bound.Stderr)
		Expect(bound.Stdout).To(ContainSubstring(`"host":"inst-1-data.example.com"`))

		By("nothing is pending, and a repetition changes nothing")
		before := w.outside()
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		Expect(w.outside()).To(Equal(before))

		By("an update and an upgrade, which brings no secrets")
		m.deployWith(ctx, object{"content": "second"})
		m.upgrade(ctx)
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		after := maps.Clone(before)
		after["inst-1-data"] = "second"
		Expect(w.outside()).To(Equal(after))

		By("deletion with a binding left")
		got = vm.destroy(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stdout).To(ContainSubstring("bind-1"))
		Expect(vm.destroy(ctx).Exit).To(Equal(0), "what does not exist is success")
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
		w.expectNothingLeft()
	})

	It("has the same manifest for ever", func(ctx context.Context) {
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

	It("keeps what a failed errand made, tells why, and goes on", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		m.deployWith(ctx, object{"failure": "no space"})
		vm := m.newErrandVM()
		got := vm.apply(ctx)
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(ContainSubstring("Entry refused"))
		Expect(w.outside()).To(HaveLen(1), "it is kept")
		refused := m.bind(ctx, "bind-1")
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(ContainSubstring("The last attempt failed: There is no space left for the file."))
		shown := vm.run(ctx, "", "instance", "show", "inst-1")
		Expect(shown.Stdout).To(And(ContainSubstring("Entry refused"), ContainSubstring("There is no space left for the file."), ContainSubstring("creating")))

		By("an update mends it")
		m.deployWith(ctx, object{"failure": ""})
		vm.render(m)
		got = vm.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stderr).To(ContainSubstring("going on after a failure"))
		Expect(m.bind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).NotTo(ContainSubstring("no space"))

		By("an update that fails leaves what bindings use as it was")
		m.deployWith(ctx, object{"content": "changed", "failure": "no space"})
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(1))
		bound := m.bind(ctx, "bind-2")
		Expect(bound.Exit).To(Equal(0), bound.Stderr)
		Expect(bound.Stdout).To(ContainSubstring(`"content":"as made"`))
		Expect(m.unbind(ctx, "bind-2").Exit).To(Equal(0))
		got = vm.destroy(ctx)
		Expect(got.Exit).To(Equal(0))
		Expect(got.Stderr).NotTo(ContainSubstring("finishing"), "all that the errand made is known")
		w.expectNothingLeft()
	})
})

// upgrade deploys what an upgrade gives: the broker sends neither parameters nor secrets.
func (m *machine) upgrade(ctx context.Context) {
	GinkgoHelper()
	parameters := m.Generate(object{"context": object{"space_guid": "sp"}})
	parameters["previous_secrets"] = "null"
	got := m.call(ctx, generateManifest, parameters)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(m.Deploy(got.Stdout)).To(Succeed())
}

// pendingPaths are the places that the command pending-changes names.
func (m *machine) pendingPaths(ctx context.Context) []string {
	GinkgoHelper()
	manifest, plan := filepath.Join(m.dir, "deployed.yml"), filepath.Join(m.dir, "plan.json")
	text, err := json.Marshal(m.Plan)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(plan, text, 0o600)).To(Succeed())
	Expect(os.WriteFile(manifest, []byte(m.Manifest), 0o600)).To(Succeed())
	var changes []struct{ Path string }
	Expect(json.Unmarshal([]byte(m.run(ctx, "", "pending-changes", "--manifest", manifest, "--plan", plan, "--json").Stdout), &changes)).To(Succeed())
	var paths []string
	for _, change := range changes {
		paths = append(paths, change.Path)
	}
	return paths
}

// expectNothingPending does what the broker does before an update.
func (m *machine) expectNothingPending(ctx context.Context) {
	GinkgoHelper()
	got := m.call(ctx, generateManifest, m.Generate(object{}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var product struct{ Manifest string }
	Expect(json.Unmarshal([]byte(got.Stdout), &product)).To(Succeed())
	Expect(product.Manifest).To(Equal(m.Manifest))
	Expect(odb.SameManifests(m.Manifest, product.Manifest)).To(BeTrue())
}

// delete runs the errand destroy-instance until nothing is left.
func (vm *errandVM) delete(ctx context.Context) {
	GinkgoHelper()
	got := vm.destroy(ctx)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	vm.world.expectNothingLeft()
}

var _ = Describe("an errand that does not end as it should", func() {
	var w *world
	var m *machine
	var vm *errandVM

	begin := func(ctx context.Context, kind string) {
		w = newWorld(ctx, kind)
		m = w.newErrandBroker()
		m.deployWith(ctx, object{})
		vm = m.newErrandVM()
	}

	// expectMade asserts that a repetition of the errand makes everything.
	expectMade := func(ctx context.Context, on *errandVM) {
		GinkgoHelper()
		got := on.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(w.outside()).To(HaveLen(2))
		Expect(m.bind(ctx, "bind-1").Exit).To(Equal(0))
	}

	DescribeTable("because it is killed, goes on with a repeat, or is deleted", func(ctx context.Context, kind, where string, who victim) {
		for _, repeat := range []bool{true, false} {
			begin(ctx, kind)
			at := vm.point(where)
			at.Hold()
			run := vm.beginApply()
			waiting := at.Reached()
			switch who {
			case theTofu:
				kill(vm.tofu())
			case theProvider:
				kill(waiting)
			case theMachine:
				process.End(vm.dir)
			}
			at.Release()
			Expect(run.Wait().Exit).NotTo(BeZero())
			next := vm
			if who == theMachine { // which is another one the next time
				next = m.newErrandVM()
				if kind == s3 {
					w.forgeLockOf("i-inst-1", time.Now().Add(-24*time.Hour))
				}
			}
			if repeat {
				expectMade(ctx, next)
			}
			got := next.destroy(ctx)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(w.resources()).To(BeEmpty())
			Expect(w.stored()).To(BeEmpty())
			w.remove(ctx)
		}
	},
		Entry("the machine, before the first resource, pg", pg, beforeMake, theMachine),
		Entry("the machine, after the first resource, pg", pg, afterMake, theMachine),
		Entry("the machine, after the state was saved, pg", pg, afterApply, theMachine),
		Entry("OpenTofu, after a resource was made, pg", pg, afterMake, theTofu),
		Entry("the provider, after a resource was made, pg", pg, afterMake, theProvider),
		Entry("the machine, after the first resource, s3", s3, afterMake, theMachine),
	)

	DescribeTable("because BOSH cancels it, has saved what is there before the agent kills it", func(ctx context.Context, ends bool) {
		begin(ctx, pg)
		at := vm.point(afterMake)
		at.Hold()
		run := vm.beginApply()
		at.Reached()
		Expect(run.Process.Signal(syscall.SIGTERM)).To(Succeed())
		if ends {
			at.Release()
		}
		Expect(run.Wait().Exit).To(Equal(1))
		Expect(m.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("creating"))
		if !ends {
			at.Release()
		}
		expectMade(ctx, vm)
		vm.delete(ctx)
	}, Entry("when the provider ends what it does", true), Entry("when it does not", false))

	It("because the backend is gone, saves the state when it is back", func(ctx context.Context) {
		begin(ctx, pg)
		at := vm.point(afterMake)
		at.Hold()
		run := vm.beginApply()
		at.Reached()
		w.stop()
		at.Release()
		Eventually(run.Stderr).Should(gbytes.Say("the backend does not take the state"))
		w.start(ctx)
		run.Wait()
		Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("directory_entry.data"), "it is not lost with the VM")
		other := m.newErrandVM()
		expectMade(ctx, other)
		vm.delete(ctx)
	})

	DescribeTable("because another one of the instance runs, waits for it", func(ctx context.Context, kind string) {
		begin(ctx, kind)
		first := vm.point(afterMake)
		first.Hold()
		one := vm.beginApply()
		first.Reached()
		second := m.newErrandVM()
		two := second.beginApply()
		if kind == s3 { // a lock that is older than any request, and not too old for an errand
			w.forgeLockOf("i-inst-1", time.Now().Add(-time.Hour))
		}
		refused := m.bind(ctx, "bind-1")
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(ContainSubstring("not ready"))
		Eventually(two.Stderr).Should(gbytes.Say("waiting for a lock"))
		first.Release()
		Expect(one.Wait().Exit).To(Equal(0))
		Expect(two.Wait().Exit).To(Equal(0))
		Expect(w.outside()).To(HaveLen(2))
		vm.delete(ctx)
	}, Entry("on pg", pg), Entry("on s3", s3))

	It("because an update changes what is there, leaves bindings what they had until it has ended", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		m.deployWith(ctx, object{"content": "second"})
		vm.render(m)
		at := vm.point(afterApply)
		at.Hold()
		run := vm.beginApply()
		at.Reached()
		at.Release()
		during := m.bind(ctx, "bind-2")
		Expect(during.Exit).To(Equal(0), during.Stderr)
		Expect(run.Wait().Exit).To(Equal(0))
		Expect(m.bind(ctx, "bind-3").Stdout).To(ContainSubstring(`"content":"second"`))
		vm.delete(ctx)
	})

	DescribeTable("because it is killed while it destroys, goes on with a repeat", func(ctx context.Context, where string, who victim) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		at := vm.point(where)
		at.Hold()
		run := process.Start(vm.adapter(), nil, "", "instance", "destroy", "--force", "--", vm.ID)
		waiting := at.Reached()
		switch who {
		case theTofu:
			kill(vm.tofu())
		case theProvider:
			kill(waiting)
		case theMachine:
			process.End(vm.dir)
		}
		at.Release()
		Expect(run.Wait().Exit).NotTo(BeZero())
		next := vm
		if who == theMachine {
			next = m.newErrandVM()
		}
		got := next.destroy(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(w.resources()).To(BeEmpty())
		Expect(w.stored()).To(BeEmpty())
	},
		Entry("the machine, before it destroys", beforeClear, theMachine),
		Entry("the machine, after it destroyed something", afterClear, theMachine),
		Entry("the machine, at the end", afterDestroy, theMachine),
		Entry("OpenTofu", afterClear, theTofu),
		Entry("the provider", afterClear, theProvider),
	)

	It("because the backend is gone while it destroys, goes on with a repeat on another VM", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		at := vm.point(afterClear)
		at.Hold()
		run := process.Start(vm.adapter(), nil, "", "instance", "destroy", "--force", "--", vm.ID)
		at.Reached()
		w.stop()
		at.Release()
		Expect(run.Wait().Exit).NotTo(BeZero())
		w.start(ctx)
		got := m.newErrandVM().destroy(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(w.resources()).To(BeEmpty())
		Expect(w.stored()).To(BeEmpty())
	})

	It("because the deployment failed before it, leaves everything as it was", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		before := w.outside()
		Expect(m.generate(ctx, object{"content": "never deployed"}).Exit).To(Equal(0))
		Expect(vm.apply(ctx).Exit).To(Equal(0), "with the manifest of the last deployment")
		Expect(w.outside()).To(Equal(before))
		m.deployWith(ctx, object{"content": "deployed"})
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		Expect(w.outside()).To(HaveKeyWithValue("inst-1-data", "deployed"))
		vm.delete(ctx)
	})

	It("because what was made cannot be destroyed, names it, and goes on when it is repeated", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		at := vm.point(beforeClear)
		at.Hold()
		run := process.Start(vm.adapter(), nil, "", "instance", "destroy", "--force", "--", vm.ID)
		kill(at.Reached())
		at.Release()
		got := run.Wait()
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(ContainSubstring("directory_entry.access"))
		vm.delete(ctx)
	})
})

var _ = Describe("an instance whose plan gets the errands, and loses them again", func() {
	It("is the same outside", func(ctx context.Context) {
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
		Expect(after).To(And(HaveKeyWithValue("inst-1-data", "changed"), HaveKeyWithValue("inst-1-data-access", before["inst-1-data-access"])))
		for _, id := range []string{"bind-1", "bind-2"} {
			Expect(m.unbind(ctx, id).Exit).To(Equal(0))
		}
		vm.delete(ctx)
	})

	It("is destroyed by an errand also where a request made it", func(ctx context.Context) {
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

	It("is upgraded through two OpenTofus by the errand, and keeps its template where the operator says so", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newErrandBroker()
		older := filepath.Join(w.dir, "older")
		Expect(os.CopyFS(older, os.DirFS(suite.provided))).To(Succeed())
		definition := read(filepath.Join(older, "manifest.yml"))
		definition = strings.Replace(definition, "- name: tofu\n  version: 1.10.10\n", "- name: tofu\n  version: 1.10.10\n  default: true\n", 1)
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

		By("a newer pak that nobody may upgrade to")
		use(newer)
		m.upgrade(ctx)
		vm.render(m)
		got := vm.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("1.10.10"))

		By("and that they may upgrade to")
		m.set(object{"terraform_upgrades_enabled": true})
		Expect(m.pendingPaths(ctx)).To(ConsistOf("/instance_groups/name=errands/jobs/name=apply-instance/properties/intent/tofu_version"))
		m.upgrade(ctx)
		vm.render(m)
		got = vm.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("1.12.6"))
		Expect(w.outside()).To(Equal(before))

		By("an errand whose release has another template than the manifest was made for")
		Expect(vm.destroy(ctx).Exit).To(Equal(0))
		Expect(os.WriteFile(filepath.Join(older, "main.tf"), []byte(read(filepath.Join(older, "main.tf"))+"\n# another\n"), 0o600)).To(Succeed())
		vm.set(object{"paks": []string{older}})
		got = vm.apply(ctx)
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(ContainSubstring("made for the provision template of pak provided 0.1.0, and the release of this deployment has that of"))
		w.expectNothingLeft()
	})
})
