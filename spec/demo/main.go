// Command demo plays the on-demand broker against the adapter and the redis pak, and shows every step.
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
	"path/filepath"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
)

func main() {
	binary := flag.String("adapter", "build/bin/service-adapter", "the adapter binary")
	pak := flag.String("pak", "build/paks/redis", "the redis pak")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *binary, *pak); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run plays the session in a directory that it removes.
func run(ctx context.Context, out io.Writer, binary, pak string) (err error) {
	dir, err := os.MkdirTemp("", "service-adapter-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, binaryErr := filepath.Abs(binary)
	pak, pakErr := filepath.Abs(pak)
	if err := errors.Join(binaryErr, pakErr); err != nil {
		return err
	}
	config := fmt.Sprintf("paks: [%s]\nsecure_manifests: true\nstate: {config: {dir: %s/state}}\ncache_dir: %s/cache\n", pak, dir, dir)
	file := filepath.Join(dir, "service-adapter.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	show := &session{
		ctx: ctx, out: out, instance: redis(),
		adapter: broker.Adapter{Path: binary, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "SERVICE_ADAPTER_CONFIG=" + file}},
	}
	show.title("The adapter's configuration")
	show.print(config)
	return show.play()
}

const (
	serviceID = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	planID    = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
)

// redis is an instance as an operator's broker configuration describes it.
func redis() *odb.Instance {
	return &odb.Instance{
		ID: "3f1c9a52-demo", ServiceID: serviceID, PlanID: planID,
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
	step     int
}

// step is one command of the broker.
type step struct {
	title, command string
	parameters     map[string]any
	exit           int
	// after looks at the answer.
	after func(broker.Answer) error
}

func (s *session) play() error {
	for _, next := range []func() step{s.schemas, s.create, s.dashboard, s.check, s.update, s.bind, s.bindAgain, s.unbind, s.unbindAgain} {
		if err := s.run(next()); err != nil {
			return err
		}
	}
	s.title("Done: nothing is left but the instance")
	return nil
}

func (s *session) run(next step) error {
	s.step++
	s.title(fmt.Sprintf("%d. %s", s.step, next.title))
	answer, err := s.adapter.Call(s.ctx, next.command, next.parameters)
	if err != nil {
		return err
	}
	s.print("$ service-adapter " + next.command + " <<'JSON'\n" + abridged(answer.Input) + "JSON\n")
	if answer.Stderr != "" {
		s.print("stderr: " + strings.TrimSpace(answer.Stderr) + "\n")
	}
	s.print(fmt.Sprintf("exit code %d\n", answer.Exit))
	if answer.Exit != next.exit {
		return fmt.Errorf("%s: exit code %d instead of %d", next.title, answer.Exit, next.exit)
	}
	if next.after == nil {
		s.print(pretty(answer.Stdout))
		return nil
	}
	return next.after(answer)
}

func (s *session) schemas() step {
	return step{
		title: "cf marketplace: which parameters does the plan take?", command: "generate-plan-schemas",
		parameters: map[string]any{"plan": s.instance.Plan},
	}
}

func (s *session) body(parameters map[string]any) map[string]any {
	return map[string]any{
		"context":    map[string]any{"platform": "cloudfoundry", "instance_name": "my-redis"},
		"parameters": parameters, "service_id": serviceID, "plan_id": planID, "organization_guid": "org", "space_guid": "space",
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
		"parameters": map[string]any{}, "plan_id": planID, "service_id": serviceID,
	})
}

func (s *session) bind() step {
	return step{title: "cf bind-service my-app my-redis", command: "create-binding", parameters: s.bindParameters()}
}

func (s *session) bindAgain() step {
	return step{
		title: "The same binding again: it exists, exit code 49", command: "create-binding", parameters: s.bindParameters(), exit: 49,
	}
}

func (s *session) unbind() step {
	return step{title: "cf unbind-service my-app my-redis", command: "delete-binding", parameters: s.unbindParameters()}
}

func (s *session) unbindAgain() step {
	return step{
		title: "Again: there is no such binding, exit code 41", command: "delete-binding", parameters: s.unbindParameters(), exit: 41,
	}
}

func (s *session) unbindParameters() map[string]any {
	return s.instance.Bind("b7d2-demo", map[string]any{"plan_id": planID, "service_id": serviceID})
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
