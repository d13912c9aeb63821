// Package service plays the on-demand broker for one service instance of an example pak, with the built adapter, the
// real OpenTofu and a real server in the role of the instance's VMs. Its functions fail the current spec on an error.
package service

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
)

// object is a JSON object.
type object = map[string]any

// A Site is a configured adapter, whose directory Dir contains the configuration, the states and temporary files, and
// one service instance. The Instance is nil until the suite sets it.
type Site struct {
	*odb.Instance
	broker.Adapter

	options Options
}

// Options are what a new site needs.
type Options struct {
	// Adapter is the path of the built adapter, and Pak that of the pak that it serves.
	Adapter, Pak string
	// Cache is the directory of the adapter's cache, which sites may share. If it is "", the site has its own, so that
	// the processes of OpenTofu run below the directory of the site.
	Cache string
	// Config are further keys of the adapter's configuration.
	Config map[string]any
	// Secret must not occur on standard error of any command. An empty Secret disables the check.
	Secret string
	// Cleanup removes the accounts and data that specs left on the server. It runs at the end of the spec, after the
	// processes of the site were killed. It may be nil.
	Cleanup func(context.Context)
}

// New returns a site without an instance. At the end of the spec, its processes are killed and its files are removed.
func New(options Options) *Site {
	ginkgo.GinkgoHelper()
	dir, err := os.MkdirTemp("", "site-") // short, because OpenTofu creates sockets below it
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	s := &Site{options: options}
	s.Adapter = broker.Adapter{Path: options.Adapter, Dir: dir}
	s.Env = []string{"SERVICE_ADAPTER_CONFIG=" + s.ConfigPath(), "TMPDIR=" + dir}
	ginkgo.DeferCleanup(s.remove)
	cache := options.Cache
	if cache == "" {
		cache = filepath.Join(dir, "cache")
	}
	s.writeConfig(object{
		"paks": []string{options.Pak}, "secure_manifests": true, "cache_dir": cache,
		"state": object{"config": object{"dir": s.StateDir()}},
	})
	s.Configure(options.Config)
	return s
}

// ConfigPath returns the path of the adapter's configuration.
func (s *Site) ConfigPath() string { return filepath.Join(s.Dir, "service-adapter.yml") }

// StateDir returns the directory of the states.
func (s *Site) StateDir() string { return filepath.Join(s.Dir, "state") }

// Configure replaces keys of the adapter's configuration and keeps all others.
func (s *Site) Configure(keys map[string]any) {
	ginkgo.GinkgoHelper()
	text, err := os.ReadFile(s.ConfigPath())
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	config := object{}
	gomega.Expect(json.Unmarshal(text, &config)).To(gomega.Succeed())
	maps.Copy(config, keys)
	s.writeConfig(config)
}

// writeConfig writes the adapter's configuration as JSON, which is YAML.
func (s *Site) writeConfig(config object) {
	ginkgo.GinkgoHelper()
	text, err := json.Marshal(config)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(os.WriteFile(s.ConfigPath(), text, 0o600)).To(gomega.Succeed())
}

// Workspaces returns the names of the OpenTofu workspaces, sorted.
func (s *Site) Workspaces() []string {
	return kit.Names(ginkgo.GinkgoT(), filepath.Join(s.StateDir(), "workspaces"))
}

// Request runs a command of the adapter with the parameters of the broker's request, and shows its output if the spec
// fails.
func (s *Site) Request(ctx context.Context, command string, parameters map[string]any) broker.Answer {
	ginkgo.GinkgoHelper()
	answer, err := s.Call(ctx, command, parameters)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	process.Show(command, answer)
	if s.options.Secret != "" {
		gomega.Expect(answer.Stderr).NotTo(gomega.ContainSubstring(s.options.Secret))
	}
	return answer
}

