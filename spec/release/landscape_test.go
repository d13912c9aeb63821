package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
	"service-adapter/spec/kit/servers"
	"service-adapter/spec/release/maker"
)

// userSecret is a parameter of the user with characters that templates, shells and BOSH interpret. userWords is the
// part of it that is the same in every encoding.
const (
	userWords  = "planted-by-a-user"
	userSecret = userWords + `"'$(x)\` + "\n((c)) 🔑"
)

// A landscape is a broker whose plan has the lifecycle errands, together with the state backend and the resources.
type landscape struct {
	*odb.Instance

	broker *vm
	states *servers.Server
	// entries is the directory in which the provider creates its resources.
	entries string
	// secrets contains texts that only few users may read, by their names.
	secrets map[string]string
}

// newLandscape installs the release with the pak "provisioned" on the broker's VM. The instance i1 has not been
// deployed.
func newLandscape(ctx context.Context) *landscape {
	GinkgoHelper()
	pak, bin := filepath.Join(kit.Directory(GinkgoT()), "provisioned.brokerpak"), "bin/"+runtime.GOOS+"/"+runtime.GOARCH
	makePak(filepath.Join("testdata", "provisioned"), pak, map[string]string{
		bin + "/" + kit.Newest + "/tofu":             kit.OpenTofu(GinkgoT(), kit.Newest),
		bin + "/terraform-provider-directory_v1.0.0": kit.Provider(GinkgoT(), "directory"),
	})
	tarball, _ := makeRelease(ctx, maker.Content{Binary: adapterBinary, Paks: []string{pak}})
	l := &landscape{
		broker: newVM(ctx, tarball), states: servers.Run(GinkgoT(), servers.PostgreSQL),
		entries: kit.Directory(GinkgoT()),
	}
	Expect(l.states.CreateDatabase(ctx, "states")).To(Succeed())
	Expect(os.Chown(l.entries, vcapID, vcapID)).To(Succeed())
	l.broker.shares, l.broker.online = []string{l.entries}, true
	for _, name := range []string{"odb-service-adapter", "service-adapter-paks"} {
		output, err := l.broker.compile(ctx, name)
		Expect(err).NotTo(HaveOccurred(), output)
	}
	raw, err := base64.StdEncoding.DecodeString(key('n'))
	Expect(err).NotTo(HaveOccurred())
	l.secrets = map[string]string{
		"parameter": userWords, "database": l.states.Password, "key": key('n'),
		"raw key": string(raw),
	}
	l.broker.deploy(ctx, "service-adapter", l.brokerProperties())
	l.Instance = l.newInstance("i1")
	return l
}

// The operator's secrets for the errands in CredHub, as references in a manifest.
const (
	databaseReference = "((/director/broker/state_database))"
	keyReference      = "((/director/broker/state_key))"
)

// brokerProperties returns the properties of the job service-adapter, as docs/deploying.md describes them.
func (l *landscape) brokerProperties() properties {
	paks := []any{"/var/vcap/packages/service-adapter-paks/provisioned"}
	state := func(database, key string) properties {
		return properties{
			"type": "pg", "config": properties{"conn_str": database},
			"encryption": properties{"key": key},
		}
	}
	credhub := func(reference string) string { return `${credhub("` + strings.Trim(reference, "()") + `")}` }
	return properties{
		"paks": paks, "secure_manifests": true, "state": state(l.states.DSN("states"), key('n')),
		"services": properties{"provisioned": properties{"bind_defaults": properties{"path": l.entries}}},
		"errand_properties": properties{
			"paks": paks, "state": state(credhub(databaseReference), credhub(keyReference)),
			"config": properties{"entries.path": l.entries}, "log_level": "debug", // the level with the most messages
		},
	}
}

// newInstance returns an instance of the pak's service. Its errands run on the groups in places; if there are none, the
// plan has a separate group for errands.
func (l *landscape) newInstance(id string, places ...any) *odb.Instance {
	i := instance()
	i.ID, i.ServiceID, i.PlanID = id, "0d6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01", "0d6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
	i.Deployment.DeploymentName = i.DeploymentName()
	i.Deployment.Releases = append(i.Deployment.Releases,
		serviceadapter.ServiceRelease{Name: label().Name, Version: label().Version, Jobs: instanceJobs()})
	if places == nil {
		i.Plan["instance_groups"] = append(i.Plan["instance_groups"].([]any), odb.SampleGroup("errands", "errand"))
	}
	errand := func(job string) []any { return []any{map[string]any{"name": job, "instances": places}} }
	i.Plan["lifecycle_errands"] = map[string]any{
		"post_deploy": errand("apply-instance"),
		"pre_delete":  errand("destroy-instance"),
	}
	i.Secrets = map[string]string{databaseReference: l.states.DSN("states"), keyReference: key('n')}
	return i
}

// call runs a command of the protocol in the broker's container. The command must succeed.
func (l *landscape) call(ctx context.Context, command string, parameters map[string]any) broker.Answer {
	GinkgoHelper()
	got, err := l.broker.adapter().Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	Expect(got.Exit).To(BeZero(), got.Stderr+got.Stdout)
	return got
}

// body returns the body of a request with further keys.
func body(i *odb.Instance, further map[string]any) map[string]any {
	all := map[string]any{
		"context": map[string]any{"platform": "cloudfoundry"}, "service_id": i.ServiceID,
		"plan_id": i.PlanID,
	}
	maps.Copy(all, further)
	return all
}

// update creates or updates an instance with these parameters, and adds the secrets of its template to the landscape.
func (l *landscape) update(ctx context.Context, i *odb.Instance, parameters map[string]any) {
	GinkgoHelper()
	got := l.call(ctx, "generate-manifest", i.Generate(body(i, map[string]any{"parameters": parameters})))
	Expect(i.Deploy(got.Stdout)).To(Succeed())
	secrets, _ := jobProperties(i, "apply-instance")["secrets"].(map[string]any)
	Expect(secrets).To(And(HaveLen(2), HaveKeyWithValue("password", userSecret),
		HaveKeyWithValue("generated", HaveLen(32))))
	l.secrets["value of "+i.ID] = value.Text(secrets["generated"])
	l.expectNone(i.Manifest, got.Stderr)
}

// jobProperties returns the properties of a job in the deployed manifest, as the Director renders them.
func jobProperties(i *odb.Instance, job string) properties {
	GinkgoHelper()
	values, found, err := i.JobProperties(job)
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue(), job)
	return values
}

// newErrandVM returns a VM for the errands of an instance, with compiled packages and without the job service-adapter.
func (l *landscape) newErrandVM(ctx context.Context, i *odb.Instance) *vm {
	GinkgoHelper()
	v := bareVM()
	v.shares, v.online = l.broker.shares, l.broker.online
	for _, dir := range []string{"packages", "data/packages"} {
		run(ctx, l.broker.vcap, "cp", "-a", dir+"/.", filepath.Join(v.vcap, dir))
	}
	v.deployErrands(ctx, i)
	return v
}

// deployErrands renders the jobs of the errands, as a deployment of the instance does.
func (v *vm) deployErrands(ctx context.Context, i *odb.Instance) {
	GinkgoHelper()
	for _, job := range instanceJobs() {
		values := jobProperties(i, job)
		Expect(complaints(ctx, job, values)).To(BeEmpty(), job)
		v.deploy(ctx, job, values)
	}
}

// begin starts the errand of a job as the agent does, in a container in which only the VM's data and jobs are writable.
func (v *vm) begin(job string) *process.Running {
	GinkgoHelper()
	container := broker.Adapter{Path: "./container", Env: append(os.Environ(), v.environment()...)}
	return process.Start(container, nil, "", "errand", v.vcap, filepath.Join("/var/vcap/jobs", job, "bin/run"))
}

// An entry is the content of a resource's file.
type entry struct{ Content, Secret string }

// resource returns the existing resources by their names.
func (l *landscape) resources() map[string]entry {
	GinkgoHelper()
	found := map[string]entry{}
	for path, info := range files(l.entries) {
		if info.Mode().IsRegular() {
			var resource entry
			Expect(json.Unmarshal([]byte(readFile(l.entries, path)), &resource)).To(Succeed())
			Expect(stat(info).Uid).To(BeEquivalentTo(vcapID), "the user who ran the provider")
			found[path] = resource
		}
	}
	return found
}

// stored returns the states in the backend by the names of their workspaces.
func (l *landscape) stored(ctx context.Context) map[string]string {
	GinkgoHelper()
	rows, err := l.states.Query(ctx, "states", "SELECT name, data FROM terraform_remote_state.states")
	Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, row := range rows {
		name, text, _ := strings.Cut(row, "|")
		found[name] = text
	}
	return found
}

// expectNone asserts that texts contain no secret of the landscape.
func (l *landscape) expectNone(texts ...string) {
	GinkgoHelper()
	for what, secret := range l.secrets {
		for _, text := range texts {
			Expect(strings.Contains(text, secret)).To(BeFalse(), "the %s is in %s", what, text)
		}
	}
}
