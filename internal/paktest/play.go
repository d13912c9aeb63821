package paktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// Result is the outcome of one case.
type Result struct {
	Case Case
	// Outcomes are what the steps gave, as far as they were played: sections as in an expectation.
	Outcomes []map[string]any
	Err      error
	Took     time.Duration
}

// Suite plays the cases of a pak.
type Suite struct {
	Pak    *brokerpak.Pak
	Getenv func(name string) (string, bool)
	// Parallel is how many cases are played at once; at least 1.
	Parallel int
	// Done is called for each case when it has ended, in any order but never twice at once.
	Done func(Result)
	// Created, unless it is nil, is called with each instance that a case created, and with the environment of the adapter, and nothing
	// more is played.
	Created func(testCase Case, instance *odb.Instance, getenv func(name string) (string, bool))
}

// Play plays the cases in a directory that it removes, and returns the results in the order of the cases.
func (s Suite) Play(ctx context.Context, cases []Case) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "pak-test-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the test: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	results = make([]Result, len(cases))
	var group errgroup.Group
	group.SetLimit(max(s.Parallel, 1))
	var mutex sync.Mutex
	for i, testCase := range cases {
		group.Go(func() error {
			began := time.Now()
			// Each case has directories of its own: runs of one workspace name would wait for each other.
			outcomes, err := s.playOne(ctx, testCase, filepath.Join(dir, strconv.Itoa(i)))
			mutex.Lock()
			defer mutex.Unlock()
			results[i] = Result{Case: testCase, Outcomes: outcomes, Err: err, Took: time.Since(began)}
			s.Done(results[i])
			return nil
		})
	}
	_ = group.Wait() // failures are results
	return results, nil
}

// run is one case being played.
type run struct {
	Suite
	ctx      context.Context //nolint:containedctx // one run is one call of playOne
	dir      string          // for the state, the cache and the server
	testCase Case
	service  *brokerpak.Service
	instance *odb.Instance
	server   *server
	masks    masks

	step     Step           // with what the server has
	config   map[string]any // what the step says of the adapter's
	before   *odb.Instance  // the instance with the plan that is deployed
	plan     *brokerpak.Plan
	bindings []string       // ids that may exist
	binding  []byte         // the answer to the last bind
	outputs  any            // of the last deployment
	outcome  map[string]any // what the step gives
}

// playOne plays a case and returns what its steps gave, by section. An error is a failure of the case, and begins with the cause; what
// the case created is removed even then.
func (s Suite) playOne(ctx context.Context, testCase Case, dir string) ([]map[string]any, error) {
	r := &run{
		Suite: s, ctx: ctx, dir: dir, testCase: testCase, service: s.Pak.Service(testCase.Service), masks: masks{},
		instance: &odb.Instance{ID: "pak-test"},
	}
	r.instance.ServiceID = r.service.ID
	outcomes, err := r.play()
	// What a cancelled test made must go as well; the budget of the command ends it.
	r.ctx = context.WithoutCancel(ctx)
	return outcomes, errors.Join(err, r.clean())
}

// play goes through the steps. A refused request ends them, unless its step expects that.
func (r *run) play() (outcomes []map[string]any, err error) {
	first := r.testCase.Steps[0]
	tests, err := filepath.Abs(filepath.Dir(r.testCase.File))
	if err != nil {
		return nil, err
	}
	if r.server, err = r.startServer(r.testCase.Server, filepath.Join(r.dir, "server"), tests); err != nil {
		return nil, err
	}
	if r.testCase.PreviousManifest != "" {
		if err := r.adopt(filepath.Join(tests, r.testCase.PreviousManifest), first.Plan); err != nil {
			return nil, err
		}
	}
	var failed []error
	for _, step := range r.testCase.Steps {
		if err := r.ctx.Err(); err != nil {
			return outcomes, fmt.Errorf("the test was interrupted: %w", err)
		}
		r.outcome = map[string]any{}
		err := r.arrange(step)
		if err == nil {
			err = actions()[step.Do](r)
		}
		outcomes = append(outcomes, r.outcome)
		if r.Created != nil {
			if err == nil {
				r.Created(r.testCase, r.instance, r.getenv)
			}
			return outcomes, err
		}
		refused := errors.As(err, new(*refusal))
		switch {
		case refused && !step.Expect.Fails() && r.testCase.Expect.Fails():
			return outcomes, errors.Join(append(failed, compare(r.testCase.Expect.sections, together(outcomes)))...)
		case err != nil && (!refused || !step.Expect.Fails()):
			return outcomes, errors.Join(append(failed, step.failed(err))...)
		}
		if err := compare(step.Expect.sections, r.outcome); err != nil {
			failed = append(failed, step.failed(err))
		}
	}
	return outcomes, errors.Join(append(failed, compare(r.testCase.Expect.sections, together(outcomes)))...)
}

