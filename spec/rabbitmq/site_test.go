package rabbitmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
	"service-adapter/spec/kit/servers"
)

// The ids of the pak.
const (
	serviceID = "3c7e9b52-0f4d-4a86-b1d3-6e2f8a5c9d01"
	single    = "3c7e9b52-0f4d-4a86-b1d3-6e2f8a5c9d11"
	cluster   = "3c7e9b52-0f4d-4a86-b1d3-6e2f8a5c9d12"
)

type object = map[string]any

// instances counts them, so that each has a name of its own.
var instances int

// site is an adapter with its state, and one service instance.
type site struct {
	*odb.Instance
	broker.Adapter
	dir string
}

// topology is what a plan of the operator says, and where the VMs are.
type topology struct {
	plan       string
	properties object
	hosts      []string
	parameters object
	// killed is whether a spec kills what runs for the instance, which then has a cache of its own: OpenTofu works
	// there.
	killed bool
}

// plain is one node without TLS.
func plain() topology {
	return topology{
		plan: single, properties: object{"nodes": 1, "port": server.Port, "management_port": server.ManagementPort},
		hosts: []string{server.Host},
	}
}

// newSite deploys an instance whose VMs are the node. Afterwards nothing of it is left in RabbitMQ.
func newSite(ctx context.Context, t topology) *site {
	GinkgoHelper()
	s := prepared(t)
	s.deploy(ctx, t.parameters)
	return s
}

// prepared is an adapter, and an instance that is not made yet.
func prepared(t topology) *site {
	GinkgoHelper()
	instances++
	dir, err := os.MkdirTemp("", "rabbitmq-")
	Expect(err).NotTo(HaveOccurred())
	s := &site{dir: dir}
	DeferCleanup(s.remove)
	cache := filepath.Join(shared, "cache")
	if t.killed {
		cache = filepath.Join(dir, "cache")
	}
	config := object{
		"paks": []string{pak()}, "secure_manifests": true, "cache_dir": cache,
		"state": object{"config": object{"dir": s.state()}},
	}
	text, err := json.Marshal(config)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(dir, "service-adapter.yml")
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	s.Adapter = broker.Adapter{
		Path: adapterBinary, Env: []string{"SERVICE_ADAPTER_CONFIG=" + path, "TMPDIR=" + dir},
		Dir: dir,
	}
	id := fmt.Sprintf("inst-%d", instances)
	s.Instance = &odb.Instance{
		ID: id, ServiceID: serviceID, PlanID: t.plan,
		Plan: object{
			"properties": t.properties, "lifecycle_errands": object{},
			"instance_groups": []any{object{
				"name": "node", "vm_type": "small", "persistent_disk_type": "10GB", "instances": 1,
				"networks": []string{"default"}, "azs": []string{"z1"},
			}},
		},
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_" + id,
			Releases: serviceadapter.ServiceReleases{{
				Name: "rabbitmq-forge", Version: "1.5.0",
				Jobs: []string{"rabbitmq"},
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-jammy", Version: "1.1"}},
		},
		VMs: map[string][]string{"node": t.hosts},
	}
	return s
}

// configure changes keys of the adapter's configuration.
func (s *site) configure(keys object) {
	GinkgoHelper()
	path := filepath.Join(s.dir, "service-adapter.yml")
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	config := object{}
	Expect(json.Unmarshal(text, &config)).To(Succeed())
	maps.Copy(config, keys)
	text, err = json.Marshal(config)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
}

// generate asks for a manifest.
func (s *site) generate(ctx context.Context, parameters object) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "generate-manifest", s.Generate(object{
		"context": object{"platform": "cloudfoundry", "instance_name": "queues"}, "organization_guid": "org",
		"space_guid": "space",
		"service_id": serviceID, "plan_id": s.PlanID, "parameters": parameters,
	}))
}

// deploy does what broker and Director do. The administrator's password is the node's.
func (s *site) deploy(ctx context.Context, parameters object) {
	GinkgoHelper()
	got := s.generate(ctx, parameters)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(s.Deploy(got.Stdout)).To(Succeed())
	s.Secrets[s.administrator()] = server.Password
	s.resolve(certificates)
}