// RequestBody returns the body of a user's request for the instance with these parameters.
func (s *Site) RequestBody(parameters map[string]any) map[string]any {
	return object{
		"context":           object{"platform": "cloudfoundry", "instance_name": "my-instance"},
		"organization_guid": "org", "space_guid": "space",
		"service_id": s.ServiceID, "plan_id": s.PlanID, "parameters": parameters,
	}
}

// GenerateManifest requests the manifest of the instance with the parameters of a user. It does not deploy the result.
func (s *Site) GenerateManifest(ctx context.Context, parameters map[string]any) broker.Answer {
	ginkgo.GinkgoHelper()
	return s.Request(ctx, "generate-manifest", s.Generate(s.RequestBody(parameters)))
}

// DeployManifest requests the manifest of the instance and deploys it as the broker and the Director do. The request
// must succeed. It returns the standard error of the command.
func (s *Site) DeployManifest(ctx context.Context, parameters map[string]any) (stderr string) {
	ginkgo.GinkgoHelper()
	answer := s.GenerateManifest(ctx, parameters)
	gomega.Expect(answer.Exit).To(gomega.Equal(0), answer.Stderr)
	gomega.Expect(s.Deploy(answer.Stdout)).To(gomega.Succeed())
	return answer.Stderr
}

// BindParameters returns the parameters of a create-binding call for an app, with the parameters of a user.
func (s *Site) BindParameters(id string, parameters map[string]any) map[string]any {
	return s.Bind(id, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": parameters, "plan_id": s.PlanID, "service_id": s.ServiceID,
	})
}

// UnbindParameters returns the parameters of a delete-binding call.
func (s *Site) UnbindParameters(id string) map[string]any {
	return s.Bind(id, object{"plan_id": s.PlanID, "service_id": s.ServiceID})
}

// CreateBinding creates a binding with the parameters of a user.
func (s *Site) CreateBinding(ctx context.Context, id string, parameters map[string]any) broker.Answer {
	ginkgo.GinkgoHelper()
	return s.Request(ctx, "create-binding", s.BindParameters(id, parameters))
}

// DeleteBinding deletes a binding.
func (s *Site) DeleteBinding(ctx context.Context, id string) broker.Answer {
	ginkgo.GinkgoHelper()
	return s.Request(ctx, "delete-binding", s.UnbindParameters(id))
}

// Credentials creates a binding, which must succeed, and returns its credentials.
func (s *Site) Credentials(ctx context.Context, id string, parameters map[string]any) map[string]any {
	ginkgo.GinkgoHelper()
	return Credentials(s.CreateBinding(ctx, id, parameters))
}

// Credentials returns the credentials in the answer to a create-binding call, which must have succeeded.
func Credentials(answer broker.Answer) map[string]any {
	ginkgo.GinkgoHelper()
	gomega.Expect(answer.Exit).To(gomega.Equal(0), answer.Stderr)
	var binding struct{ Credentials object }
	gomega.Expect(json.Unmarshal([]byte(answer.Stdout), &binding)).To(gomega.Succeed())
	return binding.Credentials
}

// ExpectUnreachable creates a binding while no server can be reached. The command must fail with this text for the
// user. The adapter cannot know what exists of the binding, so its record must remain for the unbind that the platform
// sends after a failure.
func (s *Site) ExpectUnreachable(ctx context.Context, id, text string) broker.Answer {
	ginkgo.GinkgoHelper()
	answer := s.CreateBinding(ctx, id, nil)
	gomega.Expect(answer.Exit).To(gomega.Equal(1), answer.Stderr)
	gomega.Expect(answer.Stdout).To(gomega.Equal(text))
	gomega.Expect(s.Workspaces()).To(gomega.ConsistOf("b-" + id))
	return answer
}

// remove kills the processes of the site, cleans the server up, and removes the files.
func (s *Site) remove(ctx context.Context) {
	process.End(s.Dir)
	if s.options.Cleanup != nil {
		s.options.Cleanup(ctx)
	}
	gomega.Expect(os.RemoveAll(s.Dir)).To(gomega.Succeed())
}
