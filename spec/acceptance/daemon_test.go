package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// daemon is a resource whose creation starts a process that continues to run, and writes its process id to a file.
const daemon = `
resource "terraform_data" "daemon" {
  provisioner "local-exec" {
    command = "setsid sh -c 'echo $$ >%[1]s.new; mv %[1]s.new %[1]s; exec sleep 1000' </dev/null >/dev/null 2>&1 &"
  }
}
`

var _ = Describe("a template that starts a daemon", func() {
	var b *broker
	var file string

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.site.controlled()
		b.site.set(map[string]any{"budget": "15s"})
		file = filepath.Join(b.site.dir, "daemon")
		text, err := os.ReadFile(filepath.Join(b.site.pak, "bind.tf"))
		Expect(err).NotTo(HaveOccurred())
		b.site.write("bind.tf", string(text)+fmt.Sprintf(daemon, file))
		b.deploy(ctx, nil)
	})

	// expectDaemon waits for the process and returns its id.
	expectDaemon := func() int {
		GinkgoHelper()
		Eventually(file).Should(BeARegularFile())
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		id, err := strconv.Atoi(strings.TrimSpace(string(text)))
		Expect(err).NotTo(HaveOccurred())
		return id
	}

	It("does not prevent the deletion of the binding", func(ctx context.Context) {
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
		id := expectDaemon()
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		kill(id)
		b.site.expectNothingLeft()
	})

	DescribeTable("does not prevent the deletion of the binding after a kill of",
		func(ctx context.Context, who victim) {
			at := b.site.point(afterApply)
			at.Hold()
			creation := b.start(createBinding, b.bindParameters("bind-1", nil))
			tofu := at.Reached()
			id := expectDaemon()
			kill(creation.Process.Pid)
			if who == both {
				kill(tofu)
			}
			at.Release()
			creation.Wait()
			together(func() {
				got := b.bind(ctx, "bind-1", nil)
				Expect(got.Exit).To(BeElementOf(0, 49), got.Stderr)
			}, func() {
				got := b.bind(ctx, "bind-1", nil)
				Expect(got.Exit).To(BeElementOf(0, 49), got.Stderr)
			})
			for _, code := range []int{0, 41} {
				got := b.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(code), got.Stderr)
			}
			kill(id)
			b.site.expectNothingLeft()
		}, Entry("the adapter alone", theAdapter), Entry("the adapter and OpenTofu", both))
})
