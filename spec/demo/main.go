// Command demo sends the requests of the on-demand broker to the adapter. For each step, it prints the action of the
// user, the request, the answer of the adapter and the duration. The first part uses the pak of examples/redis. The
// second part uses a service whose provision template takes longer than the time limit of requests, so that errands
// apply and destroy it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
)

func main() {
	var inputs options
	flag.StringVar(&inputs.binary, "adapter", "build/bin/service-adapter", "the adapter binary")
	flag.StringVar(&inputs.redis, "redis", "build/paks/redis", "the redis pak")
	flag.StringVar(&inputs.cluster, "cluster", "build/paks/cluster", "the pak of a service with a slow template")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, inputs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options contains the paths of the adapter and the paks.
type options struct{ binary, redis, cluster string }

// absolute replaces the paths by absolute paths. It returns an error if the working directory cannot be determined.
func (o *options) absolute() error {
	var failed []error
	for _, path := range []*string{&o.binary, &o.redis, &o.cluster} {
		full, err := filepath.Abs(*path)
		*path, failed = full, append(failed, err)
	}
	return errors.Join(failed...)
}

// run runs all steps in a temporary directory, which it removes, and prints them to out. It returns an error if a
// command of the adapter has another result than expected, or if a file, the adapter or a server cannot be used.
func run(ctx context.Context, out io.Writer, inputs options) (err error) {
	if err := inputs.absolute(); err != nil {
		return err
	}
	lines, err := countLines(inputs.redis)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "service-adapter-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := fmt.Sprintf("paks: [%s]\nsecure_manifests: true\nstate: {config: {dir: %s/state}}\ncache_dir: %s/cache\n",
		inputs.redis, dir, dir)
	show := &session{ctx: ctx, out: out, instance: redis(), name: "my-redis"}
	if show.adapter, err = newAdapter(inputs.binary, dir, config); err != nil {
		return err
	}
	show.title("A service adapter for Redis")
	show.print(fmt.Sprintf("The pak examples/redis defines the whole service in %d lines of YAML and HCL. "+
		"This program sends the requests of the\non-demand broker to the adapter, and prints the answers and "+
		"their durations. The operator's configuration:\n", lines))
	show.print(indent(strings.NewReplacer(inputs.redis, "build/paks/redis", dir, "DIR").Replace(config)))
	if err := show.playRedis(); err != nil {
		return err
	}
	if err := show.playCluster(filepath.Join(dir, "cluster"), inputs); err != nil {
		return err
	}
	show.title("Done: only the Redis instance remains")
	show.print(fmt.Sprintf("%d requests of the broker took %s in total. The longest request took %s.\n", show.requests,
		rounded(show.total), rounded(show.longest)))
	return nil
}

// newAdapter returns an adapter that runs in a directory. It creates the directory and the file with the configuration.
func newAdapter(binary, dir, config string) (broker.Adapter, error) {
	file := filepath.Join(dir, "service-adapter.yml")
	err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(config), 0o600))
	return broker.Adapter{
		Path: binary, Dir: dir,
		Env: []string{"PATH=/usr/bin:/bin", "SERVICE_ADAPTER_CONFIG=" + file},
	}, err
}

// redis returns an instance of the pak redis that has not been created. Its plan has the form of a plan in the
// operator's configuration of the broker.
func redis() *odb.Instance {
	return &odb.Instance{
		ID: "3f1c9a52-demo", ServiceID: "6b0f2d4e-93c1-4a57-8e2d-1f5a7c9b3e01",
		PlanID: "6b0f2d4e-93c1-4a57-8e2d-1f5a7c9b3e11",
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_3f1c9a52-demo",
			Releases: serviceadapter.ServiceReleases{
				{Name: "redis-forge", Version: "1.4.2", Jobs: []string{"standalone-7"}},
			},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.785"}},
		},
		Plan: map[string]any{
			"properties": map[string]any{}, "lifecycle_errands": map[string]any{},
			"instance_groups": []any{map[string]any{
				"name": "redis", "vm_type": "small", "instances": 1, "networks": []string{"default"},
				"azs": []string{"z1"},
			}},
		},
		VMs: map[string][]string{"redis": {"10.0.8.5"}},
	}
}

