package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter/input"
	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
	"service-adapter/manifestgen"
)

// manifestInstance is the id of a new instance whose manifest Generate returns.
const manifestInstance = "00000000-0000-4000-8000-000000000000"

// A ManifestRequest selects the manifest that Generate returns: the service, the plan, the body of the request of the
// platform, and the deployed manifest of an update. With a deployed manifest, a nil body means that the broker
// upgrades the instance, and an empty one that the request updates it without parameters. Only the name of the
// service is needed, and not even that if the pak has a single service. The zero value then represents a request to
// create an instance of the first plan without parameters.
type ManifestRequest struct {
	// Service is the name of a service of the pak.
	Service string
	// Plan is the name or the id of a plan of the service. "" means the first plan, or none if the service has no
	// plans.
	Plan string
	// Body is the body of the request to create or update the instance, or nil. Keys that it lacks, such as the
	// context, have the values of requests in test cases.
	Body map[string]any
	// Previous is the deployed manifest. "" means that the request creates the instance. A previous manifest without a
	// body means that the broker upgrades the instance.
	Previous string
}

// A Manifest is a BOSH manifest that Generate returned, with its BOSH configs, the names of the template outputs that
// have sample values in it, and the secrets that must be masked in messages. The text itself is not masked; see
// Masked.
type Manifest struct {
	// Text is the manifest as YAML, as the broker receives it. Secrets are references in it, but it may contain other
	// secret values; see Masked.
	Text string
	// Configs are the BOSH configs of the instance by type.
	Configs map[string]string
	// SampleOutputs are the sorted names of the outputs of the provision template that have sample values. It is nil if
	// the service has no provision template or the previous manifest records all outputs.
	SampleOutputs []string
	// Secrets contains the secrets of the request, of the previous manifest and of the generated one.
	Secrets *redact.Secrets
}

// Generate returns the manifest that the adapter generates for a request of the broker, without running OpenTofu.
// process supplies the defaults and plans of the operator in its environment, whose SERVICE_ADAPTER_ variables are
// ignored, and the standard error for warnings. Generate creates a directory for temporary files and removes it.
//
// The releases, stemcells, instance groups and configuration are those of a test case without keys: the ones in
// tests/defaults.yml, or else the sample values of odb.Instance.Configure. The server of tests/defaults.yml is not
// started: its ports have sample values, and the path of a file of the server is relative to the working directory of
// this process. The broker stores secrets, unless tests/defaults.yml sets secure_manifests to false. The outputs of a
// provision template are those that the previous manifest records, or else sample values. The values of stored
// secrets are not available: a secret counts as unchanged unless the request contains its value or the values of its
// keepers changed.
//
// Generate returns an error if the pak lacks the service or the plan, if tests/defaults.yml, the body or the previous
// manifest is invalid, if tests/defaults.yml has a placeholder for a file that does not exist or for a port that it
// does not declare, if the configuration in it cannot be used, if temporary files cannot be written or removed, if ctx
// has ended, or if the manifest cannot be generated. The error is or wraps a *fault.UserError if tests/defaults.yml
// cannot be read or decoded, if the previous manifest is not a BOSH manifest, and if the cf user or the operator has to
// correct the request; the errors of placeholders are others. Secrets are masked in the text of the error, and the
// manifest must not be used then.
func Generate(
	ctx context.Context, pak *brokerpak.Pak, process session.Process, request ManifestRequest,
) (manifest *Manifest, err error) {
	cases, err := newReader(pak)
	if err != nil {
		return nil, err
	}
	testCase, err := cases.fromKeys("manifest", map[string]any{
		"service": request.Service, "plan": request.Plan, "create": map[string]any{},
	})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pak-manifest-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the configuration: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{
		Suite: Suite{Pak: pak, Getenv: process.Getenv}, ctx: ctx, dir: dir, testCase: testCase,
		service: pak.Service(testCase.Service), server: sampleServer(testCase.Server), masks: masks{},
		deployed: deployed{instance: &odb.Instance{ID: manifestInstance}},
	}
	r.instance.ServiceID = r.service.ID
	if err := r.adoptPrevious(request.Previous, testCase.Steps[0].Plan); err != nil {
		return nil, err
	}
	if err := r.arrange(testCase.Steps[0]); err != nil {
		return nil, err
	}
	process.Getenv = r.generatingEnv
	s := session.New(process, generateManifest)
	err = s.Run(func() (err error) {
		manifest, err = r.generateOnly(s, request.Body)
		return err
	})
	return manifest, s.Secrets.CleanError(err)
}