// resolve sets the values of the references to certificates in the manifest.
func (s *site) resolve(leaf servers.Certificates) {
	s.Secrets["((rabbitmq_tls.ca))"] = leaf.CA
	s.Secrets["((rabbitmq_tls.certificate))"] = leaf.Certificate
	s.Secrets["((rabbitmq_tls.private_key))"] = leaf.Key
}

// administrator is the reference to the administrator's password.
func (s *site) administrator() string {
	return "((/odb/" + serviceID + "/" + s.DeploymentName() + "/admin_password))"
}

func (s *site) state() string { return filepath.Join(s.dir, "state") }

// workspaces are the names of the OpenTofu workspaces.
func (s *site) workspaces() []string {
	return kit.Names(GinkgoT(), filepath.Join(s.state(), "workspaces"))
}

func (s *site) call(ctx context.Context, command string, parameters object) broker.Answer {
	GinkgoHelper()
	got, err := s.Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	process.Show(command, got)
	Expect(got.Stderr).NotTo(ContainSubstring(server.Password))
	return got
}

func (s *site) bindParameters(id string, parameters object) object {
	return s.Bind(id, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": parameters, "plan_id": s.PlanID, "service_id": serviceID,
	})
}

func (s *site) unbindParameters(id string) object {
	return s.Bind(id, object{"plan_id": s.PlanID, "service_id": serviceID})
}

// bind makes a binding.
func (s *site) bind(ctx context.Context, id string, parameters object) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "create-binding", s.bindParameters(id, parameters))
}

func (s *site) unbind(ctx context.Context, id string) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "delete-binding", s.unbindParameters(id))
}

// bound are the credentials of a new binding.
func (s *site) bound(ctx context.Context, id string, parameters object) object {
	GinkgoHelper()
	got := s.bind(ctx, id, parameters)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var binding struct{ Credentials object }
	Expect(json.Unmarshal([]byte(got.Stdout), &binding)).To(Succeed())
	return binding.Credentials
}

// refused makes a binding that must fail with a text for the user, and leave nothing.
func (s *site) refused(ctx context.Context, id string, parameters object, text string) broker.Answer {
	GinkgoHelper()
	got := s.bind(ctx, id, parameters)
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(ContainSubstring(text))
	Expect(s.workspaces()).To(BeEmpty())
	Expect(names(ctx, "users")).To(ConsistOf(server.User))
	Expect(names(ctx, "vhosts")).To(ConsistOf("/"))
	return got
}

// unreachable makes a binding where the node cannot be reached: nobody knows what there is of it, so its record stays
// for the unbind that the platform sends after a failure.
func (s *site) unreachable(ctx context.Context, id string) broker.Answer {
	GinkgoHelper()
	got := s.bind(ctx, id, nil)
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(Equal("RabbitMQ cannot be reached at the moment; try again later"))
	Expect(s.workspaces()).To(ConsistOf("b-" + id))
	return got
}

// remove ends what runs, and removes what specs that failed left.
func (s *site) remove(ctx context.Context) {
	process.End(s.dir)
	for kind, kept := range map[string]string{"users": server.User, "vhosts": "/"} {
		for _, name := range names(ctx, kind) {
			if name != kept {
				manage(ctx, "DELETE", kind+"/"+name, "")
			}
		}
	}
	Expect(os.RemoveAll(s.dir)).To(Succeed())
}

// manage asks the node as the administrator.
func manage(ctx context.Context, method, path, body string) string {
	GinkgoHelper()
	answer, err := server.Manage(ctx, method, path, body)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// names are the names of all users or vhosts.
func names(ctx context.Context, kind string) []string {
	GinkgoHelper()
	var found []struct{ Name string }
	Expect(json.Unmarshal([]byte(manage(ctx, "GET", kind, "")), &found)).To(Succeed())
	list := []string{}
	for _, one := range found {
		list = append(list, one.Name)
	}
	return list
}
