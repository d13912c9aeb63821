package main_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

func TestMeter(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Meter Suite")
}

var _ = Describe("meter", Ordered, func() {
	var meter string

	BeforeAll(func() {
		var err error
		meter, err = gexec.Build("service-adapter/spec/bench/meter")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gexec.CleanupBuildArtifacts)
	})

	// measure returns the exit code and standard output of the program, and the report with memory in megabytes.
	measure := func(stdin string, args ...string) (code int, stdout string, took time.Duration, largest, own int) {
		GinkgoHelper()
		read, write, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		defer read.Close()
		cmd := exec.Command(meter, args...)
		cmd.Stdin, cmd.ExtraFiles = bytes.NewReader([]byte(stdin)), []*os.File{write}
		output, _ := cmd.Output()
		Expect(write.Close()).To(Succeed())
		report, err := io.ReadAll(read)
		Expect(err).NotTo(HaveOccurred())
		var nanoseconds int64
		_, err = fmt.Sscan(string(report), &nanoseconds, &largest, &own)
		Expect(err).NotTo(HaveOccurred(), "%q", report)
		return cmd.ProcessState.ExitCode(), string(output), time.Duration(nanoseconds), largest / 1024, own / 1024
	}

	It("passes on standard input, standard output and the exit code", func() {
		code, stdout, took, _, _ := measure("text", "once", "/bin/sh", "-c", "cat; exit 3")
		Expect(code).To(Equal(3))
		Expect(stdout).To(Equal("text"))
		Expect(took).To(BeNumerically(">", 0))
	})

	It("does not count the memory of the parent process", func() {
		large := bytes.Repeat([]byte("x"), 100<<20)
		_, _, _, largest, own := measure("", "once", "/bin/cat")
		runtime.KeepAlive(large)
		Expect(largest).To(BeNumerically("<", 20))
		Expect(own).To(Equal(largest))
	})

	It("separates the memory of a program from that of its child processes", func() {
		const child = `head -c 60000000 /dev/zero | tail -n 1 | wc -c`
		_, stdout, _, largest, own := measure("", "watch", "/bin/sh", "-c", child)
		Expect(stdout).To(Equal("60000000\n"))
		Expect(largest).To(BeNumerically(">", 50))
		Expect(own).To(And(BeNumerically(">", 0), BeNumerically("<", 20)))
	})

	It("adds up the memory of all processes that run at the same time", func() {
		// Each tail reads all of its input before it writes the first byte, and keeps its memory until both have done
		// so.
		const children = `hold() {
			head -c "$1" /dev/zero | tail -n 1 | {
				head -c 1
				touch "$0/$1"
				until [ -e "$0/60000000" ] && [ -e "$0/50000000" ]; do sleep 0.05; done
				sleep 0.5
				cat
			} >/dev/null
		}
		hold 60000000 &
		hold 50000000
		wait`
		_, _, _, largest, all := measure("", "tree", "/bin/sh", "-c", children, GinkgoT().TempDir())
		Expect(largest).To(BeNumerically("<", 100))
		Expect(all).To(BeNumerically(">", 100))
	})

	It("prints its usage", func() {
		output, err := exec.Command(meter, "sometimes", "/bin/true").CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(output)).To(HavePrefix("usage: meter"))
	})
})