// sampleServer returns a server that does not run, so that the placeholders for its ports can be replaced without
// starting it. The ports of config have sample values: 10000, 10001 and so on in their order. The server has no
// program, so stop does nothing. It has no directory either: it must not run commands, and placeholders for files name
// files relative to the working directory of this process.
func sampleServer(config Server) *server {
	const firstPort = 10000
	s := &server{ports: map[string]int{}}
	for i, name := range config.Ports {
		s.ports[name] = firstPort + i
	}
	return s
}

// storedSecret matches the reference to a secret in a generated manifest, which the broker replaces when it stores the
// secret. The group is the name of the secret.
var storedSecret = regexp.MustCompile(`\(\(` + serviceadapter.ODBSecretPrefix + `:([^()\s]+)\)\)`)

// adoptPrevious stores a manifest as the deployed one of the run, and sets the id of the instance, sample values of
// its BOSH variables, and r.plan, as adopt does. The deployed plan is the one that the adapter's record in the
// manifest names, or, without a record, the plan with the name or id in plan ("" means the first one). r.plan is nil,
// which is not an error, if the service does not have that plan. References to secrets in a manifest that Generate
// returned are replaced as the broker does when it stores them. adoptPrevious does nothing for a manifest of "".
//
// It returns a *fault.UserError, whose text quotes no values of the manifest, if it is not a BOSH manifest, and another
// error if its record is invalid. The instance must not be used after an error.
func (r *run) adoptPrevious(manifest, plan string) error {
	if manifest == "" {
		return nil
	}
	root, _, err := yamltree.Read(manifest)
	if err != nil {
		return fault.Userf("the previous manifest: %s", yamltree.SyntaxError(err))
	}
	if _, name := yamltree.Get(root, "name"); name == nil {
		return fault.Userf("the previous manifest is not a BOSH manifest: it has no name")
	}
	stored, err := record.FromManifest(manifest)
	if err != nil {
		return fmt.Errorf("the previous manifest: %w", err)
	}
	if stored != nil {
		plan = stored.Plan
	}
	if err := r.adopt("the previous manifest", manifest, plan); err != nil {
		return fault.Userf("the previous manifest is not one that the broker can decode: see %s",
			regexp.MustCompile(`line \d+`).FindString(err.Error()))
	}
	r.instance.Manifest = storedSecret.ReplaceAllStringFunc(manifest, func(reference string) string {
		return r.instance.Reference(storedSecret.FindStringSubmatch(reference)[1])
	})
	return nil
}

