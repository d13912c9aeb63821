// Package hold lets specs pause a run of the adapter at a chosen point. A wrapper around OpenTofu pauses at a named
// pipe, and the provider "directory" pauses as long as a file with the same name exists.
package hold

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2" //nolint:staticcheck // ginkgo and gomega are designed for dot imports
	. "github.com/onsi/gomega"    //nolint:staticcheck // ginkgo and gomega are designed for dot imports
)

// A Point is a moment of a run at which a spec can pause the run.
type Point struct {
	Name string
	// Dir is the directory of the point's files: that of the wrapper's pipes, or that of the provider's entries.
	Dir string
	// Provider is true for a point of the provider, and false for a point of OpenTofu's wrapper.
	Provider bool
}

// file returns the path of the point's file of a kind: "hold" pauses runs, and "at" contains the id of the paused
// process.
func (p Point) file(kind string) string {
	name := kind + "-" + p.Name
	if p.Provider {
		name = "." + name
	}
	return filepath.Join(p.Dir, name)
}

// Hold pauses the next run that reaches the point.
func (p Point) Hold() {
	GinkgoHelper()
	if p.Provider {
		Expect(os.WriteFile(p.file("hold"), nil, 0o600)).To(Succeed())
		return
	}
	Expect(syscall.Mkfifo(p.file("hold"), 0o600)).To(Succeed())
}

// Reached waits until a run is paused at the point and returns the process id of the paused process.
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

// Release waits until a run is paused at the point, resumes the run unless it was killed, and lets later runs pass the
// point.
func (p Point) Release() {
	GinkgoHelper()
	waiting := p.Reached()
	if !p.Provider {
		// The pipe has a reader unless the paused process was killed.
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

// Gone reports whether a process has ended with all of its threads. A zombie counts as ended.
func Gone(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	// The state follows the program's name in parentheses.
	state := strings.TrimSpace(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
	if state != 'Z' && state != 'X' {
		return false
	}
	// The process keeps its files and sockets open as long as one of its threads runs.
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	return err != nil || len(threads) <= 1
}
