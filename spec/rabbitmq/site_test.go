package rabbitmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
	"service-adapter/spec/kit/service"
)

// The ids of the service and the plans of the pak.
const (
	serviceID = "3c7e9b52-0f4d-4a86-b1d3-6e2f8a5c9d01"
	single    = "3c7e9b52-0f4d-4a86-b1d3-6e2f8a5c9d11"
	cluster   = "3c7e9b52-0f4d-4a86-b1d3-6e2f8a5c9d12"
)

// unreachable is the message for users while no server can be reached.
const unreachable = "RabbitMQ cannot be reached at the moment; try again later"

// object is a JSON object.
type object = map[string]any

// instances is the number of instances so far, which makes their names unique.
var instances int

// A site is an adapter with its state, and one service instance.
type site struct{ *service.Site }

// A topology contains the operator's plan and the addresses of the VMs.
type topology struct {
	plan       string
	properties object
	hosts      []string
	parameters object
	// killed is true if the spec kills the processes of the instance. The instance then has its own cache, below which
	// OpenTofu runs.
	killed bool
}

// plain returns a topology of one node without TLS.
func plain() topology {
	return topology{
		plan: single, properties: object{"nodes": 1, "port": server.Port, "management_port": server.ManagementPort},
		hosts: []string{server.Host},
	}
}

// newSite deploys an instance whose VMs are the node.
func newSite(ctx context.Context, t topology) site {
	GinkgoHelper()
	s := prepared(t)
	s.deploy(ctx, t.parameters)
	return s
}

// prepared returns an adapter, and an instance that has not been deployed. At the end of the spec, its users and
// virtual hosts are removed from RabbitMQ.
func prepared(t topology) site {
	GinkgoHelper()
	instances++
	cache := filepath.Join(shared, "cache")
	if t.killed {
		cache = ""
	}
	s := site{service.New(service.Options{
		Adapter: adapterBinary, Pak: pak(), Cache: cache, Secret: server.Password, Cleanup: removeBindings,
	})}
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
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
		VMs: map[string][]string{"node": t.hosts},
	}
	return s
}

// deploy does what the broker and the Director do. The administrator's password is that of the node.
func (s site) deploy(ctx context.Context, parameters object) {
	GinkgoHelper()
	s.DeployManifest(ctx, parameters)
	s.Secrets[s.administrator()] = server.Password
	s.resolve(certificates)
}

// resolve sets the values of the references to certificates in the manifest.
func (s site) resolve(leaf servers.Certificates) {
	s.Secrets["((rabbitmq_tls.ca))"] = leaf.CA
	s.Secrets["((rabbitmq_tls.certificate))"] = leaf.Certificate
	s.Secrets["((rabbitmq_tls.private_key))"] = leaf.Key
}

// administrator returns the reference to the administrator's password.
func (s site) administrator() string {
	return "((/odb/" + serviceID + "/" + s.DeploymentName() + "/admin_password))"
}

// refused creates a binding, which must fail with this text for the user and leave nothing. It returns the answer.
func (s site) refused(ctx context.Context, id string, parameters object, text string) broker.Answer {
	GinkgoHelper()
	got := s.CreateBinding(ctx, id, parameters)
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(ContainSubstring(text))
	Expect(s.Workspaces()).To(BeEmpty())
	Expect(names(ctx, "users")).To(ConsistOf(server.User))
	Expect(names(ctx, "vhosts")).To(ConsistOf("/"))
	return got
}

// removeBindings removes the users and virtual hosts of bindings.
func removeBindings(ctx context.Context) {
	for kind, kept := range map[string]string{"users": server.User, "vhosts": "/"} {
		for _, name := range names(ctx, kind) {
			if name != kept {
				manage(ctx, "DELETE", kind+"/"+name, "")
			}
		}
	}
}

// manage sends a request to the node as the administrator and returns the body of the response.
func manage(ctx context.Context, method, path, body string) string {
	GinkgoHelper()
	answer, err := server.Manage(ctx, method, path, body)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// names returns the names of all users or vhosts.
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
