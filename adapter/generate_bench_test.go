package adapter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/site"
)

// BenchmarkGenerateManifest measures the creation and the update of an instance in this process: of the redis
// example, and of a service with 200 inputs and a manifest template of 3,000 lines, whose manifest has a size of 1
// MB.
func BenchmarkGenerateManifest(b *testing.B) {
	gomega.RegisterTestingT(b)
	for _, c := range []struct {
		name string
		make func(s *site.Site) *odb.Instance
	}{{"redis", redisInstance}, {"large", largeInstance}} {
		s := site.New(b.TempDir())
		deployed := c.make(s)
		for _, step := range []string{"create", "update"} {
			request := object{
				"service_id": deployed.ServiceID, "plan_id": deployed.PlanID, "context": object{},
				"parameters": object{},
			}
			input, err := odb.Input("generate-manifest", deployed.Generate(request))
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			b.Run(c.name+"/"+step, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if result := s.Run(input, "generate-manifest"); result.Code != 0 {
						b.Fatal(result.Stderr)
					}
				}
			})
			gomega.Expect(deployed.Deploy(s.Run(input, "generate-manifest").Stdout)).To(gomega.Succeed())
		}
	}
}

// redisInstance configures a site to serve the pak of spec/parity.
func redisInstance(s *site.Site) *odb.Instance {
	s.Serve("../spec/parity/pak")
	redis := site.Instance()
	redis.ServiceID, redis.PlanID = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01", "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
	redis.Deployment.Releases[0].Name, redis.Deployment.Releases[0].Jobs = "redis", []string{
		"redis-server",
		"health-check",
	}
	redis.Plan["instance_groups"].([]any)[0].(object)["name"] = "redis-server"
	return redis
}

// largeInstance configures a site to serve a service with 200 inputs and a manifest template of 3,000 lines.
func largeInstance(s *site.Site) *odb.Instance {
	var inputs, properties strings.Builder
	for n := range 200 {
		fmt.Fprintf(&inputs, "  - {field_name: input_%d, type: string, default: %s, details: An input}\n", n,
			strings.Repeat("value-", 55))
	}
	for n := range 3000 - 6 {
		fmt.Fprintf(&properties, "      property_%d: ((input_%d))\n", n, n%200)
	}
	text := site.Definition{Inputs: "\n" + inputs.String()}.String()
	before, after, _ := strings.Cut(text, "    manifest:\n")
	_, after, _ = strings.Cut(after, "jobs: [{name: server}]}]\n")
	s.Serve(s.Pak("large", before+"    manifest_ref: template.yml\n"+after))
	s.Write("large/template.yml",
		"stemcells: [{alias: default}]\ninstance_groups:\n- name: server\n"+
			"  jobs:\n  - name: server\n    properties:\n"+properties.String())
	return site.Instance()
}
