// Package hold lets specs stop a run of the adapter at a chosen point: wrapped OpenTofu, by a named pipe, and the
// provider "directory", which looks for files of the same names.
package hold

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2" //nolint:staticcheck // ginkgo and gomega are made for it
	. "github.com/onsi/gomega"    //nolint:staticcheck // ginkgo and gomega are made for it
)

// Point is a moment of a run at which a spec can hold it.
type Point struct {
	Name string
	// Dir is where its files are: the directory of the wrapper's pipes, or that of the provider's entries.
	Dir string
	// Provider tells that it is a point of the provider.
	Provider bool
}

func (p Point) file(kind string) string {
	name := kind + "-" + p.Name
	if p.Provider {
		name = "." + name
	}
	return filepath.Join(p.Dir, name)
}

// Hold makes the next run that comes to the point stop there.
func (p Point) Hold() {
	GinkgoHelper()
	if p.Provider {
		Expect(os.WriteFile(p.file("hold"), nil, 0o600)).To(Succeed())
		return
	}
	Expect(syscall.Mkfifo(p.file("hold"), 0o600)).To(Succeed())
}

// Reached waits until a run stands at the point and returns the id of the process that waits.
func (p Point) Reached() int {
	GinkgoHelper()
	var id int
	Eventually(func() error {
		text, err := os.ReadFile(p.file("at"))
		if err != nil {
			return err
		}
		id, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	}).Should(Succeed(), p.Name)
	return id
}

// Release lets the run go on, unless it was killed, and later ones pass.
func (p Point) Release() {
	GinkgoHelper()
	waiting := p.Reached()
	if !p.Provider {
		// The pipe has a reader unless that was killed.
		Eventually(func() error {
			pipe, err := os.OpenFile(p.file("hold"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				if Gone(waiting) {
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

// Gone tells whether a process ended.
func Gone(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	// The state comes after the program's name.
	state := strings.TrimSpace(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
	if state != 'Z' && state != 'X' {
		return false
	}
	// As long as other threads are ending, its files and sockets are open.
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	return err != nil || len(threads) <= 1
}
