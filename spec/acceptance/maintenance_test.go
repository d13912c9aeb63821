package acceptance_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// recordedRequest is a request of Cloud Foundry to the on-demand broker and the broker's response. The file
// testdata/maintenance-info/requests.json contains a sequence of them. The broker's own HTTP server and its own rules
// decided on each request, with the service_catalog that `pak catalog` prints for two versions of the example redis.
// The fakes of the broker's tests replaced the Director, Cloud Foundry and the adapter.
type recordedRequest struct {
	Name string
	// Catalog is the version of the pak that printed the service_catalog.
	Catalog  string
	Method   string
	Path     string
	Request  json.RawMessage
	Status   int
	Response json.RawMessage
	// Parameters are the request parameters that the broker sends to generate-manifest. They are nil if it rejects the
	// request.
	Parameters serviceadapter.RequestParameters `json:"request_parameters"`
}

// maintenanceRequests returns the recorded requests.
func maintenanceRequests() []recordedRequest {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", "maintenance-info", "requests.json"))
	Expect(err).NotTo(HaveOccurred())
	var recorded struct{ Steps []recordedRequest }
	Expect(json.Unmarshal(text, &recorded)).To(Succeed())
	Expect(recorded.Steps).NotTo(BeEmpty())
	return recorded.Steps
}

// named returns the recorded request with a name.
func named(name string) recordedRequest {
	GinkgoHelper()
	all := maintenanceRequests()
	at := slices.IndexFunc(all, func(request recordedRequest) bool { return request.Name == name })
	Expect(at).To(BeNumerically(">=", 0), name)
	return all[at]
}

// update returns the body of a recorded request that updates an instance.
func (r recordedRequest) update() domain.UpdateDetails {
	GinkgoHelper()
	Expect(r.Method).To(Equal(http.MethodPatch))
	var details domain.UpdateDetails
	Expect(json.Unmarshal(r.Request, &details)).To(Succeed())
	return details
}

// refusal returns the broker's reason for refusing the request.
func (r recordedRequest) refusal() string {
	GinkgoHelper()
	Expect(r.Status).To(Equal(http.StatusUnprocessableEntity))
	Expect(r.Parameters).To(BeNil())
	var response apiresponses.ErrorResponse
	Expect(json.Unmarshal(r.Response, &response)).To(Succeed())
	return response.Description
}

// accepted expects that the broker accepted the request for an operation, such as "upgrade".
func (r recordedRequest) accepted(operation string) {
	GinkgoHelper()
	Expect(r.Status).To(Equal(http.StatusAccepted))
	var response apiresponses.UpdateResponse
	Expect(json.Unmarshal(r.Response, &response)).To(Succeed())
	Expect(response.OperationData).To(ContainSubstring(`"OperationType":"` + operation + `"`))
}

// maintenanceInfo returns the maintenance_info that the broker offers for every plan in a recorded catalog.
func (r recordedRequest) maintenanceInfo() domain.MaintenanceInfo {
	GinkgoHelper()
	var catalog apiresponses.CatalogResponse
	Expect(json.Unmarshal(r.Response, &catalog)).To(Succeed())
	plans := catalog.Services[0].Plans
	Expect(plans).To(HaveLen(2))
	Expect(plans[0].MaintenanceInfo).NotTo(BeNil())
	Expect(plans[1].MaintenanceInfo).To(Equal(plans[0].MaintenanceInfo))
	return *plans[0].MaintenanceInfo
}

// setVersion changes the version of a site's pak and a tag in the manifest of its instances.
func setVersion(s *site, version string) {
	GinkgoHelper()
	replace := func(file, before, after string) {
		path := filepath.Join(s.pak, file)
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(before))
		Expect(os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o600)).To(Succeed())
	}
	replace("manifest.yml", "version: 0.1.0", "version: "+version)
	replace(filepath.Join("bosh", "redis.yml"), "product: redis", "product: redis-"+version)
}