// together is what several steps gave. A refused request counts if it is the last.
func together(outcomes []map[string]any) map[string]any {
	all := value.Merge(outcomes...)
	for _, section := range failing() {
		if len(outcomes) > 0 && outcomes[len(outcomes)-1][section] == nil {
			delete(all, section)
		}
	}
	return all
}

// Fails tells whether an expectation is that of a refused request.
func (e Expectation) Fails() bool {
	return slices.ContainsFunc(failing(), func(section string) bool { return e.sections[section] != nil })
}

// failed is the failure of a step. Its text begins with the cause.
func (s Step) failed(err error) error {
	if s.line > 0 {
		return fmt.Errorf("%w\nin the step %s in line %d", err, s.Do, s.line)
	}
	return fmt.Errorf("%w\nin the step %s", err, s.Do)
}

// adopt makes the manifest of a file the deployed one.
func (r *run) adopt(file, plan string) error {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the pak
	if err != nil {
		return fmt.Errorf("reading previous_manifest: %w", err)
	}
	r.instance.Adopt(string(text))
	manifest, err := odb.Compared(r.instance.Manifest)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	r.instance.ID, r.plan = instance.ID(manifest.Name), r.planOf(plan)
	return nil
}

// planOf is the plan of a name or an id, the first one for "", nil where the service has none.
func (r *run) planOf(name string) *brokerpak.Plan {
	if name == "" && len(r.service.Plans) > 0 {
		return &r.service.Plans[0]
	}
	return r.service.Plan(name)
}

// arrange makes the surroundings those of a step.
func (r *run) arrange(step Step) error {
	node, err := r.server.resolve(step.node, r.masks)
	if err != nil {
		return err
	}
	r.step, r.config = Step{}, nil
	_, config := yamltree.Get(node, "config")
	if err := node.Decode(&r.step); err != nil {
		return err
	}
	if config != nil {
		if err := config.Decode(&r.config); err != nil {
			return err
		}
	}
	around, before := r.step.Surroundings, *r.instance
	r.instance.Configure(r.service, r.planOf(around.Plan), around)
	before.Configure(r.service, r.plan, around)
	r.before = &before
	r.instance.DNS = around.DNS
	r.setVariables()
	if err := r.instance.SampleVMs(around.VMs); err != nil {
		return err
	}
	return os.WriteFile(r.configFile(), value.MustJSON(r.configuration()), 0o600)
}

// setVariables gives what the deployed manifest refers to the values of the case.
func (r *run) setVariables() {
	if r.instance.Secrets == nil {
		r.instance.Secrets = map[string]string{}
	}
	for name, text := range r.step.Variables {
		r.instance.Secrets["(("+name+"))"] = text
		// A secret of the broker's; a number is behind its name when it was rotated.
		secret := regexp.MustCompile(`^\(\(/odb/.*/` + regexp.QuoteMeta(name) + `(-\d+)?\)\)$`)
		for reference := range r.instance.Secrets {
			if secret.MatchString(reference) {
				r.instance.Secrets[reference] = text
				r.masks.add(text, "secret "+name)
			}
		}
	}
}

// configFile is the file of the adapter's configuration.
func (r *run) configFile() string { return filepath.Join(r.dir, "service-adapter.yml") }

