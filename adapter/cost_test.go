package adapter_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
)

var _ = Describe("the cost of generate-manifest", func() {
	It("stays in the class of a hand-written adapter", func() {
		s := newSite(GinkgoT().TempDir())
		redis := redisInstance(s)
		allocations := func() float64 {
			request := object{"service_id": redis.ServiceID, "plan_id": redis.PlanID, "context": object{}, "parameters": object{}}
			input, err := odb.Input("generate-manifest", redis.Generate(request))
			Expect(err).NotTo(HaveOccurred())
			result := s.run(input, "generate-manifest")
			Expect(result.Code).To(Equal(0), result.Stderr)
			count := testing.AllocsPerRun(3, func() { s.run(input, "generate-manifest") })
			Expect(redis.Deploy(result.Stdout)).To(Succeed())
			return count
		}
		first, update := allocations(), allocations()
		GinkgoWriter.Println("allocations:", first, update)
		// A tenth more than when this was written: to decode or to check something twice does not go unseen.
		Expect(first).To(BeNumerically("<", 6_600))
		Expect(update).To(BeNumerically("<", 7_800))
	})
})
