// Command demo plays the on-demand broker against the adapter, and shows every step: first with the redis pak, then with a service whose
// provision template takes longer than a request may, so that errands apply and destroy it.
package main

import (
	"bytes"
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
	var given options
	flag.StringVar(&given.binary, "adapter", "build/bin/service-adapter", "the adapter binary")
	flag.StringVar(&given.redis, "redis", "build/paks/redis", "the redis pak")
	flag.StringVar(&given.cluster, "cluster", "build/paks/cluster", "the pak of a service that takes its time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, given)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options are the paths of what is shown.
type options struct{ binary, redis, cluster string }

// absolute makes them independent of the working directory.
func (o *options) absolute() error {
	var failed []error
	for _, path := range []*string{&o.binary, &o.redis, &o.cluster} {
		full, err := filepath.Abs(*path)
		*path, failed = full, append(failed, err)
	}
	return errors.Join(failed...)
}

// run plays the session in a directory that it removes.
func run(ctx context.Context, out io.Writer, given options) (err error) {
	if err := given.absolute(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "service-adapter-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := fmt.Sprintf("paks: [%s]\nsecure_manifests: true\nstate: {config: {dir: %s/state}}\ncache_dir: %s/cache\n", given.redis, dir, dir)
	show := &session{ctx: ctx, out: out, instance: redis(), name: "my-redis"}
	if show.adapter, err = newAdapter(given.binary, dir, config); err != nil {
		return err
	}
	show.title("The adapter's configuration")
	show.print(config)
	if err := show.playRedis(); err != nil {
		return err
	}
	if err := show.playCluster(filepath.Join(dir, "cluster"), given); err != nil {
		return err
	}
	show.title("Done: nothing is left but the redis instance")
	return nil
}

// newAdapter is an adapter with its configuration in a directory.
func newAdapter(binary, dir, config string) (broker.Adapter, error) {
	file := filepath.Join(dir, "service-adapter.yml")
	err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(config), 0o600))
	return broker.Adapter{Path: binary, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "SERVICE_ADAPTER_CONFIG=" + file}}, err
}

// redis is an instance as an operator's broker configuration describes it.
func redis() *odb.Instance {
	return &odb.Instance{
		ID: "3f1c9a52-demo", ServiceID: "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01", PlanID: "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11",
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_3f1c9a52-demo",
			Releases: serviceadapter.ServiceReleases{
				{Name: "redis", Version: "18.7.1", Jobs: []string{"redis-server", "health-check"}},
			},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-jammy", Version: "1.785"}},
		},
		Plan: map[string]any{
			"properties": map[string]any{}, "lifecycle_errands": map[string]any{},
			"instance_groups": []any{map[string]any{
				"name": "redis-server", "vm_type": "small", "instances": 1, "networks": []string{"default"}, "azs": []string{"z1"},
			}},
		},
		VMs: map[string][]string{"redis-server": {"10.0.8.5"}},
	}
}

// session plays the steps.
type session struct {
	ctx      context.Context //nolint:containedctx // one process is one session
	out      io.Writer
	adapter  broker.Adapter
	instance *odb.Instance
	name     string // of the instance, as the cf user gave it
	step     int
	took     time.Duration // by the last command
}

// step is one command: of the broker, which sends parameters, or of an errand, which has an adapter of its own.
type step struct {
	title, command string
	parameters     map[string]any
	errand         *broker.Adapter
	exit           int
	// after looks at the answer.
	after func(broker.Answer) error
}

func (s *session) playRedis() error {
	return s.play(s.schemas, s.create, s.dashboard, s.check, s.update, s.bind, s.bindAgain, s.unbind, s.unbindAgain)
}

