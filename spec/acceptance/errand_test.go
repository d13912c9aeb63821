package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// newErrandBroker returns a broker for an example pak and a plan with the lifecycle errands, and the parameters of the
// first example of the pak. The pak lacks its binaries, so no process can be started. The configuration contains no
// values for the pak, and names a state backend that does not exist.
func newErrandBroker(example string) (b *broker, parameters object) {
	GinkgoHelper()
	s := newSite("entries")
	s.pak = kit.Path("examples", example)
	s.set(object{
		"paks":  []string{s.pak},
		"state": object{"type": "pg", "config": object{"conn_str": "postgres://nobody@127.0.0.1:1/none"}},
		"errand_properties": object{
			"paks": []string{"/var/vcap/packages/service-adapter-paks/" + example},
			"state": object{
				"type":   "pg",
				"config": object{"conn_str": `postgres://${credhub("/a/b")}@h/${request.instance_id}`},
			},
			"config": object{
				"PGACCESS_USER": "admin", "PGACCESS_PASSWORD": `${credhub("/c")}`,
				"postgresql_database": object{"host": "h", "port": 5432, "ca_cert": "c", "importable": "x"},
			},
		},
	})
	pak, err := brokerpak.Open(s.pak)
	Expect(err).NotTo(HaveOccurred())
	defer pak.Close()
	service := pak.Services[0]
	b = newBroker(s)
	b.Instance = odb.Sample(service, &service.Plans[0], "inst-1")
	b.AddErrands()
	return b, service.Examples[0].ProvisionParams
}

// inShape returns the input of a recorded generate-manifest call with the plan, manifest and secrets of this instance,
// and with these parameters.
func (b *broker) inShape(recorded string, parameters object) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", "odb-stdin", recorded+".json"))
	Expect(err).NotTo(HaveOccurred())
	var leaves map[string]map[string]string
	Expect(json.Unmarshal(text, &leaves)).To(Succeed())
	sent := leaves["generate_manifest"]
	var request object
	Expect(json.Unmarshal([]byte(sent["request_parameters"]), &request)).To(Succeed())
	own := object{"parameters": parameters, "service_id": b.ServiceID, "plan_id": b.PlanID}
	for key, item := range own {
		if _, there := request[key]; there {
			request[key] = item
		}
	}
	sent["request_parameters"], sent["service_deployment"], sent["plan"] = encode(request), encode(
		b.Deployment), encode(b.Plan)
	if sent["previous_plan"] != "null" {
		sent["previous_plan"], sent["previous_manifest"] = encode(b.Plan), b.Manifest
	}
	if sent["previous_secrets"] != "null" {
		sent["previous_secrets"] = encode(b.Secrets)
	}
	return encode(leaves) + "\n"
}

var _ = Describe("a manifest with the lifecycle errands", func() {
	for _, example := range []string{"example-email", "postgresql-database"} {
		It(fmt.Sprintf("is generated without any process, and is equal each time: %s", example),
			kit.SlowIf(example == "postgresql-database"), func(ctx context.Context) {
				b, parameters := newErrandBroker(example)
				got := b.run(ctx, b.inShape(create, parameters), generateManifest)
				Expect(got.Exit).To(Equal(0), got.Stderr)
				Expect(b.Deploy(got.Stdout)).To(Succeed())
				deployed := b.Manifest
				Expect(deployed).To(ContainSubstring("intent:"))
				for i := range 50 {
					for _, call := range []string{pendingCheck, update, upgrade} {
						got := b.run(ctx, b.inShape(call, object{}), generateManifest)
						Expect(got.Exit).To(Equal(0), got.Stderr)
						Expect(b.Deploy(got.Stdout)).To(Succeed())
						Expect(b.Manifest).To(Equal(deployed), "%s, %d", call, i)
					}
				}
			})
	}
})
