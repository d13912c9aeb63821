package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"service-adapter/brokerpak"
	"service-adapter/internal/instance"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// A Result is the result of one case.
type Result struct {
	Case Case
	// Outcomes are the outcomes of the steps that were played, keyed by section as in an Expectation.
	Outcomes []map[string]any
	// Warning names the programs that the service requires and that its templates do not find. It is nil if there are
	// none, and may be the reason for Err.
	Warning error
	// Err is nil if the case passed, or is unplayable.
	Err  error
	Took time.Duration
}

// A Suite plays the cases of a pak. Pak, Getenv and Done must be set.
type Suite struct {
	Pak *brokerpak.Pak
	// Source is the path that errors contain in place of Pak.Path, if the pak is a temporary copy of this directory
	// with the same files. "" means that errors contain Pak.Path.
	Source string
	// Getenv looks up environment variables for the adapter and the servers of cases.
	Getenv func(name string) (string, bool)
	// Parallel is the maximum number of cases that are played at the same time. Values below 1 mean 1.
	Parallel int
	// Done is called after each case with its result. The calls are in no particular order, but never concurrent.
	Done func(Result)
	// Created, if it is not nil, makes Play stop each case after its first step. If that step succeeded, Created is
	// called with the instance and the environment of the adapter, before the instance is removed. With more than one
	// case at a time, calls may be concurrent.
	Created func(testCase Case, instance *odb.Instance, getenv func(name string) (string, bool))
}

// Play plays the cases in a temporary directory, and returns the results in the order of the cases. A failure of a
// case is part of its result. An unplayable case is not played; its result has neither outcomes nor an error. The
// error is not nil if the directory cannot be created or removed. When ctx ends, the cases fail and the resources that
// they created are destroyed.
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
			// Each case has its own directories, because cases use the same workspace names, whose locks exclude each
			// other.
			result := Result{Case: testCase}
			if testCase.Unplayable == "" {
				s.playOne(ctx, &result, filepath.Join(dir, strconv.Itoa(i)))
			}
			mutex.Lock()
			defer mutex.Unlock()
			result.Took = time.Since(began)
			results[i] = result
			s.Done(results[i])
			return nil
		})
	}
	_ = group.Wait() // it is always nil: failures are part of the results
	return results, nil
}

// A run plays one case.
type run struct {
	Suite
	deployed
	currentStep

	ctx      context.Context //nolint:containedctx // one run is one call of playOne
	dir      string          // contains the configuration file and the directories of state, cache and server
	testCase Case
	service  *brokerpak.Service
	server   *server // nil until play has started it
	masks    masks
	// missingCommands names the programs that the service requires and that are not found; see checkCommands.
	missingCommands error
}

// deployed contains the instance and the bindings that the steps of a case have created so far.
type deployed struct {
	instance *odb.Instance
	plan     *brokerpak.Plan // the deployed plan; nil before the first deployment and for a service without plans
	outputs  any             // the outputs after the last deployment
	bindings []string        // the ids of bindings that may exist
	failed   []string        // the ids of bindings whose creation failed, as the case expects
	binding  []byte          // the JSON response to the last bind; nil before it
}

// currentStep contains the values that belong to one step. They are replaced when the next step begins.
type currentStep struct {
	step    Step           // with the placeholders for values of the server replaced
	config  map[string]any // the key "config" of the step
	before  *odb.Instance  // the instance before the step, with the deployed plan
	outcome map[string]any // the outcome of the step, by section
}

// playOne plays result.Case and sets the outcomes of the steps that were played, the warning and the error of the
// result. dir is a directory of the case's own, which need not exist and is not removed. All resources that the case
// created are removed, even if it failed or ctx ended; the error also contains the reasons why a resource may remain.
func (s Suite) playOne(ctx context.Context, result *Result, dir string) {
	testCase := result.Case
	r := &run{
		Suite: s, ctx: ctx, dir: dir, testCase: testCase, service: s.Pak.Service(testCase.Service), masks: masks{},
		deployed: deployed{instance: &odb.Instance{ID: "pak-test"}},
	}
	r.instance.ServiceID = r.service.ID
	outcomes, err := r.play()
	// The resources of a cancelled test must be removed as well. The adapter's own time budget ends commands that hang.
	r.ctx = context.WithoutCancel(ctx)
	result.Outcomes, result.Warning = outcomes, r.missingCommands
	if err = errors.Join(err, r.cleanUp()); err != nil {
		result.Err = sourceError{err, r.inSource}
	}
}

