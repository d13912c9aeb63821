package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

var _ = Describe("the garbage collection of OpenTofu", func() {
	DescribeTable("is rare if that takes little memory", func(
		ctx context.Context, chosen string, size int64, expected []string,
	) {
		s := newSite()
		large := filepath.Join(filepath.Dir(s.cache), "large")
		Expect(os.WriteFile(large, nil, 0o700)).To(Succeed())
		Expect(os.Truncate(large, size)).To(Succeed())
		i := installation()
		i.Providers = append(i.Providers,
			opentofu.Provider{FQN: "registry.opentofu.org/example/large", Version: "1.0.0", File: large})
		options := s.options()
		if chosen != "" {
			options.Env = map[string]string{"GOGC": chosen}
		}
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepared, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
		s.blockProvider("before-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		s.waitForProvider("before-create")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.tofuPID("b-1")))
		Expect(err).NotTo(HaveOccurred())
		s.releaseProvider("before-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(environmentValues(string(text), "GOGC")).To(Equal(expected))
	},
		Entry("with small providers", "", int64(50<<20), []string{"400"}),
		Entry("but not with large ones", "", int64(200<<20), nil),
		Entry("but not if the operator chose a value", "50", int64(0), []string{"50"}),
	)
})

// environmentValues returns the values of a variable in an environment.
func environmentValues(environment, name string) []string {
	var all []string
	for entry := range strings.SplitSeq(environment, "\x00") {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			all = append(all, value)
		}
	}
	return all
}
