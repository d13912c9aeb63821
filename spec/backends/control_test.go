package backends_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"

	"service-adapter/spec/kit/hold"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Points at which the wrapped OpenTofu of a machine can be held; testdata/tofu.sh explains their names. Only where
// OpenTofu makes the reservation, on s3, are there points around that.
const (
	beforeReserve = "before-base-apply"
	afterReserve  = "after-base-apply"
	beforeApply   = "before-apply-apply"
	afterApply    = "after-apply-apply"
	beforeDestroy = "before-destroy-destroy"
	afterDestroy  = "after-destroy-destroy"
)

// Points at which the provider "directory" can be held, on whatever machine.
const (
	beforeMake  = "before-create"
	afterMake   = "after-create"
	beforeClear = "before-destroy"
	afterClear  = "after-destroy"
)

// point returns a point of OpenTofu or of the provider by its name.
func (m *machine) point(name string) hold.Point {
	switch name {
	case beforeMake, afterMake, beforeClear, afterClear:
		return hold.Point{Name: name, Dir: m.world.entries, Provider: true}
	default:
		return hold.Point{Name: name, Dir: m.control()}
	}
}

// spy writes down the arguments and the environment of every run of OpenTofu on the machine, and returns how to read
// them.
func (m *machine) spy() func() string {
	GinkgoHelper()
	file := filepath.Join(m.control(), "spy")
	Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	return func() string { return read(file) }
}

// tofu is the process id of the only OpenTofu that runs on the machine. It is not the one that started the provider.
func (m *machine) tofu() int {
	GinkgoHelper()
	owners, err := filepath.Glob(filepath.Join(m.runs(), "*.json"))
	Expect(err).NotTo(HaveOccurred())
	Expect(owners).To(HaveLen(1))
	var holder struct {
		Tofu struct {
			PID int `json:"pid"`
		} `json:"tofu"`
	}
	Eventually(func() int { // the adapter writes the id after it has started the process, which may be held by then
		Expect(json.Unmarshal([]byte(read(owners[0])), &holder)).To(Succeed())
		return holder.Tofu.PID
	}).Should(BeNumerically(">", 1))
	return holder.Tofu.PID
}

// kill kills processes at once and waits for their end.
func kill(pids ...int) {
	GinkgoHelper()
	for _, pid := range pids {
		Expect(pid).To(BeNumerically(">", 1))
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Or(Succeed(), MatchError(syscall.ESRCH)))
		Eventually(hold.Gone).WithArguments(pid).Should(BeTrue())
	}
}
