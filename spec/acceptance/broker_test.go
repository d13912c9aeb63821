package acceptance_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	binary "service-adapter/spec/kit/broker"
)

// The commands of the broker's protocol.
const (
	generateManifest    = "generate-manifest"
	createBinding       = "create-binding"
	deleteBinding       = "delete-binding"
	dashboardURL        = "dashboard-url"
	generatePlanSchemas = "generate-plan-schemas"
)

// The ids of the services and plans of the paks in testdata, and of the example redis.
const (
	entriesService = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	entriesPlan    = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
	redisService   = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	redisSmall     = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
	redisDurable   = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e12"
)

// The values of the parameter "failure" of binds with the pak "entries".
const (
	diskFull = iota + 1
	accountLocked
	accountTaken
	accountGone
)

// These types have short names, because all specs use them.
type (
	object = map[string]any
	// An answer is the outcome of one run of the adapter.
	answer = binary.Answer
)

// A broker plays ODB for one service instance.
type broker struct {
	*odb.Instance
	site *site
	// user is the user as whom the adapter runs. A nil user means the user of the specs.
	user *syscall.Credential
}

// newBroker returns a broker whose instance has not been deployed yet.
func newBroker(s *site) *broker {
	plan := object{
		"properties": object{}, "lifecycle_errands": object{},
		"instance_groups": []any{object{
			"name": "server", "vm_type": "small", "instances": 1, "networks": []string{"default"},
			"azs": []string{"z1"},
		}},
	}
	return &broker{site: s, Instance: &odb.Instance{
		ID: "inst-1", ServiceID: entriesService, PlanID: entriesPlan, Plan: plan,
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_inst-1",
			Releases: serviceadapter.ServiceReleases{{
				Name: "entries", Version: "1.2.3",
				Jobs: []string{"server"},
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
		VMs: map[string][]string{"server": {"10.0.8.5"}},
	}}
}

// newRedisBroker returns a broker for an instance of the example redis that has not been deployed yet.
func newRedisBroker(s *site) *broker {
	b := newBroker(s)
	b.ServiceID, b.PlanID = redisService, redisSmall
	b.Deployment.Releases = serviceadapter.ServiceReleases{{
		Name: "redis", Version: "1.2.3",
		Jobs: []string{"redis-server", "health-check"},
	}}
	b.group()["name"] = "redis-server"
	b.VMs = map[string][]string{"redis-server": {"10.0.8.5"}}
	return b
}

// nobody is the id of an unprivileged user and of that user's group.
const nobody = 65534

// withoutPrivileges makes the adapter run as an unprivileged user, who can write only to one directory of the site. It
// returns this directory, which is the user's TMPDIR and contains the state, and by default the cache. The working
// directory is read-only.
func (b *broker) withoutPrivileges() string {
	GinkgoHelper()
	s := b.site
	temporary, working := filepath.Join(s.dir, "tmp"), filepath.Join(s.dir, "cwd")
	Expect(os.Mkdir(temporary, 0o700)).To(Succeed())
	Expect(os.Mkdir(working, 0o555)).To(Succeed())
	delete(s.config, "cache_dir")
	s.set(object{
		"state":    object{"config": object{"dir": filepath.Join(temporary, "state")}},
		"services": object{"entries": object{"bind_defaults": object{"path": temporary}}},
	})
	s.working, s.temporary = working, temporary
	if os.Geteuid() != 0 {
		for _, dir := range []string{s.entries, s.pak, s.dir} {
			Expect(os.Chmod(dir, 0o555)).To(Succeed())
			DeferCleanup(os.Chmod, dir, os.FileMode(0o755))
		}
		return temporary
	}
	s.ownBinaries()
	Expect(os.Chown(temporary, nobody, nobody)).To(Succeed())
	Expect(os.Chmod(s.dir, 0o755)).To(Succeed())
	Expect(os.Chmod(s.configFile(), 0o644)).To(Succeed())
	b.user = &syscall.Credential{Uid: nobody, Gid: nobody}
	return temporary
}

// group returns the only instance group of the plan.
func (b *broker) group() object {
	return b.Plan["instance_groups"].([]any)[0].(object)
}

// call runs a command with the parameters of a request, and returns its outcome.
func (b *broker) call(ctx context.Context, command string, parameters object) answer {
	GinkgoHelper()
	return b.run(ctx, stdin(command, parameters), command)
}

// adapter returns the adapter under test with the environment, the working directory and the user of the broker.
func (b *broker) adapter() binary.Adapter {
	return binary.Adapter{Path: adapterBinary, Env: b.site.environment(), Dir: b.site.working, User: b.user}
}

// run runs a command with a text on standard input and arguments, and returns its outcome.
func (b *broker) run(ctx context.Context, stdin string, arguments ...string) answer {
	GinkgoHelper()
	got, err := b.adapter().Run(ctx, stdin, arguments...)
	Expect(err).NotTo(HaveOccurred())
	process.Show(append(arguments, "no command")[0], got)
	return got
}

// body returns the body of a request that creates or updates the instance with these parameters.
func (b *broker) body(parameters object) object {
	return object{
		"context":           object{"platform": "cloudfoundry", "instance_name": "my-instance", "space_guid": "space"},
		"organization_guid": "org", "space_guid": "space", "service_id": b.ServiceID, "plan_id": b.PlanID,
		"parameters": parameters,
	}
}

// deploy creates or updates the instance and stores the manifest and secrets of the adapter, as the broker does. It
// returns the answer of the adapter.
func (b *broker) deploy(ctx context.Context, parameters object) answer {
	GinkgoHelper()
	got := b.call(ctx, generateManifest, b.Generate(b.body(parameters)))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(b.Deploy(got.Stdout)).To(Succeed())
	return got
}

// bindParameters returns the parameters of a call of create-binding.
func (b *broker) bindParameters(id string, parameters object) object {
	return b.Bind(id, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": parameters, "plan_id": b.PlanID, "service_id": b.ServiceID,
	})
}

// unbindParameters returns the parameters of a call of delete-binding.
func (b *broker) unbindParameters(id string) object {
	return b.Bind(id, object{"plan_id": b.PlanID, "service_id": b.ServiceID})
}

// bind creates a binding with the parameters of a user, and returns the answer.
func (b *broker) bind(ctx context.Context, id string, parameters object) answer {
	GinkgoHelper()
	return b.call(ctx, createBinding, b.bindParameters(id, parameters))
}

// unbind deletes a binding, and returns the answer.
func (b *broker) unbind(ctx context.Context, id string) answer {
	GinkgoHelper()
	return b.call(ctx, deleteBinding, b.unbindParameters(id))
}

// stdin returns the JSON that the broker writes to standard input of a command.
func stdin(command string, parameters object) string {
	GinkgoHelper()
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return input
}

// encode returns a value as JSON.
func encode(value any) string {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// decode decodes a text that must contain exactly one JSON document.
func decode(text string) object {
	GinkgoHelper()
	var decoded object
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	Expect(decoder.Decode(&decoded)).To(Succeed(), "in %.200q", text)
	Expect(decoder.More()).To(BeFalse(), "more than one document in %.200q", text)
	return decoded
}

// credentials returns the credentials in the answer to create-binding, which must have succeeded.
func credentials(got answer) object {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	found, ok := decode(got.Stdout)["credentials"].(object)
	Expect(ok).To(BeTrue(), got.Stdout)
	return found
}

// start starts a command in the background.
func (b *broker) start(command string, parameters object) *process.Running {
	GinkgoHelper()
	return b.startInto(nil, command, parameters)
}

// startInto starts a command in the background with a file as its standard output.
func (b *broker) startInto(file *os.File, command string, parameters object) *process.Running {
	GinkgoHelper()
	return process.Start(b.adapter(), file, stdin(command, parameters), command)
}

// together calls the functions concurrently and waits for all of them.
func together(things ...func()) {
	GinkgoHelper()
	process.Together(len(things), things...)
}
