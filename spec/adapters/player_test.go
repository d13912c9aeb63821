package adapters_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/spec/kit"
	binary "service-adapter/spec/kit/broker"
)

// A player plays the broker for one case, with its own service instance.
type player struct {
	recorded
	dir string
}

// newPlayer installs the pak of the case's adapter, its configuration and the stub of its client in a new directory.
func newPlayer(c recorded) *player {
	GinkgoHelper()
	p := &player{recorded: c, dir: kit.Directory(GinkgoT())}
	pak := filepath.Join(p.dir, "pak")
	Expect(os.CopyFS(pak, os.DirFS(pakOf(c.Adapter)))).To(Succeed())
	bin := filepath.Join(pak, "bin", runtime.GOOS, runtime.GOARCH, kit.Newest)
	Expect(os.MkdirAll(bin, 0o755)).To(Succeed())
	Expect(os.Symlink(kit.OpenTofuPath(kit.Newest), filepath.Join(bin, "tofu"))).To(Succeed())
	if provider := providers[c.Adapter]; provider != "" {
		Expect(os.Symlink(kit.Provider(GinkgoT(), provider),
			filepath.Join(filepath.Dir(bin), "terraform-provider-"+provider+"_v1.0.0"))).To(Succeed())
	}
	commands, err := filepath.Glob(filepath.Join(pak, "commands", "*"))
	Expect(err).NotTo(HaveOccurred())
	for _, command := range commands {
		Expect(os.Symlink(command, filepath.Join(filepath.Dir(bin), filepath.Base(command)))).To(Succeed())
	}
	client, err := os.ReadFile(filepath.Join("testdata", cmp.Or(stubs[c.Adapter], "client")))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(p.dir, "client"), client, 0o755)).To(Succeed())
	// These adapters write passwords into the manifest, for brokers that store no secrets.
	config, err := json.Marshal(object{
		"paks": []string{pak}, "secure_manifests": false, "cache_dir": filepath.Join(p.dir, "cache"),
		"state": object{"config": object{"dir": filepath.Join(p.dir, "state")}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(p.config(), config, 0o600)).To(Succeed())
	p.fillPools()
	return p
}

// pakOf returns the directory of the pak for an adapter.
func pakOf(adapter string) string {
	return cmp.Or(paks[adapter], filepath.Join("testdata", "paks", adapter))
}

// config returns the path of the adapter's configuration.
func (p *player) config() string { return filepath.Join(p.dir, "service-adapter.yml") }

// adapter returns the adapter under test with the operator's settings.
func (p *player) adapter() binary.Adapter {
	environment := []string{"SERVICE_ADAPTER_CONFIG=" + p.config(), "TMPDIR=" + p.dir}
	if variable := clients[p.Adapter]; variable != "" {
		environment = append(environment, variable+"="+filepath.Join(p.dir, "client"))
	}
	if settings := environments[p.Adapter]; settings != nil {
		environment = append(environment, settings(p)...)
	}
	return binary.Adapter{Path: adapterBinary, Dir: p.dir, Env: environment}
}

// call runs a command of the adapter with the parameters of a request, and returns the answer.
func (p *player) call(ctx context.Context, command string, parameters object) binary.Answer {
	GinkgoHelper()
	got, err := p.adapter().Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("%s: exit %d\nstdout: %.6000s\nstderr: %.3000s\n", command, got.Exit, got.Stdout, got.Stderr)
	return got
}

// play sends the request of the case and returns the answer.
func (p *player) play(ctx context.Context) binary.Answer {
	GinkgoHelper()
	switch p.Command {
	case "generate-manifest":
		return p.call(ctx, p.Command,
			p.generate(p.Input["plan"], p.Input["previous_plan"], p.text("previous_manifest"), p.request()))
	case "create-binding":
		p.serve(p.Input["server_users"])
		p.answerAsRecorded()
		return p.call(ctx, p.Command, p.bind(p.Input["bosh_vms"], p.request()))
	case "delete-binding":
		p.serve(nil)
		p.createBinding(ctx)
		p.serve(p.Input["server_users"])
		p.answerAsRecorded()
		return p.call(ctx, p.Command, p.bind(p.Input["bosh_vms"], p.request()))
	case "dashboard-url":
		return p.call(ctx, p.Command,
			object{"instance_id": p.Input["instance_id"], "plan": p.Input["plan"], "manifest": p.text("manifest")})
	case "generate-plan-schemas":
		return p.call(ctx, p.Command, object{"plan": p.Input["plan"]})
	default:
		Fail("unknown command " + p.Command)
		return binary.Answer{}
	}
}

// generate returns the parameters of generate-manifest.
func (p *player) generate(plan, previousPlan any, previous string, body object) object {
	return object{
		"service_deployment": p.Input["service_deployment"], "plan": plan, "request_parameters": body,
		"previous_plan":     previousPlan,
		"previous_manifest": previous, "previous_secrets": "null", "previous_configs": "null", "uaa_client": "null",
	}
}

// bind returns the parameters of create-binding and delete-binding.
func (p *player) bind(vms any, body object) object {
	return object{
		"binding_id": p.Input["binding_id"], "bosh_vms": vms, "manifest": p.text("manifest"),
		"request_parameters": body,
		"secrets":            "null", "dns_addresses": "null",
	}
}

// createBinding creates the binding that the case deletes, on a deployment whose VMs all run.
func (p *player) createBinding(ctx context.Context) {
	GinkgoHelper()
	vms := maps.Clone(p.Input["bosh_vms"].(object))
	for _, group := range value.Mappings(p.Input["manifest"].(object)["instance_groups"]) {
		name := value.Text(group["name"])
		if vms[name] == nil {
			vms[name] = addresses(group["instances"].(int64))
		}
	}
	body := maps.Clone(p.request())
	maps.Copy(body,
		object{"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "parameters": bound[p.Adapter]})
	Expect(p.call(ctx, "create-binding", p.bind(vms, body)).Exit).To(Equal(0))
	Expect(os.RemoveAll(filepath.Join(p.dir, "calls"))).To(Succeed())
}

// addresses returns this number of addresses of VMs.
func addresses(count int64) []any {
	all := make([]any, count)
	for i := range all {
		all[i] = fmt.Sprintf("10.0.8.%d", 5+i)
	}
	return all
}

// answerAsRecorded makes the client fail in its last recorded call if the other adapter failed then.
func (p *player) answerAsRecorded() {
	GinkgoHelper()
	if !p.clientFailed() {
		return
	}
	Expect(os.WriteFile(filepath.Join(p.dir, "fail-on"), []byte(p.Commands[len(p.Commands)-1]), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(p.dir, "fail"), []byte(p.failure()), 0o600)).To(Succeed())
}

// clientFailed reports whether the other adapter failed because its client failed.
func (p *player) clientFailed() bool { return p.refused() && len(p.Commands) > 0 }

// failure returns the text that the client prints when it fails, which is derived from the exit code of the other
// adapter.
func (p *player) failure() string {
	switch p.Exit {
	case 49:
		return "node already exists"
	case 41:
		return "node does not exist"
	default:
		return "no server answers"
	}
}

// calls returns the arguments of the client's calls so far.
func (p *player) calls() []any {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	calls := []any{}
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.TrimSuffix(line, "\n"))
	}
	return calls
}

// pending returns the manifest that the broker's check before an update generates for a deployed manifest. It depends
// on the plan, but not on a request.
func (p *player) pending(ctx context.Context, plan any, deployed string) string {
	GinkgoHelper()
	got := p.call(ctx, "generate-manifest", p.generate(plan, plan, deployed, object{}))
	Expect(got.Exit).To(Equal(0), "the check for pending changes: %s", got.Stderr)
	return manifestOf(got.Stdout)
}

// manifestOf returns the manifest in the answer to generate-manifest.
func manifestOf(stdout string) string {
	GinkgoHelper()
	var product struct{ Manifest string }
	Expect(json.Unmarshal([]byte(stdout), &product)).To(Succeed())
	return product.Manifest
}

// compared returns a manifest as the broker compares it.
func compared(manifest string) any {
	GinkgoHelper()
	decoded, err := odb.Compared(manifest)
	Expect(err).NotTo(HaveOccurred())
	// The tags of the struct are for another YAML library. Both libraries read the same YAML.
	text, err := yamlOf(decoded)
	Expect(err).NotTo(HaveOccurred())
	return treeOf(text)
}

// treeOf decodes the YAML of a manifest.
func treeOf(text string) any {
	GinkgoHelper()
	var tree any
	Expect(yaml.Unmarshal([]byte(text), &tree)).To(Succeed())
	return value.Normalise(tree)
}
