package postgresql_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
)

// The plans of the pak postgresql-database, which differ in the number of connections for their instances.
const (
	sharedPlan      = "8d5f3a60-1c7e-4b29-9f14-6e0b7d2c5a11"
	sharedLargePlan = "8d5f3a60-1c7e-4b29-9f14-6e0b7d2c5a12"
)

// newShared returns an adapter with the pak postgresql-database, whose shared server is that of the suite. The instance
// has not been created. pak is the directory of a pak; "" means the example.
func newShared(pak string) *site {
	GinkgoHelper()
	if pak == "" {
		pak = filepath.Join(shared, "database-pak")
	}
	s := newAdapter(pak, sharedConfig())
	id := fmt.Sprintf("inst-%d", instances)
	s.database, s.owner = "db-"+id, "owner-"+id
	s.Instance = &odb.Instance{
		ID: id, ServiceID: "8d5f3a60-1c7e-4b29-9f14-6e0b7d2c5a01", PlanID: sharedPlan,
		Plan: object{"properties": object{}, "lifecycle_errands": object{}, "instance_groups": []any{}},
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_" + id,
			// The broker requires releases and stemcells, although nothing is deployed.
			Releases: serviceadapter.ServiceReleases{{
				Name: "service-adapter", Version: "1",
				Jobs: []string{"service-adapter"},
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
	}
	return s
}

// sharedConfig returns the operator's configuration.
func sharedConfig() object {
	return object{"config": object{
		"postgresql_database": object{
			"host": "localhost", "port": server.Port, "ca_cert": certificates.CA, "importable": "hand_[0-9]+",
		},
		"PGACCESS_USER": server.User, "PGACCESS_PASSWORD": server.Password,
	}}
}

// reconfigure replaces the adapter's configuration, with changes in the section of the pak.
func (s *site) reconfigure(changes object) {
	GinkgoHelper()
	config := sharedConfig()
	maps.Copy(config["config"].(object)["postgresql_database"].(object), changes)
	s.Configure(config)
}

// administeredBy replaces the adapter's configuration, with another administrator of the server.
func (s *site) administeredBy(user, password string) {
	GinkgoHelper()
	config := sharedConfig()
	maps.Copy(config["config"].(object), object{"PGACCESS_USER": user, "PGACCESS_PASSWORD": password})
	s.Configure(config)
}

// refused creates or updates the instance, which must fail with this message for the user, and returns standard error.
// The message is "" if the problem concerns only the operator.
func (s *site) refused(ctx context.Context, parameters object, text string) (stderr string) {
	GinkgoHelper()
	got := s.GenerateManifest(ctx, parameters)
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(Equal(text))
	Expect(got.Stderr).NotTo(ContainSubstring(server.Password))
	return got.Stderr
}

// expectNothingPending asserts that the broker's check returns the deployed manifest and changes nothing.
func (s *site) expectNothingPending(ctx context.Context) {
	GinkgoHelper()
	file := filepath.Join(s.StateDir(), "workspaces", "i-"+s.ID, "terraform.tfstate")
	before, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	databases := s.databases(ctx)
	got := s.Request(ctx, "generate-manifest", s.Generate(object{}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(got.Stderr).NotTo(ContainSubstring("level=WARN"))
	manifest := s.Manifest
	Expect(s.Deploy(got.Stdout)).To(Succeed())
	Expect(odb.SameManifests(manifest, s.Manifest)).To(BeTrue())
	Expect(s.databases(ctx)).To(Equal(databases))
	after, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(after)).To(Equal(string(before)))
}

// expectPending asserts that the broker's check changes nothing, but reports that the next update will change
// resources.
func (s *site) expectPending(ctx context.Context) {
	GinkgoHelper()
	got := s.Request(ctx, "generate-manifest", s.Generate(object{}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(got.Stderr).To(ContainSubstring("the next update will change resources of the provision template"))
}

// databases returns all databases of the server with owner, limit, privileges and object id.
func (s *site) databases(ctx context.Context) []string {
	GinkgoHelper()
	found, err := server.Query(ctx, "postgres",
		"SELECT datname, pg_get_userbyid(datdba), datconnlimit, datacl, oid FROM pg_database ORDER BY 1")
	Expect(err).NotTo(HaveOccurred())
	return found
}

// limit returns the owner and the connection limit of the instance's database, and "" if it does not exist.
func (s *site) limit(ctx context.Context) string {
	GinkgoHelper()
	found, err := server.Query(ctx, "postgres",
		"SELECT pg_get_userbyid(datdba), datconnlimit FROM pg_database WHERE datname = '"+s.database+"'")
	Expect(err).NotTo(HaveOccurred())
	return strings.Join(found, "\n")
}

// expectNothing asserts that no database, role or state of the instance exists.
func (s *site) expectNothing(ctx context.Context) {
	GinkgoHelper()
	Expect(s.Workspaces()).To(BeEmpty())
	Expect(s.limit(ctx)).To(BeEmpty())
	Expect(server.Query(ctx, "postgres", "SELECT rolname FROM pg_roles WHERE rolname = '"+s.owner+"'")).To(BeEmpty())
}

// stored returns the texts of all stored states.
func (s *site) stored() string {
	GinkgoHelper()
	var all strings.Builder
	for _, name := range s.Workspaces() {
		text, err := os.ReadFile(filepath.Join(s.StateDir(), "workspaces", name, "terraform.tfstate"))
		Expect(err).NotTo(HaveOccurred())
		all.Write(text)
	}
	return all.String()
}

// operate runs a command for operators and returns its answer.
func (s *site) operate(ctx context.Context, arguments ...string) broker.Answer {
	GinkgoHelper()
	got, err := s.Run(ctx, "", arguments...)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("%s: exit %d\nstdout: %s\nstderr: %s\n", arguments, got.Exit, got.Stdout, got.Stderr)
	return got
}

// byHand creates a database with a table of one row, as an administrator would, and returns its name. The owner is the
// login legacy_NAME.
func byHand(ctx context.Context) string {
	GinkgoHelper()
	instances++
	name := fmt.Sprintf("hand_%d", instances)
	Expect(administrate(ctx, "postgres",
		fmt.Sprintf("CREATE ROLE legacy_%[1]s LOGIN; CREATE DATABASE %[1]s", name))).To(Succeed())
	Expect(administrate(ctx, "postgres", fmt.Sprintf("ALTER DATABASE %[1]s OWNER TO legacy_%[1]s", name))).To(Succeed())
	Expect(administrate(ctx, name,
		fmt.Sprintf("SET ROLE legacy_%s; CREATE TABLE t (n int); INSERT INTO t VALUES (42)", name))).To(Succeed())
	return name
}