// inSource returns a text in which the path of the pak is replaced by that of its source.
func (s Suite) inSource(text string) string {
	if s.Source == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Pak.Path+string(filepath.Separator), s.Source+string(filepath.Separator))
}

// A sourceError is an error whose text names the files of the pak's source.
type sourceError struct {
	error
	inSource func(text string) string
}

func (e sourceError) Error() string { return e.inSource(e.error.Error()) }
func (e sourceError) Unwrap() error { return e.error }

// play starts the server, performs the steps in their order and returns the outcomes of those that it performed. It
// continues after a step with an unexpected outcome, so that the error lists the differences of all steps. It ends
// after the first step that fails, unless the step expects this, and after the first step if Suite.Created is set. If
// only the case expects a rejection, the case ends with that step, and the outcome until then is compared. The error
// also says if the server did not start, if the previous manifest cannot be read or decoded, or if r.ctx ended. play
// sets r.server, which remains nil if it did not start, and r.missingCommands. The case must have a step.
func (r *run) play() (outcomes []map[string]any, err error) {
	first := r.testCase.Steps[0]
	testsDir, err := filepath.Abs(r.testCase.Dir)
	if err != nil {
		return nil, err
	}
	if r.server, err = r.startServer(r.testCase.Server, filepath.Join(r.dir, "server"), testsDir); err != nil {
		return nil, err
	}
	if r.testCase.PreviousManifest != "" {
		file := filepath.Join(testsDir, r.testCase.PreviousManifest)
		text, err := os.ReadFile(file) //nolint:gosec // a file of the pak
		if err != nil {
			return nil, fmt.Errorf("reading previous_manifest: %w", err)
		}
		if err := r.adopt(file, string(text), first.Plan); err != nil {
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
		if err == nil && len(outcomes) == 0 {
			r.missingCommands = r.checkCommands()
		}
		if err == nil {
			err = actions()[step.Do](r)
		}
		outcomes = append(outcomes, r.outcome)
		if r.Created != nil {
			if err == nil {
				r.Created(r.testCase, r.instance, r.generatingEnv)
			}
			return outcomes, err
		}
		rejected := errors.As(err, new(*rejection))
		switch {
		case rejected && !step.Expect.Fails() && r.testCase.Expect.Fails():
			return outcomes, errors.Join(append(failed,
				compare(r.testCase.Expect.sections, mergeOutcomes(outcomes)))...)
		case err != nil && (!rejected || !step.Expect.Fails()):
			return outcomes, errors.Join(append(failed, step.wrap(err))...)
		}
		if err := compare(step.Expect.sections, r.outcome); err != nil {
			failed = append(failed, step.wrap(err))
		}
	}
	return outcomes, errors.Join(append(failed, compare(r.testCase.Expect.sections, mergeOutcomes(outcomes)))...)
}

// mergeOutcomes returns the outcome of a case: the sections of all its steps, where later steps win. The sections of a
// rejected request are contained only if it was the last step.
func mergeOutcomes(outcomes []map[string]any) map[string]any {
	all := value.Merge(outcomes...)
	for _, section := range failureSections() {
		if len(outcomes) > 0 && outcomes[len(outcomes)-1][section] == nil {
			delete(all, section)
		}
	}
	return all
}

// Fails reports whether a rejected request is expected.
func (e Expectation) Fails() bool {
	return slices.ContainsFunc(failureSections(), func(section string) bool { return e.sections[section] != nil })
}

// wrap returns an error that wraps err, which must not be nil, and whose text ends with the action of the step and, if
// it is known, its line.
func (s Step) wrap(err error) error {
	if s.line > 0 {
		return fmt.Errorf("%w\nin the step %s in line %d", err, s.Do, s.line)
	}
	return fmt.Errorf("%w\nin the step %s", err, s.Do)
}

// adopt makes a manifest the deployed one and sets r.plan. The instance gets the id in the name of the deployment. name
// names the manifest in the error, and plan is the name or the id of the deployed plan; see planOf. adopt returns an
// error if the text is not a BOSH manifest.
func (r *run) adopt(name, text, plan string) error {
	r.instance.Adopt(text)
	manifest, err := odb.Compared(r.instance.Manifest)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	r.instance.ID, r.plan = instance.ID(manifest.Name), r.planOf(plan)
	return nil
}

// planOf returns the plan with a name or an id, or the first plan for "". It returns nil if the service has no such
// plan.
func (r *run) planOf(name string) *brokerpak.Plan {
	if name == "" && len(r.service.Plans) > 0 {
		return &r.service.Plans[0]
	}
	return r.service.Plan(name)
}

// arrange prepares the run for a step: it sets the step and its configuration, with the placeholders for values of the
// server replaced, configures the instance, and writes the configuration file of the adapter. It returns an error if a
// placeholder refers to a port or a file that does not exist, if a replaced value has the wrong type, if the deployed
// manifest cannot be decoded, or if the file cannot be written.
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
	environment, before := r.step.Environment, *r.instance
	r.instance.Configure(r.service, r.planOf(environment.Plan), environment)
	before.Configure(r.service, r.plan, environment)
	r.before = &before
	r.instance.DNS = environment.DNS
	r.setVariables()
	if err := r.instance.SampleVMs(environment.VMs); err != nil {
		return err
	}
	return os.WriteFile(r.configFile(), value.MustJSON(r.configuration()), 0o600)
}

