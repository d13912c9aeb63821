package acceptance_test

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

// Points of a create-binding at which the wrapped OpenTofu can be held; testdata/tofu.sh explains their names.
const (
	beforeReserve = "before-base-apply"
	afterReserve  = "after-base-apply"
	beforeApply   = "before-apply-apply"
	afterApply    = "after-apply-apply"
	beforeOutputs = "before-look-state"
	afterOutputs  = "after-look-state"
)

// Points at which the provider "directory" can be held.
const (
	beforeCreate  = "before-create"
	afterCreate   = "after-create"
	beforeDestroy = "before-destroy"
)

// point is a moment of a run at which the spec can hold it.
type point interface {
	// hold makes the next run that comes there stop.
	hold()
	// reached waits until a run stands there and returns the id of the process that waits.
	reached() int
	// release lets the run go on, and later ones pass.
	release()
}

// controlled replaces the OpenTofu of the site's pak by a wrapper that can be held.
func (s *site) controlled() {
	GinkgoHelper()
	Expect(os.Mkdir(s.control(), 0o700)).To(Succeed())
	script, err := os.ReadFile(filepath.Join("testdata", "tofu.sh"))
	Expect(err).NotTo(HaveOccurred())
	wrapper := strings.NewReplacer("=CONTROL", "="+s.control(), "=TOFU", "="+tofuBinary()).Replace(string(script))
	Expect(os.Remove(s.bin(tofuVersion, "tofu"))).To(Succeed())
	Expect(os.WriteFile(s.bin(tofuVersion, "tofu"), []byte(wrapper), 0o755)).To(Succeed())
}

func (s *site) control() string { return filepath.Join(s.dir, "control") }

// point returns a point of OpenTofu or of the provider by its name.
func (s *site) point(name string) point {
	switch name {
	case beforeCreate, afterCreate, beforeDestroy:
		return providerPoint{dir: s.entries, name: name}
	default:
		return tofuPoint{dir: s.control(), name: name}
	}
}

// tofuPoint is a point of the wrapped OpenTofu.
type tofuPoint struct{ dir, name string }

func (p tofuPoint) file(kind string) string { return filepath.Join(p.dir, kind+"-"+p.name) }

func (p tofuPoint) hold() {
	GinkgoHelper()
	Expect(syscall.Mkfifo(p.file("hold"), 0o600)).To(Succeed())
}

func (p tofuPoint) reached() int { return reached(p.file("at")) }

// release opens the pipe, which has a reader unless that was killed, and closes it.
func (p tofuPoint) release() {
	GinkgoHelper()
	waiting := reached(p.file("at"))
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
	Expect(os.Remove(p.file("hold"))).To(Succeed())
	Expect(os.Remove(p.file("at"))).To(Succeed())
}

// providerPoint is a point of the provider "directory".
type providerPoint struct{ dir, name string }

func (p providerPoint) file(kind string) string { return filepath.Join(p.dir, "."+kind+"-"+p.name) }

func (p providerPoint) hold() {
	GinkgoHelper()
	Expect(os.WriteFile(p.file("hold"), nil, 0o600)).To(Succeed())
}

func (p providerPoint) reached() int { return reached(p.file("at")) }

func (p providerPoint) release() {
	GinkgoHelper()
	Expect(os.Remove(p.file("hold"))).To(Succeed())
	Expect(os.Remove(p.file("at"))).To(Succeed())
}

// reached waits for a file that holds a process id.
func reached(file string) int {
	GinkgoHelper()
	var id int
	Eventually(func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		id, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	}).Should(Succeed())
	return id
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

// tofu is the process id of the OpenTofu that runs for a binding. It is not the one that started the provider.
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

// kill kills a process at once and waits for its end.
func kill(pid int) {
	GinkgoHelper()
	Expect(pid).To(BeNumerically(">", 1))
	Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
	Eventually(gone).WithArguments(pid).Should(BeTrue())
}
