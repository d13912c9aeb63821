package acceptance_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/hold"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The points of create-binding at which the wrapper of OpenTofu can be paused. testdata/tofu.sh defines their names.
const (
	beforeApply = "before-apply-apply"
	afterApply  = "after-apply-apply"
)

// The points at which the provider "directory" can be paused.
const (
	beforeCreate  = "before-create"
	afterCreate   = "after-create"
	beforeDestroy = "before-destroy"
)

// controlled replaces the OpenTofu of the site's pak with a wrapper that specs can pause.
func (s *site) controlled() {
	GinkgoHelper()
	Expect(os.Mkdir(s.control(), 0o700)).To(Succeed())
	script, err := os.ReadFile(filepath.Join("testdata", "tofu.sh"))
	Expect(err).NotTo(HaveOccurred())
	wrapper := strings.NewReplacer("=CONTROL", "="+s.control(), "=TOFU",
		"="+kit.OpenTofuPath(kit.Newest)).Replace(string(script))
	Expect(os.Remove(s.bin(kit.Newest, "tofu"))).To(Succeed())
	Expect(os.WriteFile(s.bin(kit.Newest, "tofu"), []byte(wrapper), 0o755)).To(Succeed())
}

// control returns the directory of the pipes with which specs pause OpenTofu.
func (s *site) control() string { return filepath.Join(s.dir, "control") }

// point returns the point of OpenTofu or of the provider with this name.
func (s *site) point(name string) hold.Point {
	switch name {
	case beforeCreate, afterCreate, beforeDestroy:
		return hold.Point{Dir: s.entries, Name: name, Provider: true}
	default:
		return hold.Point{Dir: s.control(), Name: name}
	}
}

// tofu returns the process id of the OpenTofu that runs for a binding. This OpenTofu is not the process that started
// the provider.
func (s *site) tofu(binding string) int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(s.cache(), "runs", "b-"+binding+".json"))
	Expect(err).NotTo(HaveOccurred())
	var holder struct {
		Tofu struct {
			PID int `json:"pid"`
		} `json:"tofu"`
	}
	Expect(json.Unmarshal(text, &holder)).To(Succeed())
	return holder.Tofu.PID
}

// kill kills a process with SIGKILL and waits for its end.
func kill(pid int) {
	GinkgoHelper()
	Expect(pid).To(BeNumerically(">", 1))
	Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
	Eventually(hold.Gone).WithArguments(pid).Should(BeTrue())
}