// setVariables sets the values of BOSH variables and secrets, to which the deployed manifest refers, to those that the
// step declares. The secrets are those that the broker stores below /odb/; their values are masked in outcomes.
func (r *run) setVariables() {
	if r.instance.Secrets == nil {
		r.instance.Secrets = map[string]string{}
	}
	for name, text := range r.step.Variables {
		r.instance.Secrets["(("+name+"))"] = text
		// The broker stores a secret below /odb/. A rotated secret has a number after its name.
		secret := regexp.MustCompile(`^\(\(/odb/.*/` + regexp.QuoteMeta(name) + `(-\d+)?\)\)$`)
		for reference := range r.instance.Secrets {
			if secret.MatchString(reference) {
				r.instance.Secrets[reference] = text
				r.masks.add(text, "secret "+name)
			}
		}
	}
}

// cleanUp deletes the bindings of the case, destroys the resources of its instance and stops the server. A binding that
// does not exist, or whose creation failed as expected, is not an error. All steps are tried, and the error joins those
// that failed. If the server was never started, cleanUp does nothing, because no step was performed.
func (r *run) cleanUp() error {
	if r.server == nil {
		return nil
	}
	defer r.server.stop()
	var failed []error
	for _, id := range r.bindings {
		r.step.ID = id
		// What made an expected failure, such as a server that does not run, also prevents the deletion.
		if err := r.unbind(); err != nil && !isExit(err, notFound) && !slices.Contains(r.failed, id) {
			failed = append(failed, fmt.Errorf("%w\nin the unbind after the case", err))
		}
	}
	if err := r.destroyInstance(); err != nil {
		failed = append(failed, fmt.Errorf("%w\nin the destruction after the case", err))
	}
	return errors.Join(failed...)
}

// checkOutputs returns an error, which joins all reasons, if a required output of an action is missing, or if an output
// does not have its declared type; see hasType. Fields of a bind response that are not credentials, such as
// syslog_drain_url, are not checked. action is the name of the action in messages.
func checkOutputs(action string, declared []brokerpak.Variable, outputs map[string]any) error {
	noCredentials := []string{"syslog_drain_url", "route_service_url", "backup_agent_url"}
	var failed []error
	for _, output := range declared {
		item, ok := outputs[output.Name]
		switch {
		case slices.Contains(noCredentials, output.Name):
		case !ok && output.Required:
			failed = append(failed, fmt.Errorf("%s: the required output %q is missing", action, output.Name))
		case ok && !hasType(item, output.Type):
			failed = append(failed, fmt.Errorf("%s: the output %q must be of type %s, found %s",
				action, output.Name, output.Type, value.Kind(item)))
		}
	}
	return errors.Join(failed...)
}

// hasType reports whether a value has a type of the definition format. Every value has the type "", and an integer also
// has the type "number".
func hasType(item any, typ string) bool {
	kind := value.Kind(item)
	return typ == "" || strings.HasSuffix(kind, " "+typ) || typ == "number" && kind == "an integer"
}
