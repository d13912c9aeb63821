package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
)

// budget is the time limit of a request. The provision template of the pak sleeps for longer.
const budget = 10 * time.Second

// The reference to the address of the database, with its password, in the manifest. The Director resolves it for the
// errands.
const (
	databasePath      = "/demo/service_adapter_state_database"
	databaseReference = "((" + databasePath + "))"
)

// cluster returns an instance as an operator's broker configuration describes it, with the errands that `pak catalog
// --errands` prints.
func cluster() *odb.Instance {
	errands := []string{"apply-instance", "destroy-instance"}
	return &odb.Instance{
		ID: "7b0e4d21-demo", ServiceID: "5c1d7e90-2b4f-4a86-9d3e-7f0a6b8c9d01",
		PlanID: "5c1d7e90-2b4f-4a86-9d3e-7f0a6b8c9d11",
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_7b0e4d21-demo",
			Releases:       serviceadapter.ServiceReleases{{Name: "service-adapter", Version: "1.0.0", Jobs: errands}},
			Stemcells:      []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.785"}},
		},
		Plan: map[string]any{
			"properties": map[string]any{},
			"lifecycle_errands": map[string]any{
				"post_deploy": []any{map[string]any{"name": errands[0]}},
				"pre_delete":  []any{map[string]any{"name": errands[1]}},
			},
			"instance_groups": []any{map[string]any{
				"name": "errands", "lifecycle": "errand", "vm_type": "small", "instances": 1,
				"networks": []string{"default"}, "azs": []string{"z1"},
			}},
		},
		VMs: map[string][]string{},
	}
}

// clusterSession is the part of the session with a service whose errands read its state from PostgreSQL.
type clusterSession struct {
	*session
	binary, dir, pak string
	// database is the address of the database, with the password.
	database string
	errand   broker.Adapter
}

// playCluster runs the steps of an instance whose creation takes longer than the time limit of a request. If PostgreSQL
// is not installed, it only prints that this part is omitted. It returns an error if a step fails, if the server cannot
// be used, or if a state remains at the end.
func (s *session) playCluster(dir string, inputs options) error {
	shared := &servers.Shared{Start: servers.PostgreSQL}
	defer shared.Close()
	server, err := shared.Open(s.ctx)
	if errors.Is(err, servers.ErrMissing) {
		s.title("Omitted: a service that takes longer than the time limit of a request")
		s.print("Its state requires PostgreSQL. Run as root: scripts/install postgresql\n")
		return nil
	}
	if err == nil {
		err = server.CreateDatabase(s.ctx, "states")
	}
	if err != nil {
		return err
	}
	show := &clusterSession{
		session: s, binary: inputs.binary, dir: dir, pak: inputs.cluster, database: server.DSN("states"),
	}
	show.instance, show.name = cluster(), "my-cluster"
	if err := show.configure(); err != nil {
		return err
	}
	if err := show.play(show.createCluster, show.applyErrand, show.bind, show.unbind, show.destroyErrand); err != nil {
		return err
	}
	return expectEmpty(s.ctx, server)
}

// configure prints an introduction of the service, and sets s.adapter to the adapter of the broker for this service.
func (s *clusterSession) configure() (err error) {
	config := fmt.Sprintf(`paks: [%s]
secure_manifests: true
budget: %s
state: {type: pg, config: {conn_str: %q}}
cache_dir: %s/cache
errand_properties:
  paks: [%[1]s]
  state: {type: pg, config: {conn_str: '${credhub("%[5]s")}'}}
`, s.pak, budget, databaseReference, s.dir, databasePath)
	s.title("A service that takes longer than the time limit of a request")
	s.print(fmt.Sprintf("The time limit of a request is %s, and the provision template of the pak spec/demo/cluster "+
		"takes 12s.\nTherefore the plan has the errands apply-instance and destroy-instance. "+
		"PostgreSQL stores the states.\n", budget))
	s.adapter, err = newAdapter(s.binary, s.dir, strings.Replace(config, databaseReference, s.database, 1))
	return err
}

// createCluster returns the step that creates the instance.
func (s *clusterSession) createCluster() step {
	return step{
		event: "cf create-service cluster standard my-cluster -c '{\"servers\": 2}'",
		request: "The request creates no resources, so the answer is fast. " +
			"The manifest contains the inputs of the errand.",
		command: "generate-manifest", parameters: s.instance.Generate(s.body(map[string]any{"servers": 2})),
		after: func(answer broker.Answer) error {
			product, err := generated(answer)
			if err != nil {
				return err
			}
			manifest := strings.ReplaceAll(product.Manifest, s.pak, "build/paks/cluster")
			s.print(indent(excerpt(manifest, "      - name: apply-instance", "          state:")))
			if err := s.instance.Deploy(answer.Stdout); err != nil {
				return err
			}
			return s.render()
		},
	}
}

// render writes the files that the job apply-instance renders on the errand's VM.
func (s *clusterSession) render() error {
	director := *s.instance
	director.Secrets = maps.Clone(s.instance.Secrets)
	director.Secrets[databaseReference] = s.database
	properties, found, err := director.JobProperties("apply-instance")
	if err != nil || !found {
		return errors.Join(err, errors.New("the manifest has no job apply-instance whose properties are known"))
	}
	dir := filepath.Join(s.dir, "errand")
	intent, err := json.Marshal(map[string]any{"intent": properties["intent"], "secrets": properties["secrets"]})
	if err != nil {
		return err
	}
	delete(properties, "intent")
	delete(properties, "secrets")
	properties["cache_dir"] = filepath.Join(dir, "cache")
	config, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	if s.errand, err = newAdapter(s.binary, dir, string(config)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "intent.json"), intent, 0o600)
}

// applyErrand returns the step in which BOSH runs the errand apply-instance.
func (s *clusterSession) applyErrand() step {
	return step{
		event:   "The broker runs the errand apply-instance after the deployment",
		request: "OpenTofu applies the provision template. The time limit of an errand is 2 hours.",
		command: "instance apply --intent intent.json", errand: &s.errand,
		after: func(answer broker.Answer) error {
			s.print(indent(answer.Stdout))
			if s.took < budget {
				return fmt.Errorf("the errand took %s, and must show that it may take longer than %s", s.took, budget)
			}
			return nil
		},
	}
}

// destroyErrand returns the step in which BOSH runs the errand destroy-instance.
func (s *clusterSession) destroyErrand() step {
	return step{
		event:   "cf delete-service my-cluster",
		request: "The broker runs the errand destroy-instance before BOSH deletes the deployment.",
		command: "instance destroy --force -- " + s.instance.ID, errand: &s.errand,
		after: func(answer broker.Answer) error {
			s.print(indent(answer.Stdout))
			return nil
		},
	}
}

// expectEmpty asserts that no state is left. It returns an error that lists the remaining states, or that of the query.
func expectEmpty(ctx context.Context, server *servers.Server) error {
	left, err := server.Query(ctx, "states", "SELECT name FROM terraform_remote_state.states")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("states are left: %v", left)
	}
	return err
}