// play runs steps, each of which may depend on those before.
func (s *session) play(steps ...func() step) error {
	for _, next := range steps {
		if err := s.run(next()); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) run(next step) error {
	s.step++
	s.title(fmt.Sprintf("%d. %s", s.step, next.title))
	answer, err := s.call(next)
	if err != nil {
		return err
	}
	s.print("$ service-adapter " + next.command)
	if next.errand == nil {
		s.print(" <<'JSON'\n" + abridged(answer.Input) + "JSON")
	}
	s.print("\n")
	if answer.Stderr != "" {
		s.print("stderr: " + strings.TrimSpace(answer.Stderr) + "\n")
	}
	s.print(fmt.Sprintf("exit code %d after %s\n", answer.Exit, s.took.Round(10*time.Millisecond)))
	if answer.Exit != next.exit {
		return fmt.Errorf("%s: exit code %d instead of %d", next.title, answer.Exit, next.exit)
	}
	if next.after == nil {
		s.print(pretty(answer.Stdout))
		return nil
	}
	return next.after(answer)
}

// call runs the command of a step.
func (s *session) call(next step) (broker.Answer, error) {
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	if next.errand != nil {
		return next.errand.Run(s.ctx, "", strings.Fields(next.command)...)
	}
	return s.adapter.Call(s.ctx, next.command, next.parameters)
}

func (s *session) schemas() step {
	return step{
		title: "cf marketplace: which parameters does the plan take?", command: "generate-plan-schemas",
		parameters: map[string]any{"plan": s.instance.Plan},
	}
}

func (s *session) body(parameters map[string]any) map[string]any {
	return map[string]any{
		"context":    map[string]any{"platform": "cloudfoundry", "instance_name": s.name},
		"parameters": parameters, "service_id": s.instance.ServiceID, "plan_id": s.instance.PlanID, "organization_guid": "org", "space_guid": "space",
	}
}

func (s *session) create() step {
	return step{
		title: "cf create-service redis small my-redis -c '{\"maxclients\": 500}'", command: "generate-manifest",
		parameters: s.instance.Generate(s.body(map[string]any{"maxclients": 500})), after: s.deploy,
	}
}

// deploy shows the manifest and stores it as the broker and BOSH do.
func (s *session) deploy(answer broker.Answer) error {
	var product serviceadapter.MarshalledGenerateManifest
	if err := json.Unmarshal([]byte(answer.Stdout), &product); err != nil {
		return err
	}
	s.print("The manifest that the broker deploys:\n" + indent(product.Manifest))
	if len(product.ODBManagedSecrets) > 0 {
		s.print("The broker stores in CredHub: " + pretty(string(must(json.Marshal(product.ODBManagedSecrets)))))
	}
	return s.instance.Deploy(answer.Stdout)
}

// deployUpdate sees that the update changed the parameter and nothing of the secret.
func (s *session) deployUpdate(answer broker.Answer) error {
	secrets := len(s.instance.Secrets)
	if err := s.deploy(answer); err != nil {
		return err
	}
	if !strings.Contains(s.instance.Manifest, "maxclients: 2000") || len(s.instance.Secrets) != secrets {
		return errors.New("the update must change maxclients and keep the secret")
	}
	return nil
}

func (s *session) dashboard() step {
	return step{
		title: "The dashboard of the new instance", command: "dashboard-url",
		parameters: map[string]any{"instance_id": s.instance.ID, "plan": s.instance.Plan, "manifest": s.instance.Manifest},
	}
}

func (s *session) check() step {
	return step{
		title:   "Before any update the broker generates the manifest again, without parameters, and refuses the update if it differs",
		command: "generate-manifest", parameters: s.instance.Generate(map[string]any{}),
		after: func(answer broker.Answer) error {
			var product serviceadapter.MarshalledGenerateManifest
			if err := json.Unmarshal([]byte(answer.Stdout), &product); err != nil {
				return err
			}
			same, err := odb.SameManifests(s.instance.Manifest, product.Manifest)
			if err == nil && !same {
				err = errors.New("the manifests differ")
			}
			s.print("The generated manifest equals the deployed one: no pending changes.\n")
			return err
		},
	}
}

func (s *session) update() step {
	return step{
		title: "cf update-service my-redis -c '{\"maxclients\": 2000}'", command: "generate-manifest",
		parameters: s.instance.Generate(s.body(map[string]any{"maxclients": 2000})), after: s.deployUpdate,
	}
}

func (s *session) bindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo", map[string]any{
		"app_guid": "app", "bind_resource": map[string]any{"app_guid": "app"}, "context": map[string]any{"platform": "cloudfoundry"},
		"parameters": map[string]any{}, "plan_id": s.instance.PlanID, "service_id": s.instance.ServiceID,
	})
}

func (s *session) bind() step {
	return step{title: "cf bind-service my-app " + s.name, command: "create-binding", parameters: s.bindParameters()}
}

func (s *session) bindAgain() step {
	return step{
		title: "The same binding again: it exists, exit code 49", command: "create-binding", parameters: s.bindParameters(), exit: 49,
	}
}

func (s *session) unbind() step {
	return step{title: "cf unbind-service my-app " + s.name, command: "delete-binding", parameters: s.unbindParameters()}
}

func (s *session) unbindAgain() step {
	return step{
		title: "Again: there is no such binding, exit code 41", command: "delete-binding", parameters: s.unbindParameters(), exit: 41,
	}
}

func (s *session) unbindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo", map[string]any{"plan_id": s.instance.PlanID, "service_id": s.instance.ServiceID})
}

func (s *session) title(text string) { s.print("\n== " + text + "\n") }

func (s *session) print(text string) {
	_, _ = io.WriteString(s.out, text) // a demo has nobody else to tell
}

// abridged shows the broker's JSON with empty objects left out and long texts cut.
func abridged(input string) string {
	var commands map[string]map[string]string
	if json.Unmarshal([]byte(input), &commands) != nil {
		return input
	}
	const longest = 160
	for command, parameters := range commands {
		if len(parameters) == 0 {
			delete(commands, command)
		}
		for name, text := range parameters {
			if len(text) > longest {
				parameters[name] = text[:longest] + "…"
			}
		}
	}
	return pretty(string(must(json.Marshal(commands))))
}

func pretty(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(strings.TrimSpace(text)), "", "  ") != nil || out.Len() == 0 {
		return text
	}
	return out.String() + "\n"
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

// must is for values that always encode.
func must(encoded []byte, _ error) []byte { return encoded }
