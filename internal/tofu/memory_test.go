package tofu_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
)

var _ = Describe("the collection of garbage in OpenTofu", func() {
	DescribeTable("is rare where that takes little memory", func(ctx context.Context, chosen string, size int64, expected []string) {
		s := newSite()
		large := filepath.Join(filepath.Dir(s.cache), "large")
		Expect(os.WriteFile(large, nil, 0o700)).To(Succeed())
		Expect(os.Truncate(large, size)).To(Succeed())
		i := installation()
		i.Providers = append(i.Providers, opentofu.Provider{FQN: "registry.opentofu.org/example/large", Version: "1.0.0", File: large})
		options := s.options()
		if chosen != "" {
			options.Env = map[string]string{"GOGC": chosen}
		}
		engine, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepared, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
		s.hold("before-create")
		applied := make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
		s.at("before-create")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.tofu("b-1")))
		Expect(err).NotTo(HaveOccurred())
		s.release("before-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(values(string(text), "GOGC")).To(Equal(expected))
	},
		Entry("with small providers", "", int64(50<<20), []string{"400"}),
		Entry("not with large ones", "", int64(200<<20), nil),
		Entry("not where the operator chose", "50", int64(0), []string{"50"}),
	)
})

// values are those of a variable in an environment.
func values(environment, name string) []string {
	var found []string
	for entry := range strings.SplitSeq(environment, "\x00") {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			found = append(found, value)
		}
	}
	return found
}
