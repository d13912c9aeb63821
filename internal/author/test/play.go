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

// A Result is the result of playing one case: the outcomes of its steps, a warning about missing programs, the error,
// and the time that it took. Outcomes is nil if no step was performed, for example because the server did not start.
// Err is nil if the case passed, and also if it is unplayable and was therefore not played.
type Result struct {
	Case Case
	// Outcomes are the outcomes of the steps that were played, keyed by section as in an Expectation.
	Outcomes []map[string]any
	// Warning names the programs that the service requires and that its templates do not find, or says that the
	// configuration of the first step cannot be used. It is nil otherwise, and may be the reason for Err.
	Warning error
	// Err is nil if the case passed, or is unplayable.
	Err  error
	Took time.Duration
}

// A Suite contains the pak whose cases are played and the settings for that: the number of cases that are played at
// the same time, the environment, and the functions that receive results. Created also changes the course of a case,
// which then ends after its first step. Source replaces the path of the pak in errors. The fields Pak, Getenv and
// Done must be set before Play is called. With the other fields zero, the cases are played one after the other.
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

// Play plays the cases in a temporary directory, which it removes, up to s.Parallel of them at the same time, and
// returns the results in the order of the cases. As soon as a case has ended, Play calls s.Done, which must not be
// nil, with the result; these calls are never concurrent. The cases must be those that Cases or New returned for
// s.Pak, or for the pak of which s.Pak is a copy. A failure of a case is part of its result. An unplayable case is
// not played; its result, with which Done is called as well, has neither outcomes nor an error.
//
// Play returns nil and an error if the directory cannot be created, and the results with an error if it cannot be
// removed. When ctx ends, the cases fail, also those that have not begun, and the resources that they created are
// destroyed.
func (s Suite) Play(ctx context.Context, cases []Case) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "pak-test-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the test: %w", err)
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

// A run is the state of playing one case: the case and its service, the server, the masks, the instance and bindings
// that exist so far, and the current step. The server is nil until play has started it; service, masks and the instance
// must be set from the beginning. A run is used by one goroutine.
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

// deployed contains the state that the steps of a case have created so far: the instance with its plan and outputs,
// and the bindings that must be deleted at the end. The instance must not be nil; an instance without a manifest is
// not deployed yet, or was deleted. The plan is nil until an instance is deployed or adopted, and if the service does
// not have the plan, for example because it has no plans; it remains after a deletion. The outputs are those after
// the last deployment or apply, masked, or nil.
type deployed struct {
	instance *odb.Instance
	plan     *brokerpak.Plan // the deployed plan; nil before a deployment, or if the service does not have the plan
	outputs  any             // the masked outputs after the last deployment or apply; nil before it or without any
	bindings []string        // the ids of bindings that may exist
	failed   []string        // the ids of bindings whose creation failed, as the case expects
	binding  []byte          // the JSON response to the last bind; nil before it
}

// currentStep contains the values that belong to one step: the step, the configuration, the instance before the step,
// and the outcome so far. They are replaced when the next step begins; the zero value means that no step has begun.
type currentStep struct {
	step    Step           // with the placeholders for values of the server replaced
	config  map[string]any // the key "config" of the step
	before  *odb.Instance  // the instance before the step, with the deployed plan
	outcome map[string]any // the outcome of the step, by section
}

// playOne plays result.Case and sets the outcomes of the steps that were played, the warning and the error of the
// result. dir is a directory that only this case uses, which need not exist and is not removed. All bindings and
// resources that the case created are removed and its server is stopped, even if it failed or ctx ended. The error
// also contains the reasons why a resource may remain, with two exceptions: the bindings that Case.BindCanFail
// exempts from the removal (see bind), and a binding whose creation failed as expected and whose deletion fails as
// well (see cleanUp). If s.Source is not "", the texts of errors name files below it instead of those of the pak.
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
	if cleanUpErr := r.cleanUp(); cleanUpErr != nil {
		err = errors.Join(err, cleanUpError{cleanUpErr})
	}
	if err != nil {
		result.Err = sourceError{err, r.inSource}
	}
}

