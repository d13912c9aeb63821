package backends_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Points at which the wrapped OpenTofu of a machine can be held; testdata/tofu.sh explains their names.
const (
	beforeReserve = "before-base-apply"
	afterReserve  = "after-base-apply"
	afterApply    = "after-apply-apply"
	afterDestroy  = "after-destroy-destroy"
	beforeOutputs = "before-look-state"
)

// Points at which the provider "directory" can be held, on whatever machine.
const (
	beforeMake  = "before-create"
	afterMake   = "after-create"
	beforeClear = "before-destroy"
	afterClear  = "after-destroy"
)

// point is a moment of a run at which the spec can hold it.
type point struct {
	name     string
	dir      string // where its files are
	prefix   string // of their names
	provider bool
}

func (m *machine) point(name string) point {
	switch name {
	case beforeMake, afterMake, beforeClear, afterClear:
		return point{name: name, dir: m.world.entries, prefix: ".", provider: true}
	default:
		return point{name: name, dir: m.control()}
	}
}

func (p point) file(kind string) string { return filepath.Join(p.dir, p.prefix+kind+"-"+p.name) }

// hold makes the next run that comes to the point stop there.
func (p point) hold() {
	GinkgoHelper()
	if p.provider {
		Expect(os.WriteFile(p.file("hold"), nil, 0o600)).To(Succeed())
		return
	}
	Expect(syscall.Mkfifo(p.file("hold"), 0o600)).To(Succeed())
}

// reached waits until a run stands at the point and returns the id of the process that waits.
func (p point) reached() int {
	GinkgoHelper()
	var id int
	Eventually(func() error {
		text, err := os.ReadFile(p.file("at"))
		if err != nil {
			return err
		}
		id, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	}).Should(Succeed(), p.name)
	return id
}

// release lets the run go on, unless it was killed, and later ones pass.
func (p point) release() {
	GinkgoHelper()
	waiting := p.reached()
	if !p.provider {
		Eventually(func() error {
			pipe, err := os.OpenFile(p.file("hold"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				if gone(waiting) {
					return nil
				}
				return err
			}
			return pipe.Close()
		}).Should(Succeed())
	}
	Expect(os.Remove(p.file("hold"))).To(Succeed())
	Expect(os.Remove(p.file("at"))).To(Succeed())
}

// spy writes down the arguments and the environment of every run of OpenTofu on the machine, and returns how to read them.
func (m *machine) spy() func() string {
	GinkgoHelper()
	file := filepath.Join(m.control(), "spy")
	Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	return func() string { return read(file) }
}

// gone tells whether a process ended.
func gone(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	// The state comes after the program's name.
	state := strings.TrimSpace(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
	return state == 'Z' || state == 'X'
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
	Expect(json.Unmarshal([]byte(read(owners[0])), &holder)).To(Succeed())
	return holder.Tofu.PID
}

// kill kills processes at once and waits for their end.
func kill(pids ...int) {
	GinkgoHelper()
	for _, pid := range pids {
		Expect(pid).To(BeNumerically(">", 1))
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Or(Succeed(), MatchError(syscall.ESRCH)))
		Eventually(gone).WithArguments(pid).Should(BeTrue())
	}
}
