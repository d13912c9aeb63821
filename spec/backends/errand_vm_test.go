package backends_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
)

// The names of the errands.
const (
	applyInstance   = "apply-instance"
	destroyInstance = "destroy-instance"
)

// bothErrands returns the lifecycle errands of a plan with both errands.
func bothErrands() object {
	return object{
		"post_deploy": []any{object{"name": applyInstance}},
		"pre_delete":  []any{object{"name": destroyInstance}},
	}
}

// newErrandBroker returns a broker's machine whose plan has the errands. Its configuration lacks the operator's values
// for the template, which only the errands have.
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
			"paks": []string{suite.provided}, "state": state,
			"config": object{"entries.path": w.entries, "note": "for ${request.instance_id}"},
		},
	})
	m.Plan = object{
		"properties": object{}, "lifecycle_errands": bothErrands(),
		"instance_groups": []any{object{
			"name": "errands", "vm_type": "small", "instances": 1, "networks": []string{"default"},
			"azs": []string{"z1"}, "lifecycle": "errand",
		}},
	}
	m.Deployment.Releases = serviceadapter.ServiceReleases{
		{Name: "service-adapter", Version: "1.0.0", Jobs: []string{applyInstance, destroyInstance}},
	}
	m.VMs = map[string][]string{}
	return m
}

// cmpOr returns the text, or the result of the function if the text is "".
func cmpOr(text string, otherwise func() string) string {
	if text != "" {
		return text
	}
	return otherwise()
}

// generate requests a manifest with these parameters, as for a creation or an update.
func (m *machine) generate(ctx context.Context, parameters object) answer {
	GinkgoHelper()
	return m.call(ctx, generateManifest, m.Generate(object{
		"context": object{"platform": "cloudfoundry", "space_guid": "sp"}, "service_id": m.ServiceID,
		"plan_id": m.PlanID, "parameters": parameters,
	}))
}

// deployWith requests a manifest with these parameters, which must succeed, and deploys it.
func (m *machine) deployWith(ctx context.Context, parameters object) {
	GinkgoHelper()
	got := m.generate(ctx, parameters)
	Expect(got.Exit).To(Equal(0), got.Stderr+got.Stdout)
	Expect(m.Deploy(got.Stdout)).To(Succeed())
}

// jobProperties returns the properties of a job in the deployed manifest, as the Director renders them.
func (m *machine) jobProperties(job string) object {
	GinkgoHelper()
	properties, found, err := m.JobProperties(job)
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	return properties
}

// An errandVM is a VM that runs the errands of a deployed manifest. It has the files that the jobs of the errands
// render.
type errandVM struct{ *machine }

// newErrandVM returns a new VM with the jobs of the deployed manifest.
func (m *machine) newErrandVM() *errandVM {
	GinkgoHelper()
	vm := &errandVM{m.world.bareMachine()}
	vm.config = object{}
	vm.render(m)
	return vm
}

// render renders the jobs of the manifest of a broker's machine on the VM, as a deployment does.
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

// intent returns the path of the intent that the job apply-instance renders.
func (vm *errandVM) intent() string { return filepath.Join(vm.dir, "intent.json") }

// applyArguments returns the arguments of the errand apply-instance.
func (vm *errandVM) applyArguments() []string {
	return []string{"instance", "apply", "--intent", vm.intent()}
}

// apply runs the errand apply-instance. destroy runs the errand destroy-instance.
func (vm *errandVM) apply(ctx context.Context) answer {
	GinkgoHelper()
	return vm.run(ctx, "", vm.applyArguments()...)
}

// destroy runs the errand destroy-instance, and returns the answer.
func (vm *errandVM) destroy(ctx context.Context) answer {
	GinkgoHelper()
	return vm.run(ctx, "", vm.destroyArguments()...)
}

// destroyArguments returns the arguments of the errand destroy-instance.
func (vm *errandVM) destroyArguments() []string {
	return []string{"instance", "destroy", "--force", "--", vm.ID}
}

// beginDestroy starts the errand destroy-instance in the background.
func (vm *errandVM) beginDestroy() *process.Running {
	GinkgoHelper()
	return process.Start(vm.adapter(), nil, "", vm.destroyArguments()...)
}

// beginApply starts the errand apply-instance in the background.
func (vm *errandVM) beginApply() *process.Running {
	GinkgoHelper()
	return process.Start(vm.adapter(), nil, "", vm.applyArguments()...)
}

// outside returns the contents of the resources that the template created, by their names.
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

// upgrade generates and deploys the manifest of an upgrade, for which the broker sends neither parameters nor secrets.
func (m *machine) upgrade(ctx context.Context) {
	GinkgoHelper()
	parameters := m.Generate(object{"context": object{"space_guid": "sp"}})
	parameters["previous_secrets"] = "null"
	got := m.call(ctx, generateManifest, parameters)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(m.Deploy(got.Stdout)).To(Succeed())
}

// pendingPaths returns the paths in the product of the command pending-changes.
func (m *machine) pendingPaths(ctx context.Context) []string {
	GinkgoHelper()
	manifest, plan := filepath.Join(m.dir, "deployed.yml"), filepath.Join(m.dir, "plan.json")
	text, err := json.Marshal(m.Plan)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(plan, text, 0o600)).To(Succeed())
	Expect(os.WriteFile(manifest, []byte(m.Manifest), 0o600)).To(Succeed())
	var changes []struct{ Path string }
	Expect(
		json.Unmarshal([]byte(m.run(ctx, "", "pending-changes", "--manifest", manifest, "--plan", plan,
			"--json").Stdout), &changes)).To(Succeed())
	var paths []string
	for _, change := range changes {
		paths = append(paths, change.Path)
	}
	return paths
}

// expectNothingPending generates the manifest as the broker does before an update, and asserts that it equals the
// deployed manifest.
func (m *machine) expectNothingPending(ctx context.Context) {
	GinkgoHelper()
	got := m.call(ctx, generateManifest, m.Generate(object{}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var product struct{ Manifest string }
	Expect(json.Unmarshal([]byte(got.Stdout), &product)).To(Succeed())
	Expect(product.Manifest).To(Equal(m.Manifest))
	Expect(odb.SameManifests(m.Manifest, product.Manifest)).To(BeTrue())
}

// strikeAt starts an errand and kills the victim when the errand reaches a point.
func (vm *errandVM) strikeAt(where string, who victim, begin func() *process.Running) {
	GinkgoHelper()
	at := vm.point(where)
	at.Hold()
	run := begin()
	vm.strike(who, at.Reached())
	at.Release()
	Expect(run.Wait().Exit).NotTo(BeZero())
}

// delete runs the errand destroy-instance, and asserts that no resources and states are left.
func (vm *errandVM) delete(ctx context.Context) {
	GinkgoHelper()
	got := vm.destroy(ctx)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	vm.world.expectNothingLeft()
}
