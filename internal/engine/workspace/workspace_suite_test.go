package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"service-adapter/spec/kit"

	"service-adapter/internal/engine/opentofu"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// tofuVersion is the version of OpenTofu that the specs run.
const tofuVersion = kit.Newest

func TestMain(m *testing.M) {
	if dir := os.Getenv(rewriteVariable); dir != "" {
		os.Exit(rewriteProcess(dir))
	}
	if scenario := os.Getenv(scenarioVariable); scenario != "" {
		os.Exit(adapterProcess(scenario))
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "TOFU_TEST_") {
			panic("unknown variable " + variable) // otherwise the suite would run within the suite
		}
	}
	os.Exit(m.Run())
}

func TestTofu(t *testing.T) {
	kit.Suite(t, "internal/engine/workspace")
}

var _ = BeforeSuite(func() {
	i := installation()
	kit.Built(GinkgoT(), i.Binary)
	for _, p := range i.Providers {
		kit.Built(GinkgoT(), p.File)
	}
})

// installation returns OpenTofu with the test providers.
func installation() opentofu.Installation {
	build := kit.Path("build")
	return opentofu.Installation{
		Binary:  filepath.Join(build, "tofu", tofuVersion, "tofu"),
		Version: tofuVersion,
		Providers: []opentofu.Provider{
			{
				FQN: "registry.terraform.io/service-adapter/directory", Version: "1.0.0",
				File: filepath.Join(build, "providers", "terraform-provider-directory"),
			},
			{
				FQN: "registry.terraform.io/hashicorp/random", Version: "3.6.0",
				File: filepath.Join(build, "providers", "terraform-provider-random"),
			},
		},
	}
}

// calledVersion returns the OpenTofu of the specs with another version as its label.
func calledVersion(version string) opentofu.Installation {
	GinkgoHelper()
	i := installation()
	program := filepath.Join(GinkgoT().TempDir(), "tofu")
	const script = "#!/bin/sh\ntest \"$1\" = version || exec %s \"$@\"\necho '{\"terraform_version\": \"%s\"}'\n"
	Expect(os.WriteFile(program, fmt.Appendf(nil, script, i.Binary, version), 0o700)).To(Succeed())
	i.Binary, i.Version = program, version
	return i
}
