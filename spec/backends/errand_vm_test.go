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

// The errands, and the plan's part about them.
const (
	applyInstance   = "apply-instance"
	destroyInstance = "destroy-instance"
)

func bothErrands() object {
	return object{
		"post_deploy": []any{object{"name": applyInstance}},
		"pre_delete":  []any{object{"name": destroyInstance}},
	}
}

// newErrandBroker makes a broker's machine whose plan has the errands. Its own configuration lacks what the template
// needs of the operator, which the errands have.
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
		"context": object{"platform": "cloudfoundry", "space_guid": "sp"}, "service_id": m.ServiceID,
		"plan_id": m.PlanID, "parameters": parameters,
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
	return vm.run(ctx, "", vm.destroyArguments()...)
}

func (vm *errandVM) destroyArguments() []string {
	return []string{"instance", "destroy", "--force", "--", vm.ID}
}

// beginDestroy starts the errand destroy-instance.
func (vm *errandVM) beginDestroy() *process.Running {
	GinkgoHelper()
	return process.Start(vm.adapter(), nil, "", vm.destroyArguments()...)
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
	Expect(
		json.Unmarshal([]byte(m.run(ctx, "", "pending-changes", "--manifest", manifest, "--plan", plan,
			"--json").Stdout), &changes)).To(Succeed())
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

// strikeAt begins an errand and kills one of its processes when it reaches a point.
func (vm *errandVM) strikeAt(where string, who victim, begin func() *process.Running) {
	GinkgoHelper()
	at := vm.point(where)
	at.Hold()
	run := begin()
	vm.strike(who, at.Reached())
	at.Release()
	Expect(run.Wait().Exit).NotTo(BeZero())
}

// delete runs the errand destroy-instance until nothing is left.
func (vm *errandVM) delete(ctx context.Context) {
	GinkgoHelper()
	got := vm.destroy(ctx)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	vm.world.expectNothingLeft()
}
