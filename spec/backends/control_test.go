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

// The points at which the wrapper of OpenTofu on a machine can be paused. testdata/tofu.sh defines their names. The
// points around the reservation exist only on s3, where OpenTofu makes the reservation.
const (
	beforeReserve = "before-base-apply"
	afterReserve  = "after-base-apply"
	beforeApply   = "before-apply-apply"
	afterApply    = "after-apply-apply"
	beforeDestroy = "before-destroy-destroy"
	afterDestroy  = "after-destroy-destroy"
)

// The points at which the provider "directory" can be paused on any machine.
const (
	beforeCreate = "before-create"
	afterCreate  = "after-create"
	beforeDelete = "before-destroy"
	afterDelete  = "after-destroy"
)

// point returns the point of OpenTofu or of the provider with this name.
func (m *machine) point(name string) hold.Point {
	switch name {
	case beforeCreate, afterCreate, beforeDelete, afterDelete:
		return hold.Point{Name: name, Dir: m.world.entries, Provider: true}
	default:
		return hold.Point{Name: name, Dir: m.control()}
	}
}

// spy starts recording the arguments and the environment of every run of OpenTofu on the machine. It returns a function
// that returns the record.
func (m *machine) spy() func() string {
	GinkgoHelper()
	file := filepath.Join(m.control(), "spy")
	Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	return func() string { return read(file) }
}

// tofu returns the process id of the only OpenTofu on the machine. This OpenTofu is not the process that started the
// provider.
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
	Eventually(func() int { // the adapter writes the id after it has started the process, which may already be paused
		Expect(json.Unmarshal([]byte(read(owners[0])), &holder)).To(Succeed())
		return holder.Tofu.PID
	}).Should(BeNumerically(">", 1))
	return holder.Tofu.PID
}

// kill kills processes with SIGKILL and waits for their end.
func kill(pids ...int) {
	GinkgoHelper()
	for _, pid := range pids {
		Expect(pid).To(BeNumerically(">", 1))
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Or(Succeed(), MatchError(syscall.ESRCH)))
		Eventually(hold.Gone).WithArguments(pid).Should(BeTrue())
	}
}
