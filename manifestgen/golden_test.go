package manifestgen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// step is one call of a case, and what the operator changed before it.
type step struct {
	call `yaml:",inline"`
	// Kind is create, check, update or upgrade.
	Kind string `yaml:"call"`
	// Secure is secure_manifests from now on.
	Secure *bool
	// BrokerPlan, Releases and Stemcells replace those of the broker's configuration from now on.
	BrokerPlan map[string]any `yaml:"broker_plan"`
	Releases   []struct {
		Name, Version string
		Jobs          []string
	}
	Stemcells []struct{ OS, Name, Version string }
	// Errands are the operator's, with the keys properties, updates and upgrades.
	Errands *struct {
		Properties        map[string]any
		Updates, Upgrades bool
	}
	// Config is what config() finds.
	Config map[string]string
	// Allowed are allowed_references.
	Allowed []string
	// Foreign is the file with the manifest of another adapter, which is deployed.
	Foreign string
	// Service is the file that replaces the service definition.
	Service string
}

// Each case of testdata is a txtar archive: the files of a pak, steps.yml and what the steps give. UPDATE=1 writes the latter.
var _ = Describe("cases", func() {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		It(strings.TrimSuffix(filepath.Base(name), ".txtar"), func() { playCase(name) })
	}
})

func playCase(name string) {
	GinkgoHelper()
	archive, err := txtar.ParseFile(name)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for _, file := range archive.Files {
		files[file.Name] = string(file.Data)
	}
	want := files["want"]
	delete(files, "want")
	var steps []step
	Expect(yaml.Unmarshal([]byte(files["steps.yml"]), &steps)).To(Succeed())
	w := newWorld(packed(files))
	var got strings.Builder
	for _, s := range steps {
		outcome := w.play(s, files)
		fmt.Fprintf(&got, "# %s\n%s", s.Kind, strings.ReplaceAll(outcome, w.dir+"/", ""))
	}
	if os.Getenv("UPDATE") == "1" {
		archive.Files = append(archive.Files[:len(archive.Files)-1], txtar.File{Name: "want", Data: []byte(got.String())})
		Expect(os.WriteFile(name, txtar.Format(archive), 0o644)).To(Succeed())
		return
	}
	Expect(got.String()).To(Equal(want))
}

// play makes a step and returns its outcome as text.
func (w *world) play(s step, files map[string]string) string {
	GinkgoHelper()
	w.configure(s, files)
	s.Check, s.Upgrade = s.Kind == "check", s.Kind == "upgrade"
	result, err := w.generate(s.call)
	switch message := fault.UserMessage(err); {
	case message != "":
		return "user error: " + message + "\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ") + "\n"
	case err != nil:
		return "error: " + strings.ReplaceAll(err.Error(), "\n", "\n  ") + "\n"
	}
	if s.Check {
		same, err := odb.SameManifests(w.instance.Manifest, result.Manifest)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.ODBManagedSecrets).To(BeEmpty())
		if same {
			return "no pending changes\n"
		}
		return "PENDING CHANGES\n" + w.show(result)
	}
	if s.Plan != "" {
		w.plan = s.Plan
	}
	w.deploy(result)
	return w.show(result)
}

func (w *world) configure(s step, files map[string]string) {
	GinkgoHelper()
	if s.Secure != nil {
		w.secure(*s.Secure)
	}
	if s.BrokerPlan != nil {
		for key, item := range s.BrokerPlan {
			w.instance.Plan[key] = item
		}
	}
	if s.Releases != nil {
		w.instance.Deployment.Releases = nil
		for _, r := range s.Releases {
			w.instance.Deployment.Releases = append(w.instance.Deployment.Releases, release(r.Name, r.Version, r.Jobs...))
		}
	}
	if s.Stemcells != nil {
		w.instance.Deployment.Stemcells = nil
		for _, c := range s.Stemcells {
			w.instance.Deployment.Stemcells = append(w.instance.Deployment.Stemcells, stemcell(c.OS, c.Name, c.Version))
		}
	}
	if s.Errands != nil {
		w.generator.Errands = manifestgen.Errands{
			Properties: s.Errands.Properties, Limit: "2h0m0s", Updates: s.Errands.Updates, Upgrades: s.Errands.Upgrades,
		}
	}
	if s.Config != nil {
		w.generator.Environment.Config = func(key string) (any, bool) {
			item, ok := s.Config[key]
			return item, ok
		}
	}
	if s.Allowed != nil {
		w.generator.AllowedReferences = s.Allowed
	}
	if s.Foreign != "" {
		w.instance.Manifest = files[s.Foreign]
	}
	if s.Service != "" {
		files["service.yml"] = files[s.Service]
		w.install(packed(files))
	}
}

// show renders a result. Generated passwords are masked.
func (w *world) show(result *serviceadapter.MarshalledGenerateManifest) string {
	GinkgoHelper()
	tree := decode(result.Manifest)
	delete(tree, "brokerpak")
	known := recordOf(result.Manifest)
	manifest, _, _ := strings.Cut(result.Manifest, "\nbrokerpak: ")
	text := manifest + "\n"
	section := func(name string, item any) {
		if encoded := string(value.MustJSON(item)); encoded != "null" && encoded != "{}" {
			text += name + ": " + encoded + "\n"
		}
	}
	shown := *known
	shown.Pak, shown.PakVersion, shown.Service, shown.ServiceID, shown.Plan, shown.Deployment = "", "", "", "", "", ""
	section("--- record", shown)
	section("--- secrets", result.ODBManagedSecrets)
	for _, kind := range value.Keys(result.Configs) {
		text += "--- " + kind + " config\n" + result.Configs[kind]
	}
	section("--- labels", result.Labels)
	for _, password := range w.generated(known, result.ODBManagedSecrets) {
		text = strings.ReplaceAll(text, password, "GENERATED")
	}
	return strings.ReplaceAll(text, `: "GENERATED"`, ": GENERATED") // those with a leading digit are quoted
}

// generated are the values of generating calls and of generated secrets.
func (w *world) generated(known *record.Record, secrets map[string]any) []string {
	GinkgoHelper()
	var all []string
	for _, calls := range known.Generated {
		for _, item := range calls {
			all = append(all, value.Text(item))
		}
	}
	for _, secret := range w.service.Provision.Bosh.Secrets {
		for _, item := range append(storedValues(secrets, secret.Name), known.Secrets[secret.Name].Value) {
			if password, _ := item.(string); secret.Length > 0 && len(password) == secret.Length {
				all = append(all, password)
			}
		}
	}
	for name, item := range secrets {
		if strings.HasPrefix(name, "generated") { // the inputs of cases with rand.base64
			all = append(all, value.Text(item))
		}
	}
	return all
}

func storedValues(secrets map[string]any, name string) []any {
	var values []any
	for stored, item := range secrets {
		if stored == name || strings.HasPrefix(stored, name+"-") {
			values = append(values, item)
		}
	}
	return values
}
