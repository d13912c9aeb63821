package mysql_test

import (
	"context"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/service"
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

// unreachable is the message for users while no server can be reached.
const unreachable = "MySQL cannot be reached at the moment; try again later"

// object is a JSON object.
type object = map[string]any

// A site is an adapter with its state, and one service instance.
type site struct{ *service.Site }

// newSite deploys an instance whose only VM is the server.
func newSite(ctx context.Context) site {
	GinkgoHelper()
	s := prepared(single, server.Host)
	s.deploy(ctx)
	return s
}

// newCluster deploys a cluster with servers at these addresses.
func newCluster(ctx context.Context, hosts ...string) site {
	GinkgoHelper()
	s := prepared(cluster, hosts...)
	s.deploy(ctx)
	return s
}

// prepared returns an adapter, and an instance that is not deployed yet. At the end of the spec, its users and
// databases are removed.
func prepared(plan string, hosts ...string) site {
	GinkgoHelper()
	s := site{service.New(service.Options{
		Adapter: adapterBinary, Pak: pak(), Cache: filepath.Join(shared, "cache"), Secret: server.Password,
		Cleanup: removeBindings,
	})}
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
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
		VMs: map[string][]string{"mysql": hosts}, DNS: map[string]string{"mysql": name},
	}
	return s
}

// deploy does what the broker and the Director do. The administrator's password and the certificates are those of the
// server.
func (s site) deploy(ctx context.Context) {
	GinkgoHelper()
	s.DeployManifest(ctx, nil)
	s.Secrets[administrator], s.Secrets[authority] = server.Password, certificates.CA
}

// unbound deletes a binding, and asserts that nothing of it is left.
func (s site) unbound(ctx context.Context, id string) {
	GinkgoHelper()
	answer := s.DeleteBinding(ctx, id)
	Expect(answer.Exit).To(Equal(0), answer.Stderr)
	Expect(s.Workspaces()).NotTo(ContainElement("b-" + id))
}

// removeBindings removes the users and databases of bindings.
func removeBindings(ctx context.Context) {
	for _, user := range users(ctx) {
		query(ctx, fmt.Sprintf("DROP USER '%s'", user))
	}
	for _, database := range databases(ctx) {
		query(ctx, fmt.Sprintf("DROP DATABASE `%s`", database))
	}
}

// databases returns the databases of bindings.
func databases(ctx context.Context) []string {
	GinkgoHelper()
	return query(ctx, "SELECT schema_name FROM information_schema.schemata "+
		"WHERE schema_name NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')")
}
