package postgresql_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/servers"
	"service-adapter/spec/kit/service"
)

// The ids of the service and the plan of the pak postgresql.
const (
	serviceID = "5e0c2b1a-93d4-4f6e-8c7b-2a1d9e4f3b01"
	planID    = "5e0c2b1a-93d4-4f6e-8c7b-2a1d9e4f3b11"
)

// object is a JSON object.
type object = map[string]any

// instances is the number of instances so far, which makes their names unique.
var instances int

// A site is an adapter with its state, and one service instance.
type site struct {
	*service.Site
	// pak is the path of the pak that the adapter serves.
	pak string
	// database and owner are the names of the instance's database and of its owner.
	database, owner string
}

// newAdapter returns a configured adapter without an instance. pak is the directory of a pak. The adapters of a pak
// that all specs share also share a cache.
func newAdapter(pak string, config object) *site {
	GinkgoHelper()
	instances++
	cache := ""
	if filepath.Dir(pak) == shared {
		cache = filepath.Join(shared, "cache")
	}
	return &site{pak: pak, Site: service.New(service.Options{
		Adapter: adapterBinary, Pak: pak, Cache: cache, Config: config, Secret: server.Password,
	})}
}

// newSite deploys an instance of the pak postgresql whose VM is the server. pak is the directory of a pak; "" means the
// example.
func newSite(ctx context.Context, pak string) *site {
	GinkgoHelper()
	if pak == "" {
		pak = filepath.Join(shared, "pak")
	}
	s := newAdapter(pak, nil)
	s.database = fmt.Sprintf("db_%d", instances)
	s.owner = s.database + "_owner"
	s.Instance = &odb.Instance{
		ID: fmt.Sprintf("inst-%d", instances), ServiceID: serviceID, PlanID: planID,
		Plan: object{
			"properties": object{"max_connections": 100, "port": server.Port}, "lifecycle_errands": object{},
			"instance_groups": []any{object{
				"name": "postgres", "vm_type": "small", "persistent_disk_type": "10GB", "instances": 1,
				"networks": []string{"default"}, "azs": []string{"z1"},
			}},
		},
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: fmt.Sprintf("service-instance_inst-%d", instances),
			Releases: serviceadapter.ServiceReleases{{
				Name: "postgres", Version: "56.0.4",
				Jobs: []string{"postgres"},
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
		VMs: map[string][]string{"postgres": {server.Host}},
	}
	s.deploy(ctx)
	return s
}

// deploy does what the broker, the Director and the release's job do.
func (s *site) deploy(ctx context.Context) {
	GinkgoHelper()
	s.DeployManifest(ctx, object{"db_name": s.database})
	s.resolve(certificates)
	Expect(server.CreateDatabase(ctx, s.database)).To(Succeed())
}

// resolve sets the values of the references in the manifest.
func (s *site) resolve(leaf servers.Certificates) {
	s.Secrets["((pg_admin_password))"] = server.Password
	s.Secrets["((postgres_tls.ca))"] = leaf.CA
	s.Secrets["((postgres_tls.certificate))"] = leaf.Certificate
	s.Secrets["((postgres_tls.private_key))"] = leaf.Key
}

// roles returns the login roles of bindings.
func (s *site) roles(ctx context.Context) []string {
	GinkgoHelper()
	found, err := server.Query(ctx, "postgres",
		"SELECT DISTINCT pg_get_userbyid(member) FROM pg_auth_members WHERE pg_get_userbyid(roleid) = '"+
			s.owner+"' AND member <> '"+server.User+"'::regrole ORDER BY 1")
	Expect(err).NotTo(HaveOccurred())
	return found
}

// sql runs statements as an app that has only a URI, and returns the rows as one text.
func sql(ctx context.Context, uri any, statements string) (string, error) {
	psql := exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1", uri.(string))
	psql.Stdin = strings.NewReader(statements)
	output, err := psql.Output()
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns this type
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(output)), err
}