// generateOnly generates the manifest of the instance for the step that arrange has prepared, without running OpenTofu.
// The session must be open. See Generate for the values of outputs.
//
// sent is the body of the request to create or update the instance. Keys that it lacks, also in its context, have the
// values of the body that requestBody returns for the step. A nil sent has a meaning of its own only if a manifest is
// deployed: the broker then upgrades the instance, and the body contains only a context. Without a deployed manifest,
// nil means an empty sent, and the body is that of requestBody. The secrets of the request, of the deployed manifest
// and of the generated one are registered in the session, whose set of secrets the result shares.
//
// generateOnly returns an error if the plan or the request is not valid, if the context of the run has ended, or if the
// manifest cannot be generated; secrets are not masked in its text. The result must not be used then.
func (r *run) generateOnly(s *session.Session, sent map[string]any) (*Manifest, error) {
	plan, err := input.DecodePlan("service plan", string(value.MustJSON(r.instance.Plan)))
	if err != nil {
		return nil, err
	}
	request := &manifestgen.Request{
		Deployment: r.instance.Deployment, BrokerPlan: plan, UAAClient: r.step.UAAClient,
		PreviousManifest: r.instance.Manifest,
	}
	request.Body = manifestBody(sent, r.requestBody(), r.instance.Manifest != "" && sent == nil)
	if r.instance.Manifest != "" {
		previous, err := input.DecodePlan("previous plan", string(value.MustJSON(r.before.Plan)))
		if err != nil {
			return nil, err
		}
		request.PreviousPlan = &previous
	}
	if err := s.CompleteManifest(request, len(value.MustJSON(request.Body))); err != nil {
		return nil, err
	}
	manifest := &Manifest{Secrets: s.Secrets}
	generator := s.Generator(request.Pak)
	generator.Provision = func(context.Context, provision.Request, bool) (*provision.Result, error) {
		outputs := odb.SampleOutputs(request.Service)
		if request.Record != nil && request.Record.Template != nil {
			outputs = value.Merge(outputs, request.Record.Template.Outputs)
		} else {
			manifest.SampleOutputs = value.Keys(outputs)
		}
		return &provision.Result{Outputs: outputs, Sensitive: manifestgen.SensitiveOutputs(request.Service)}, nil
	}
	product, err := generator.Generate(r.ctx, *request)
	if err != nil {
		return nil, err
	}
	manifest.Text, manifest.Configs = product.Manifest, product.Configs
	generated, err := record.FromManifest(product.Manifest)
	s.AddSecrets(nil, generated)
	return manifest, err
}

// manifestBody returns the body of a request to generate a manifest, as a new map: the keys of sent, and for keys that
// it lacks those of sample, which is the body of a request to create the instance without parameters. The context is
// merged key by key. sent may be nil. If upgrades is true, the request upgrades the instance: sent is ignored, and the
// body has only the context of sample.
func manifestBody(sent, sample map[string]any, upgrades bool) map[string]any {
	if upgrades {
		return map[string]any{"context": sample["context"]}
	}
	body := value.Merge(sample, sent)
	if context, ok := sent["context"].(map[string]any); ok {
		defaults, _ := sample["context"].(map[string]any)
		body["context"] = value.Merge(defaults, context)
	}
	return body
}

// Masked returns the text of the manifest in which redact.Mask replaces the secrets in clear text in its values, and
// the paths of the values that differ for that reason, in the syntax of ops files, such as
// "/instance_groups/name=db/env". The secrets are those in m.Secrets, which are values of the request, of plan
// properties and of records, and those that a value itself labels as secret, as in "password=VALUE". A value that
// cannot be masked within a second is replaced by redact.Withheld. Keys of mappings and comments are not masked.
//
// If no value contains a secret, the text is m.Text and paths is nil; otherwise the YAML is formatted anew. Masked
// returns "", nil and an error if the manifest cannot be read or written as YAML. m is not modified.
func (m *Manifest) Masked() (text string, paths []string, err error) {
	root, _, err := yamltree.Read(m.Text)
	if err != nil {
		return "", nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if paths = m.mask("", root); len(paths) == 0 {
		return m.Text, nil, nil
	}
	masked, err := yamltree.Encode(root)
	if err != nil {
		return "", nil, fmt.Errorf("writing the manifest: %w", err)
	}
	return string(masked), paths, nil
}

// mask replaces the secrets of m in the scalars of a node and of the nodes below it by redact.Mask, in place, and
// returns the paths of the changed scalars in the syntax of ops files, such as "/properties/password", or nil if it
// changed none. path is the path of the node, and "" for the root. Keys of mappings are not masked.
func (m *Manifest) mask(path string, node *yaml.Node) (paths []string) {
	switch node.Kind {
	case yaml.MappingNode:
		for key, item := range yamltree.Pairs(node) {
			paths = append(paths, m.mask(path+"/"+key.Value, item)...)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			step := strconv.Itoa(i)
			if _, name := yamltree.Get(item, "name"); name != nil {
				step = "name=" + name.Value
			}
			paths = append(paths, m.mask(path+"/"+step, item)...)
		}
	default:
		if clean := m.Secrets.Clean(node.Value); clean != node.Value {
			node.SetString(clean)
			node.Style = yaml.DoubleQuotedStyle
			paths = []string{path}
		}
	}
	return paths
}
