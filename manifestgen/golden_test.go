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

// step is one call of a case, together with the changes that the operator makes before it.
type step struct {
	call `yaml:",inline"`
	// Kind is "create", "check", "update" or "upgrade".
	Kind string `yaml:"call"`
	// Secure is the setting secure_manifests from this step on. Nil leaves it as it is.
	Secure *bool
	// BrokerPlan replaces keys of the broker's plan from this step on, and Releases and Stemcells replace those lists.
	BrokerPlan map[string]any `yaml:"broker_plan"`
	Releases   []struct {
		Name, Version string
		Jobs          []string
	}
	Stemcells []struct{ OS, Name, Version string }
	// Errands replaces the operator's settings for errands from this step on.
	Errands *struct {
		Properties        map[string]any
		Updates, Upgrades bool
	}
	// Config holds the values that the function config() returns from this step on.
	Config map[string]string
	// Allowed is the setting allowed_references from this step on.
	Allowed []string
	// Foreign names the file with a manifest of another adapter, which counts as deployed from this step on.
	Foreign string
	// Service names the file that replaces the service definition from this step on.
	Service string
}

// Each case in testdata is a txtar archive with the files of a pak, the steps in steps.yml, and their expected outcomes
// in want. With UPDATE=1, the outcomes are written instead of compared.
var _ = Describe("a case in testdata", func() {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	for _, name := range names {
		It("has the expected outcomes: "+strings.TrimSuffix(filepath.Base(name), ".txtar"), func() { playCase(name) })
	}
})

// playCase runs the steps of a case and compares their outcomes with the expected ones.
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
		outcomes := txtar.File{Name: "want", Data: []byte(got.String())}
		archive.Files = append(archive.Files[:len(archive.Files)-1], outcomes)
		Expect(os.WriteFile(name, txtar.Format(archive), 0o644)).To(Succeed())
		return
	}
	Expect(got.String()).To(Equal(want))
}

// play runs a step and returns its outcome as text: an error, the result of a check, or the deployed result.
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

// configure applies the operator's changes of a step.
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
			w.instance.Deployment.Releases = append(w.instance.Deployment.Releases,
				release(r.Name, r.Version, r.Jobs...))
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
			Properties: s.Errands.Properties, Limit: "2h0m0s",
			UseInstalledTemplate: s.Errands.Updates, AllowUpgrade: s.Errands.Upgrades,
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

// show returns a result as text. Generated values are replaced by GENERATED.
func (w *world) show(result *serviceadapter.MarshalledGenerateManifest) string {
	GinkgoHelper()
	tree := decode(result.Manifest)
	delete(tree, "brokerpak")
	stored := recordOf(result.Manifest)
	manifest, _, _ := strings.Cut(result.Manifest, "\nbrokerpak: ")
	text := manifest + "\n"
	section := func(name string, item any) {
		if encoded := string(value.MustJSON(item)); encoded != "null" && encoded != "{}" {
			text += name + ": " + encoded + "\n"
		}
	}
	shown := *stored
	shown.Pak, shown.PakVersion, shown.Service, shown.ServiceID, shown.Plan, shown.Deployment = "", "", "", "", "", ""
	section("--- record", shown)
	section("--- secrets", result.ODBManagedSecrets)
	for _, kind := range value.Keys(result.Configs) {
		text += "--- " + kind + " config\n" + result.Configs[kind]
	}
	section("--- labels", result.Labels)
	for _, password := range w.generated(stored, result.ODBManagedSecrets) {
		text = strings.ReplaceAll(text, password, "GENERATED")
	}
	return strings.ReplaceAll(text, `: "GENERATED"`, ": GENERATED") // passwords with a leading digit are quoted
}

// generated returns the generated values in a record and in the secrets of a result.
func (w *world) generated(stored *record.InstanceRecord, secrets map[string]any) []string {
	GinkgoHelper()
	var all []string
	for _, calls := range stored.Generated {
		for _, item := range calls {
			all = append(all, value.Text(item))
		}
	}
	for _, secret := range w.service.Provision.Bosh.Secrets {
		for _, item := range append(storedValues(secrets, secret.Name), stored.Secrets[secret.Name].Value) {
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

// storedValues returns the values of a secret under its name and under its numbered names.
func storedValues(secrets map[string]any, name string) []any {
	var values []any
	for key, item := range secrets {
		if key == name || strings.HasPrefix(key, name+"-") {
			values = append(values, item)
		}
	}
	return values
}
