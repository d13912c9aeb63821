package acceptance_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
)

// The names of the files in testdata/odb-stdin, which contain the inputs that the real broker wrote to an adapter
// during one life cycle, in order.
const (
	schemasOfCatalog1 = "00-generate-plan-schemas"
	schemasOfCatalog2 = "01-generate-plan-schemas"
	schemasOfCreate   = "02-generate-plan-schemas"
	create            = "03-generate-manifest"
	dashboardOfCreate = "04-dashboard-url"
	schemasOfBind     = "05-generate-plan-schemas"
	bind              = "06-create-binding"
	unbind            = "07-delete-binding"
	schemasOfUpdate   = "08-generate-plan-schemas"
	pendingCheck      = "09-generate-manifest"
	update            = "10-generate-manifest"
	dashboardOfUpdate = "11-dashboard-url"
	upgrade           = "12-generate-manifest"
	dashboardOfNew    = "13-dashboard-url"
)

// recordedInput returns a recorded command and its input. The names of the recorded service are replaced by those of
// the example, and the manifest and secrets by those that this adapter generated.
func (b *broker) recordedInput(name string) (command, input string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", "odb-stdin", name+".json"))
	Expect(err).NotTo(HaveOccurred())
	renamed := strings.NewReplacer(
		`\"redis-release\"`, `\"redis\"`, `\"jobs\":[\"redis-server\"]`, `\"jobs\":[\"redis-server\",\"health-check\"]`,
		`\"smoke\"`, `\"health-check\"`, `\"maxmemory\"`, `\"maxclients\"`,
		`[\"10.0.8.5\",\"10.0.8.6\"]`, `[\"10.0.8.5\"]`, // the example has one server
		`\"plan-a\"`, `\"`+redisSmall+`\"`, `\"svc-id\"`, `\"`+redisService+`\"`,
	).Replace(string(text))
	var leaves map[string]map[string]string
	Expect(json.Unmarshal([]byte(renamed), &leaves)).To(Succeed())
	for _, parameters := range leaves {
		for _, leaf := range []string{"manifest", "previous_manifest"} {
			if parameters[leaf] != "" {
				parameters[leaf] = b.Manifest
			}
		}
		for _, leaf := range []string{"secrets", "previous_secrets"} {
			if parameters[leaf] != "" && parameters[leaf] != "null" {
				parameters[leaf] = encode(b.Secrets)
			}
		}
	}
	return name[len("00-"):], encode(leaves) + "\n"
}

var _ = Describe("the recorded life cycle of an instance", func() {
	It("succeeds with each recorded input", func(ctx context.Context) {
		b := newRedisBroker(newSite("redis"))
		play := func(name string) answer {
			GinkgoHelper()
			By(name)
			command, input := b.recordedInput(name)
			got := b.run(ctx, input, command)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			return got
		}
		schemas := func(name string) {
			GinkgoHelper()
			Expect(decode(play(name).Stdout)).To(And(HaveKey("service_instance"), HaveKey("service_binding")))
		}
		dashboard := func(name string) {
			GinkgoHelper()
			Expect(decode(play(name).Stdout)).To(Equal(object{"dashboard_url": "https://example.com/dashboard/inst-1"}))
		}

		schemas(schemasOfCatalog1)
		schemas(schemasOfCatalog2)
		schemas(schemasOfCreate)
		created := play(create)
		Expect(decode(created.Stdout)["labels"]).To(Equal(object{"persistence": "no"}))
		Expect(b.Deploy(created.Stdout)).To(Succeed())
		Expect(b.Manifest).To(And(
			ContainSubstring("maxclients: 5\n"), ContainSubstring("release: redis\n"),
			ContainSubstring("- name: health-check\n"), // the errand is placed on the group
			ContainSubstring("((/odb/"+redisService+"/service-instance_inst-1/redis_password))"),
			Not(ContainSubstring("odb_secret")),
		))
		dashboard(dashboardOfCreate)

		schemas(schemasOfBind)
		bound := credentials(play(bind))
		password := b.Secrets["((/odb/"+redisService+"/service-instance_inst-1/redis_password))"]
		Expect(password).To(HaveLen(32))
		Expect(bound).To(And(HaveKeyWithValue("host", "10.0.8.5"), HaveKeyWithValue("password", password)))
		Expect(play(unbind).Stdout).To(BeEmpty())
		b.site.expectNothingLeft()

		schemas(schemasOfUpdate)
		expectSame(b.Manifest, play(pendingCheck))
		updated := play(update)
		Expect(decode(updated.Stdout)["secrets"]).To(BeEmpty())
		Expect(odb.SameManifests(b.Manifest, decode(updated.Stdout)["manifest"].(string))).To(BeFalse())
		Expect(b.Deploy(updated.Stdout)).To(Succeed())
		Expect(b.Manifest).To(ContainSubstring("maxclients: 9\n"))
		dashboard(dashboardOfUpdate)

		expectSame(b.Manifest, play(upgrade))
		dashboard(dashboardOfNew)
	})
})
