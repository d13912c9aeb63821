package main_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// stand is a program in the place of the adapter that shows who runs it, and how.
const stand = `#!/bin/bash
id -un
env | grep -v '^PATH\|^_=\|^PWD\|^SHLVL' | sort
printf '<%s>\n' "$@"
exit 3
`

var _ = Describe("An errand", func() {
	const environment = `vcap
SERVICE_ADAPTER_CONFIG=/var/vcap/jobs/service-adapter/config/service-adapter.yml
TMPDIR=/var/vcap/data/service-adapter/errands
`

	DescribeTable("runs the adapter as vcap with the job's configuration", func(ctx context.Context, job string, given properties, arguments ...string) {
		site := bareVM()
		writeFile(stand, site.vcap, "packages/odb-service-adapter/bin/service-adapter")
		Expect(os.Chmod(filepath.Join(site.vcap, "packages/odb-service-adapter/bin/service-adapter"), 0o755)).To(Succeed())
		Expect(os.MkdirAll(filepath.Join(site.vcap, "data/service-adapter/errands"), 0o755)).To(Succeed())
		site.deploy(ctx, job, given)
		output, err := site.run(ctx, "/var/vcap/jobs/"+job+"/bin/run")
		Expect(err).To(MatchError("exit status 3"), "the adapter's exit code is the errand's")
		Expect(output).To(Equal(environment + "<" + strings.Join(arguments, ">\n<") + ">\n"))
	},
		Entry(nil, "upgrade-bindings", properties{}, "bindings", "upgrade", "--all"),
		Entry(nil, "rotate-encryption-key", properties{}, "bindings", "reencrypt"),
		Entry(nil, "destroy-instances", properties{"instances": []any{"i1", "a b'$(touch /x)", "--all"}},
			"instance", "destroy", "--", "i1", "a b'$(touch /x)", "--all"),
	)

	It("destroys nothing when no instance is named", func(ctx context.Context) {
		site := bareVM()
		site.deploy(ctx, "destroy-instances", properties{})
		output, err := site.run(ctx, "/var/vcap/jobs/destroy-instances/bin/run")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal("destroy-instances: the property instances names none\n"))
	})
})