// inSource returns a text with the path of the pak replaced by that of its source, s.Source, wherever a slash follows
// the path, as in file names. If s.Source is "", it returns the text unchanged.
func (s Suite) inSource(text string) string {
	if s.Source == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Pak.Path+string(filepath.Separator), s.Source+string(filepath.Separator))
}

// A cleanUpError wraps an error of the removal of bindings and resources after a case. No expectation can describe it,
// even if the adapter rejected a request. errors.Is and errors.As see the wrapped error.
type cleanUpError struct{ error }

func (e cleanUpError) Unwrap() error { return e.error }

// A sourceError wraps an error so that its text names the files of the pak's source instead of those of the temporary
// copy that was played. errors.Is and errors.As see the wrapped error.
type sourceError struct {
	error
	inSource func(text string) string
}

func (e sourceError) Error() string { return e.inSource(e.error.Error()) }
func (e sourceError) Unwrap() error { return e.error }

// play starts the server, adopts the previous manifest of the case, if there is one, with the plan of the first step,
// performs the steps in their order, and returns the outcomes of those that it performed, including one that failed. It
// continues after a step with an unexpected outcome, so that the error lists the differences of all steps. It ends
// after the first step that fails, unless the adapter rejected a request and the step expects this. If only the case
// expects a rejection, it also ends after that step, and compares the outcome until then with the expectation of the
// case. If Suite.Created is set, play performs only the first step, compares no outcome, and calls Created if the step
// succeeded.
//
// The error is nil if all steps succeeded as expected. Apart from failed steps and differences, the reason may be that
// the server did not start, that the previous manifest cannot be read or decoded, or that r.ctx ended. play sets
// r.server, which remains nil if the program did not start, and r.missingCommands. The case must have a step.
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

// mergeOutcomes returns the outcome of a case as a new map: the sections of the outcomes of all its steps. A section
// of a later step replaces the same one of an earlier step. The sections "error", "exit" and "operator_error", which
// only a rejected request has, are contained only if the last outcome has them; all other sections remain even if the
// last request was rejected. The result is empty, and not nil, for an empty list.
func mergeOutcomes(outcomes []map[string]any) map[string]any {
	all := value.Merge(outcomes...)
	for _, section := range failureSections() {
		if len(outcomes) > 0 && outcomes[len(outcomes)-1][section] == nil {
			delete(all, section)
		}
	}
	return all
}

// Fails reports whether a rejected request is expected: whether the expectation has one of the sections "error", "exit"
// and "operator_error" with a value other than null.
func (e Expectation) Fails() bool {
	return slices.ContainsFunc(failureSections(), func(section string) bool { return e.sections[section] != nil })
}

// wrap returns an error that wraps err, which must not be nil. Its text is that of err with a further line: "in the
// step ACTION in line N", or only "in the step ACTION" for a step that the file does not list.
func (s Step) wrap(err error) error {
	if s.line > 0 {
		return fmt.Errorf("%w\nin the step %s in line %d", err, s.Do, s.line)
	}
	return fmt.Errorf("%w\nin the step %s", err, s.Do)
}

// adopt stores a manifest as the deployed one of the run, and sets the id of the instance and r.plan. The id is the
// name of the deployment in the manifest without the prefix "service-instance_"; a name without that prefix is the id.
// The BOSH variables of the manifest get sample values. name names the manifest in the error, and text is its YAML.
//
// plan is the name or the id of the deployed plan; "" means the first one. If the service does not have the plan, or
// has no plans, r.plan is nil, which is not an error. adopt returns an error if the text cannot be decoded as a BOSH
// manifest; the instance must not be used then.
func (r *run) adopt(name, text, plan string) error {
	r.instance.Adopt(text)
	manifest, err := odb.Compared(r.instance.Manifest)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	r.instance.ID, r.plan = instance.ID(manifest.Name), r.planOf(plan)
	return nil
}