var _ = Describe("an upgrade that users start", func() {
	const conflict = "passed maintenance_info does not match the catalog maintenance_info"
	const mustUpgrade = "service instance needs to be upgraded before updating"

	It("is offered with the maintenance_info that the pak prints", func(ctx context.Context) {
		b := newRedisBroker(newSite("redis"))
		printed := func() (info domain.MaintenanceInfo) {
			GinkgoHelper()
			catalog := b.run(ctx, "", "pak", "catalog", b.site.pak)
			Expect(catalog.Exit).To(Equal(0), catalog.Stderr)
			var properties struct {
				Catalog struct {
					Maintenance domain.MaintenanceInfo `yaml:"maintenance_info"`
				} `yaml:"service_catalog"`
			}
			Expect(yaml.Unmarshal([]byte(catalog.Stdout), &properties)).To(Succeed())
			return properties.Catalog.Maintenance
		}
		Expect(printed()).To(Equal(named("catalog of the old pak").maintenanceInfo()))
		setVersion(b.site, "0.2.0")
		Expect(printed()).To(Equal(named("catalog of the new pak").maintenanceInfo()))
	})

	It("is preceded by rejections with the messages on the page for operators", func() {
		for name, reason := range map[string]string{
			"create before cf update-service-broker":                                 conflict,
			"update before cf update-service-broker":                                 conflict,
			"update with parameters before the upgrade":                              mustUpgrade,
			"update with parameters and without maintenance_info before the upgrade": mustUpgrade,
			"update with a new plan before the upgrade":                              mustUpgrade,
		} {
			Expect(named(name).refusal()).To(Equal(reason), name)
		}
		refused := 0
		for _, request := range maintenanceRequests() {
			if request.Status == http.StatusUnprocessableEntity {
				refused++
			}
		}
		Expect(refused).To(Equal(5))
		page, err := os.ReadFile(kit.Path("docs", "operations", "upgrade-when-users-want.md"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(And(ContainSubstring(conflict), ContainSubstring(mustUpgrade)))
	})

	It("rejects no update when maintenance_info is introduced", func() {
		named("create without maintenance_info").accepted("create")
		introduced := named("update of an instance from before maintenance_info")
		introduced.accepted("update")
		Expect(introduced.update().PreviousValues.MaintenanceInfo).To(BeNil())
	})

	It("leads to an instance that can be updated again", func(ctx context.Context) {
		b := newRedisBroker(newSite("redis"))
		generate := func(request recordedRequest) {
			GinkgoHelper()
			parameters := b.Generate(request.Parameters)
			if request.Name == "upgrade" {
				parameters["previous_secrets"] = "null"
			}
			got := b.call(ctx, generateManifest, parameters)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(b.Deploy(got.Stdout)).To(Succeed())
		}
		pendingCheck := func() string {
			GinkgoHelper()
			got := b.call(ctx, generateManifest, b.Generate(object{}))
			Expect(got.Exit).To(Equal(0), got.Stderr)
			return decode(got.Stdout)["manifest"].(string)
		}

		created := named("create")
		created.accepted("create")
		Expect(created.Parameters.ArbitraryParams()).To(HaveKeyWithValue("maxclients", 5.0))
		generate(created)
		Expect(b.Manifest).To(And(ContainSubstring("maxclients: 5\n"), ContainSubstring("product: redis\n")))

		By("deploying the broker with the new pak")
		setVersion(b.site, "0.2.0")
		Expect(odb.SameManifests(b.Manifest, pendingCheck())).To(BeFalse())

		upgrade := named("upgrade")
		upgrade.accepted("upgrade")
		details := upgrade.update()
		Expect(details.RawParameters).To(BeEmpty())
		Expect(details.PlanID).To(Equal(details.PreviousValues.PlanID))
		Expect(details.MaintenanceInfo.Version).To(Equal("0.2.0"))
		Expect(details.PreviousValues.MaintenanceInfo.Version).To(Equal("0.1.0"))
		Expect(upgrade.Parameters).To(HaveLen(1), "the broker sends the context alone")
		Expect(upgrade.Parameters.ArbitraryContext()).To(HaveKeyWithValue("platform", "cloudfoundry"))
		generate(upgrade)
		Expect(b.Manifest).To(And(ContainSubstring("maxclients: 5\n"), ContainSubstring("product: redis-0.2.0\n")))

		By("updating the instance")
		Expect(odb.SameManifests(b.Manifest, pendingCheck())).To(BeTrue())
		updated := named("update with parameters after the upgrade")
		updated.accepted("update")
		generate(updated)
		Expect(b.Manifest).To(And(ContainSubstring("maxclients: 9\n"), ContainSubstring("product: redis-0.2.0\n")))
	})
})
