package postgresql_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// heldPak returns the path of a copy of a pak of the suite. The template of the action has an additional resource,
// which is created after another resource and can be paused.
func heldPak(dir, source, action, after string) string {
	GinkgoHelper()
	pak := filepath.Join(dir, "pak")
	Expect(os.CopyFS(pak, os.DirFS(filepath.Join(shared, source)))).To(Succeed())
	change := func(name, old, replacement string) {
		GinkgoHelper()
		text, err := os.ReadFile(filepath.Join(pak, name))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(old))
		Expect(os.WriteFile(filepath.Join(pak, name), []byte(strings.Replace(string(text), old, replacement, 1)),
			0o644)).To(Succeed())
	}
	change("manifest.yml", "service_definitions:",
		"- {name: terraform-provider-directory, version: 1.0.0, provider: "+
			"registry.terraform.io/service-adapter/directory}\nservice_definitions:")
	template := filepath.Join("terraform", action)
	change(filepath.Join(template, "provider.tf"), "required_providers {",
		"required_providers {\n directory = { source = \"registry.terraform.io/service-adapter/directory\" }")
	change(filepath.Join(template, "outputs.tf"), "output ",
		fmt.Sprintf("resource \"directory_entry\" \"held\" {\n path = %q\n name = \"held\"\n depends_on = [%s]\n}\n\n"+
			"output ", dir, after))
	provider := filepath.Join(pak, "bin", runtime.GOOS, runtime.GOARCH, "terraform-provider-directory_v1.0.0")
	Expect(os.Symlink(kit.Provider(GinkgoT(), "directory"), provider)).To(Succeed())
	return pak
}

// victims are the processes that are killed.
type victims int

// The processes that specs kill.
const (
	// theAdapter is killed alone: OpenTofu continues.
	theAdapter victims = iota
	// everything is killed at the same time, as in a crash of the machine.
	everything
)

// killed runs a command until the paused resource was created, and then kills the victims.
func (s *site) killed(dir, command string, parameters object, whom victims) {
	GinkgoHelper()
	hold := filepath.Join(dir, ".hold-after-create")
	Expect(os.WriteFile(hold, nil, 0o600)).To(Succeed())
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	creation := exec.Command(adapterBinary, command)
	creation.Stdin, creation.Env, creation.Dir = strings.NewReader(input), s.Env, s.Dir
	Expect(creation.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = creation.Wait() // it was killed
	}()
	Eventually(filepath.Join(dir, ".at-after-create")).Should(BeAnExistingFile())
	if whom == theAdapter {
		Expect(creation.Process.Kill()).To(Succeed())
	} else {
		process.End(s.Dir)
	}
	Eventually(ended).Should(BeClosed())
	Expect(os.Remove(hold)).To(Succeed())
}