// planOf returns the plan of the service with a name or an id, or the first plan for "". It returns nil if the service
// has no such plan or no plans at all.
func (r *run) planOf(name string) *brokerpak.Plan {
	if name == "" && len(r.service.Plans) > 0 {
		return &r.service.Plans[0]
	}
	return r.service.Plan(name)
}

// arrange prepares the run for a step, in memory except for the configuration file of the adapter, which it writes. It
// sets r.step and r.config to the step and its configuration. Placeholders for values of the server are replaced in
// both, and the inserted values are masked in outcomes. r.before becomes a copy of the instance before the step that is
// configured with the deployed plan and the step's environment.
//
// arrange then configures r.instance for the step: it sets the plan and the deployment from the step's environment (see
// odb.Instance.Configure), the DNS names, the addresses of VMs, and the values of BOSH variables (see setVariables).
// r.instance.Manifest and r.plan, the deployed plan, do not change.
//
// arrange returns an error if a placeholder refers to a port or a file that does not exist, if a replaced value has the
// wrong type, if the deployed manifest cannot be decoded, or if the file cannot be written. The run may be partly
// changed then. The server must have been started.
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

// setVariables sets the values of BOSH variables and secrets in r.instance.Secrets to those that the step declares
// under "variables". A name denotes the reference ((NAME)), even if the manifest does not contain it, and also the path
// /odb/…/NAME, or /odb/…/NAME-NUMBER after a rotation, of a secret that the broker has stored. The values of such
// stored secrets are masked in outcomes. Other values remain as they are. The map is changed in place, so that
// r.before, which shares it, sees the values as well; a nil map is replaced by a new one.
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

// cleanUp deletes the bindings of the case, destroys the resources of its instance and stops the server. r.ctx must
// not have ended, because the deletions and the destruction fail then. A binding that does not exist is not an error,
// and neither is a failed deletion if the creation of the binding failed as expected. The configuration is that of
// the last step that arrange prepared. If arrange failed for the first step, the configuration is missing, so the
// destruction for a service with a provision template is an error. cleanUp continues after an error, and returns all
// of them joined. If r.server is nil, it does nothing and returns nil, because no step was performed.
//
// cleanUp changes r.step, and sets r.outcome to a new outcome, so that its calls do not change those of the steps.
func (r *run) cleanUp() error {
	if r.server == nil {
		return nil
	}
	defer r.server.stop()
	r.outcome = map[string]any{}
	var failed []error
	for _, id := range r.bindings {
		r.step.ID = id
		// The cause of an expected failure, such as a server that does not run, also prevents the deletion.
		if err := r.unbind(); err != nil && !isExit(err, notFound) && !slices.Contains(r.failed, id) {
			failed = append(failed, fmt.Errorf("%w\nin the unbind after the case", err))
		}
	}
	if err := r.destroyInstance(); err != nil {
		failed = append(failed, fmt.Errorf("%w\nin the destruction after the case", err))
	}
	return errors.Join(failed...)
}

// checkOutputs returns an error, which joins all reasons, if outputs lacks a required output of declared, or if an
// output does not have its declared type. Outputs that are not declared are accepted. Outputs with the names
// syslog_drain_url, route_service_url and backup_agent_url are not checked, whatever the action, because in a bind
// response they are fields and not credentials. action is the name of the action, "provision" or "bind", in messages.
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

// hasType reports whether a value has a type of the definition format: "string", "boolean", "integer", "number",
// "array", "object" or "". Every value has the type "", and an integer also has the type "number". null has none of the
// others.
func hasType(item any, typ string) bool {
	kind := value.Kind(item)
	return typ == "" || strings.HasSuffix(kind, " "+typ) || typ == "number" && kind == "an integer"
}