func (r *run) configuration() map[string]any {
	config := map[string]any{"secure_manifests": true, "log_level": "warn"}
	if r.step.Errands { // the errands of a test find the state here, whatever their properties say
		config["errand_properties"] = map[string]any{"state": map[string]any{"type": "pg"}}
	}
	maps.Copy(config, r.config)
	maps.Copy(config, map[string]any{
		"paks": []any{r.Pak.Path}, "cache_dir": filepath.Join(r.dir, "cache"),
		"state": map[string]any{"config": map[string]any{"dir": filepath.Join(r.dir, "state")}},
	})
	return config
}

// getenv is the environment of the adapter, with the configuration of the case instead of the author's.
func (r *run) getenv(name string) (string, bool) {
	switch {
	case name == adapter.ConfigVariable:
		return r.configFile(), true
	case strings.HasPrefix(name, "SERVICE_ADAPTER_"):
		return "", false
	default:
		return r.Getenv(name)
	}
}

// clean removes what the case made.
func (r *run) clean() error {
	if r.server == nil {
		return nil
	}
	defer r.server.stop()
	var failed []error
	for _, id := range r.bindings {
		r.step.ID = id
		if err := r.unbind(); err != nil && !isExit(err, notFound) {
			failed = append(failed, fmt.Errorf("%w\nin the unbind after the case", err))
		}
	}
	if err := r.destroyInstance(); err != nil {
		failed = append(failed, fmt.Errorf("%w\nin the destruction after the case", err))
	}
	return errors.Join(failed...)
}

// notImplemented and notFound are exit codes of the protocol.
const notImplemented, notFound = 10, 41

// checkOutputs compares what an action gave with the types of its declared outputs.
func checkOutputs(action string, declared []brokerpak.Variable, given map[string]any) error {
	noCredentials := []string{"syslog_drain_url", "route_service_url", "backup_agent_url"}
	var failed []error
	for _, output := range declared {
		item, ok := given[output.Name]
		switch {
		case slices.Contains(noCredentials, output.Name):
		case !ok && output.Required:
			failed = append(failed, fmt.Errorf("%s: the required output %q is missing", action, output.Name))
		case ok && !hasType(item, output.Type):
			failed = append(failed, fmt.Errorf("%s: the output %q must be of type %s, found %s", action, output.Name, output.Type, value.Kind(item)))
		}
	}
	return errors.Join(failed...)
}

// hasType tells whether a value has a type of the format; "" is any.
func hasType(item any, typ string) bool {
	kind := value.Kind(item)
	return typ == "" || strings.HasSuffix(kind, " "+typ) || typ == "number" && kind == "an integer"
}

// refusal is a command that ended with a code other than 0.
type refusal struct {
	command, reason, user string
	code                  int
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("%s\n%s ended with exit code %d", r.reason, r.command, r.code)
	if r.user != "" {
		text += "; the user reads: " + r.user
	}
	return text
}

// isExit tells whether an error is a command that ended with this code.
func isExit(err error, code int) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.code == code
}

// call runs a command of the adapter in this process. The product is what it prints, decoded: nil where it prints nothing.
func (r *run) call(command string, parameters map[string]any) (printed string, product map[string]any, err error) {
	input, err := odb.Input(command, parameters)
	if err != nil {
		return "", nil, err
	}
	var stdout, stderr bytes.Buffer
	refused := &refusal{command: command}
	refused.code = adapter.Run(r.ctx, adapter.Invocation{
		Args: []string{"service-adapter", command}, Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr,
		Getenv: r.getenv, Failed: func(reason string) { refused.reason = strings.TrimSpace(reason) },
	})
	if refused.code == 0 {
		if stdout.Len() > 0 {
			product, err = value.DecodeObject(stdout.Bytes())
		}
		return stdout.String(), product, err
	}
	refused.user = stdout.String()
	if refused.user != "" {
		r.outcome["error"] = refused.user
	}
	r.outcome["exit"], r.outcome["operator_error"] = int64(refused.code), refused.reason
	return "", nil, refused
}
