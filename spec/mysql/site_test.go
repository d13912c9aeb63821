package mysql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
)

// The ids of the service and the plans of the pak.
const (
	serviceID = "6b1d4f2e-8c3a-4e70-9d52-1f7a3c8e5b01"
	single    = "6b1d4f2e-8c3a-4e70-9d52-1f7a3c8e5b11"
	cluster   = "6b1d4f2e-8c3a-4e70-9d52-1f7a3c8e5b12"
)

// The ids of bindings.
const (
	one = "4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a01"
	two = "4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a02"
)

// The users of the bindings one and two.
const (
	userOne = "4b1c3f4e0d6a4c1b9d551f6f7f5d2a01"
	userTwo = "4b1c3f4e0d6a4c1b9d551f6f7f5d2a02"
)

// The references in the manifest to the administrator's password and to the authority of the servers.
const (
	administrator = "((mysql_admin_password))"
	authority     = "((mysql_tls.ca))"
)

type object = map[string]any

// A site is an adapter with its state, and one service instance.
type site struct {
	*odb.Instance
	broker.Adapter
	dir string
}

// newSite deploys an instance whose only VM is the server.
func newSite(ctx context.Context) *site {
	GinkgoHelper()
	s := prepared(single, server.Host)
	s.deploy(ctx)
	return s
}

// newCluster deploys a cluster with servers at these addresses.
func newCluster(ctx context.Context, hosts ...string) *site {
	GinkgoHelper()
	s := prepared(cluster, hosts...)
	s.deploy(ctx)
	return s
}

// prepared returns an adapter, and an instance that is not deployed yet. At the end of the spec, its processes are
// killed and its users and databases are removed.
func prepared(plan string, hosts ...string) *site {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "mysql-")
	Expect(err).NotTo(HaveOccurred())
	s := &site{dir: dir}
	DeferCleanup(s.remove)
	groups := []any{object{
		"name": "mysql", "vm_type": "small", "persistent_disk_type": "10GB", "instances": 1,
		"networks": []string{"default"}, "azs": []string{"z1"},
	}}
	properties, name := object{"nodes": 1, "max_connections": 200, "port": server.Port}, serverName
	if plan == cluster {
		properties["nodes"], name = 3, proxyName
		groups = append(groups, object{
			"name": "proxy", "vm_type": "small", "instances": 2, "networks": []string{"default"}, "azs": []string{"z1"},
		})
	}
	s.Adapter = broker.Adapter{
		Path: adapterBinary, Env: []string{"SERVICE_ADAPTER_CONFIG=" + s.config(), "TMPDIR=" + dir}, Dir: dir,
	}
	s.configure(filepath.Join(shared, "cache"), object{})
	s.Instance = &odb.Instance{
		ID: "mysql", ServiceID: serviceID, PlanID: plan,
		Plan: object{"properties": properties, "lifecycle_errands": object{}, "instance_groups": groups},
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_mysql",
			Releases: serviceadapter.ServiceReleases{
				{Name: "pxc", Version: "2.0.8", Jobs: []string{
					"pxc-mysql", "proxy", "galera-agent", "cluster-health-logger", "gra-log-purger", "bootstrap",
				}},
				{Name: "bpm", Version: "1.4.0", Jobs: []string{"bpm"}},
			},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-jammy", Version: "1.1"}},
		},
		VMs: map[string][]string{"mysql": hosts}, DNS: map[string]string{"mysql": name},
	}
	return s
}

func (s *site) config() string { return filepath.Join(s.dir, "service-adapter.yml") }

// configure writes the adapter's configuration, with values for the key config.
func (s *site) configure(cache string, config object) {
	GinkgoHelper()
	text, err := json.Marshal(object{
		"paks": []string{pak()}, "secure_manifests": true, "cache_dir": cache, "config": config,
		"state": object{"config": object{"dir": s.state()}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(s.config(), text, 0o600)).To(Succeed())
}

// generate requests a manifest.
func (s *site) generate(ctx context.Context) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "generate-manifest", s.Generate(object{
		"context": object{"platform": "cloudfoundry", "instance_name": "orders"}, "organization_guid": "org",
		"space_guid": "space", "service_id": serviceID, "plan_id": s.PlanID, "parameters": nil,
	}))
}

// deploy does what broker and Director do. The administrator's password and the certificates are those of the server.
func (s *site) deploy(ctx context.Context) {
	GinkgoHelper()
	generated := s.generate(ctx)
	Expect(generated.Exit).To(Equal(0), generated.Stderr)
	Expect(s.Deploy(generated.Stdout)).To(Succeed())
	s.Secrets[administrator], s.Secrets[authority] = server.Password, certificates.CA
}

func (s *site) state() string { return filepath.Join(s.dir, "state") }

// workspaces returns the names of the OpenTofu workspaces.
func (s *site) workspaces() []string {
	return kit.Names(GinkgoT(), filepath.Join(s.state(), "workspaces"))
}

func (s *site) call(ctx context.Context, command string, parameters object) broker.Answer {
	GinkgoHelper()
	answer, err := s.Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	process.Show(command, answer)
	Expect(answer.Stderr).NotTo(ContainSubstring(server.Password))
	return answer
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

// bind creates a binding.
func (s *site) bind(ctx context.Context, id string, parameters object) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "create-binding", s.bindParameters(id, parameters))
}

// unbind deletes a binding.
func (s *site) unbind(ctx context.Context, id string) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "delete-binding", s.unbindParameters(id))
}

// bound returns the credentials of a new binding.
func (s *site) bound(ctx context.Context, id string, parameters object) object {
	GinkgoHelper()
	answer := s.bind(ctx, id, parameters)
	Expect(answer.Exit).To(Equal(0), answer.Stderr)
	var binding struct{ Credentials object }
	Expect(json.Unmarshal([]byte(answer.Stdout), &binding)).To(Succeed())
	return binding.Credentials
}

// unbound deletes a binding, and expects that nothing of it is left.
func (s *site) unbound(ctx context.Context, id string) {
	GinkgoHelper()
	answer := s.unbind(ctx, id)
	Expect(answer.Exit).To(Equal(0), answer.Stderr)
	Expect(s.workspaces()).NotTo(ContainElement("b-" + id))
}

// unreachable creates a binding while no server can be reached. The adapter cannot know what exists of the binding, so
// its record stays for the unbind that the platform sends after a failure.
func (s *site) unreachable(ctx context.Context, id string) broker.Answer {
	GinkgoHelper()
	answer := s.bind(ctx, id, nil)
	Expect(answer.Exit).To(Equal(1), answer.Stderr)
	Expect(answer.Stdout).To(Equal("MySQL cannot be reached at the moment; try again later"))
	Expect(s.workspaces()).To(ConsistOf("b-" + id))
	return answer
}

// remove ends the processes of the site, and removes its users, databases and files.
func (s *site) remove(ctx context.Context) {
	process.End(s.dir)
	for _, user := range users(ctx) {
		query(ctx, fmt.Sprintf("DROP USER '%s'", user))
	}
	for _, database := range databases(ctx) {
		query(ctx, fmt.Sprintf("DROP DATABASE `%s`", database))
	}
	Expect(os.RemoveAll(s.dir)).To(Succeed())
}

// databases returns the databases of bindings.
func databases(ctx context.Context) []string {
	GinkgoHelper()
	return query(ctx, "SELECT schema_name FROM information_schema.schemata "+
		"WHERE schema_name NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')")
}
