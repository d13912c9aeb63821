package postgresql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
	"service-adapter/spec/kit/servers"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
)

// The ids of the pak postgresql.
const (
	serviceID = "5e0c2b1a-93d4-4f6e-8c7b-2a1d9e4f3b01"
	planID    = "5e0c2b1a-93d4-4f6e-8c7b-2a1d9e4f3b11"
)

type object = map[string]any

// instances counts them, so that each has names of its own.
var instances int

// site is an adapter with its state, and one service instance.
type site struct {
	*odb.Instance
	broker.Adapter
	dir, pak string
	// database and owner are those of the instance.
	database, owner string
}

// newAdapter sets an adapter up without an instance. pak is a directory; one that all specs share has a cache that they
// share too.
func newAdapter(pak string, config object) *site {
	GinkgoHelper()
	instances++
	dir, err := os.MkdirTemp("", "pg-")
	Expect(err).NotTo(HaveOccurred())
	s := &site{dir: dir, pak: pak}
	DeferCleanup(s.remove)
	cache := filepath.Join(dir, "cache")
	if filepath.Dir(pak) == shared {
		cache = filepath.Join(shared, "cache")
	}
	all := object{
		"paks": []string{pak}, "secure_manifests": true, "cache_dir": cache,
		"state": object{"config": object{"dir": s.state()}},
	}
	maps.Copy(all, config)
	s.Adapter = broker.Adapter{
		Path: adapterBinary,
		Env:  []string{"SERVICE_ADAPTER_CONFIG=" + s.config(), "TMPDIR=" + dir}, Dir: dir,
	}
	s.configure(all)
	return s
}

// config is the path of the adapter's configuration.
func (s *site) config() string { return filepath.Join(s.dir, "service-adapter.yml") }

// configure writes the adapter's configuration.
func (s *site) configure(config object) {
	GinkgoHelper()
	text, err := json.Marshal(config)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(s.config(), text, 0o600)).To(Succeed())
}

// newSite deploys an instance of the pak postgresql whose VM is the server. pak is a directory; "" is the example.
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
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-jammy", Version: "1.1"}},
		},
		VMs: map[string][]string{"postgres": {server.Host}},
	}
	s.deploy(ctx)
	return s
}

// deploy does what broker, Director and the release's job do.
func (s *site) deploy(ctx context.Context) {
	GinkgoHelper()
	got := s.call(ctx, "generate-manifest", s.Generate(object{
		"context": object{"platform": "cloudfoundry", "instance_name": "my-db"}, "organization_guid": "org",
		"space_guid": "space",
		"service_id": serviceID, "plan_id": planID, "parameters": object{"db_name": s.database},
	}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(s.Deploy(got.Stdout)).To(Succeed())
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

func (s *site) state() string { return filepath.Join(s.dir, "state") }

// workspaces are the names of the OpenTofu workspaces.
func (s *site) workspaces() []string {
	return kit.Names(GinkgoT(), filepath.Join(s.state(), "workspaces"))
}

func (s *site) call(ctx context.Context, command string, parameters object) broker.Answer {
	GinkgoHelper()
	got, err := s.Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("%s: exit %d\nstderr: %.2000s\n", command, got.Exit, got.Stderr)
	return got
}

func (s *site) bindParameters(id string, parameters object) object {
	return s.Bind(id, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": parameters, "plan_id": s.PlanID, "service_id": s.ServiceID,
	})
}

// bind makes a binding.
func (s *site) bind(ctx context.Context, id string, parameters object) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "create-binding", s.bindParameters(id, parameters))
}

func (s *site) unbind(ctx context.Context, id string) broker.Answer {
	GinkgoHelper()
	return s.call(ctx, "delete-binding", s.Bind(id, object{"plan_id": s.PlanID, "service_id": s.ServiceID}))
}

// bound are the credentials of a new binding.
func (s *site) bound(ctx context.Context, id string, parameters object) object {
	GinkgoHelper()
	return credentials(s.bind(ctx, id, parameters))
}

func credentials(got broker.Answer) object {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var binding struct{ Credentials object }
	Expect(json.Unmarshal([]byte(got.Stdout), &binding)).To(Succeed())
	return binding.Credentials
}

// roles are the login roles of bindings.
func (s *site) roles(ctx context.Context) []string {
	GinkgoHelper()
	found, err := server.Query(ctx, "postgres",
		"SELECT DISTINCT pg_get_userbyid(member) FROM pg_auth_members WHERE pg_get_userbyid(roleid) = '"+
			s.owner+"' AND member <> '"+server.User+"'::regrole ORDER BY 1")
	Expect(err).NotTo(HaveOccurred())
	return found
}

// sql runs statements as an app that has nothing but a URI, and returns the rows.
func sql(ctx context.Context, uri any, statements string) (string, error) {
	psql := exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1", uri.(string))
	psql.Stdin = strings.NewReader(statements)
	output, err := psql.Output()
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // what Output returns
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(output)), err
}

func (s *site) remove() error {
	process.End(s.dir)
	return os.RemoveAll(s.dir)
}