// session runs the steps of the demo with one service instance at a time.
type session struct {
	ctx      context.Context //nolint:containedctx // one process is one session
	out      io.Writer
	adapter  broker.Adapter
	instance *odb.Instance
	// name is the name that the user chose for the instance.
	name string
	// step is the number of the current step.
	step int
	// took is the duration of the last command.
	took time.Duration
	// requests is the number of the broker's requests so far, total is their duration, and longest is the maximum.
	requests       int
	total, longest time.Duration
}

// step is one command of the adapter: a request of the broker, or the command of an errand.
type step struct {
	// event is the title of the step, such as the command of the user. request describes the request of the broker.
	event, request string
	command        string
	// parameters are the broker's parameters of the command.
	parameters map[string]any
	// errand is the adapter on the VM of an errand. It is nil for a request of the broker.
	errand *broker.Adapter
	// exit is the expected exit code.
	exit int
	// after prints the answer and performs the next actions of the broker, such as a deployment. If after is nil, the
	// answer is not printed.
	after func(broker.Answer) error
}

// playRedis runs the steps of an instance of the pak redis and its binding.
func (s *session) playRedis() error {
	return s.play(s.schemas, s.create, s.check, s.update, s.bind, s.bindAgain, s.unbind, s.unbindAgain)
}

// play runs steps until one of them fails, and returns the error of that step. It creates each step after the previous
// step has run.
func (s *session) play(steps ...func() step) error {
	for _, next := range steps {
		if err := s.run(next()); err != nil {
			return err
		}
	}
	return nil
}

// run prints and runs a step. It returns an error if the adapter cannot be started, if the exit code differs from the
// expected one, or if step.after fails.
func (s *session) run(next step) error {
	s.step++
	s.title(fmt.Sprintf("%d. %s", s.step, next.event))
	s.print(next.request + "\n")
	answer, err := s.call(next)
	if err != nil {
		return err
	}
	s.print(fmt.Sprintf("$ service-adapter %s   # %s, exit code %d\n", next.command, rounded(s.took), answer.Exit))
	if answer.Exit != next.exit {
		return fmt.Errorf("%s: exit code %d instead of %d: %s", next.event, answer.Exit, next.exit, answer.Stderr)
	}
	if next.after == nil {
		return nil
	}
	return next.after(answer)
}

// call runs the command of a step and measures its duration.
func (s *session) call(next step) (broker.Answer, error) {
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	if next.errand != nil {
		return next.errand.Run(s.ctx, "", strings.Fields(next.command)...)
	}
	defer func() {
		took := time.Since(began)
		s.requests, s.total, s.longest = s.requests+1, s.total+took, max(s.longest, took)
	}()
	return s.adapter.Call(s.ctx, next.command, next.parameters)
}

// body returns the body of a request with parameters of the user.
func (s *session) body(parameters map[string]any) map[string]any {
	return map[string]any{
		"context":    map[string]any{"platform": "cloudfoundry", "instance_name": s.name},
		"parameters": parameters, "service_id": s.instance.ServiceID, "plan_id": s.instance.PlanID,
		"organization_guid": "org", "space_guid": "space",
	}
}

// title prints the title of a step.
func (s *session) title(text string) { s.print("\n== " + text + "\n") }

// print writes a text to the output of the demo.
func (s *session) print(text string) {
	_, _ = io.WriteString(s.out, text) // the standard output is the only stream that the user reads
}

// generated returns the product of generate-manifest.
func generated(answer broker.Answer) (serviceadapter.MarshalledGenerateManifest, error) {
	var product serviceadapter.MarshalledGenerateManifest
	err := json.Unmarshal([]byte(answer.Stdout), &product)
	return product, err
}
