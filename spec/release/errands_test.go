package main_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/cli"
	"service-adapter/internal/director"
	"service-adapter/spec/kit"
)

// stand replaces the adapter and prints its user, environment and arguments.
const stand = `#!/bin/bash
id -un
env | grep -v '^PATH\|^_=\|^PWD\|^SHLVL' | sort
printf '<%s>\n' "$@"
exit 3
`

var _ = Describe("An errand", func() {
	// environment returns the user and the environment that the errand gives to the adapter.
	environment := func(job string) string {
		return `vcap
SERVICE_ADAPTER_CONFIG=/var/vcap/jobs/service-adapter/config/service-adapter.yml
SERVICE_ADAPTER_ERRAND=` + job + `
TMPDIR=/var/vcap/data/service-adapter/errands
`
	}

	DescribeTable("runs the adapter as vcap with the job's configuration",
		func(ctx context.Context, job string, values properties, arguments ...string) {
			site := bareVM()
			writeFile(stand, site.vcap, "packages/odb-service-adapter/bin/service-adapter")
			Expect(os.Chmod(filepath.Join(site.vcap, "packages/odb-service-adapter/bin/service-adapter"),
				0o755)).To(Succeed())
			Expect(os.MkdirAll(filepath.Join(site.vcap, "data/service-adapter/errands"), 0o755)).To(Succeed())
			site.deploy(ctx, job, values)
			output, err := site.run(ctx, "/var/vcap/jobs/"+job+"/bin/run")
			Expect(err).To(MatchError("exit status 3"), "the exit code of the adapter is that of the errand")
			Expect(output).To(Equal(environment(job) + "<" + strings.Join(arguments, ">\n<") + ">\n"))
		},
		Entry(nil, "upgrade-bindings", properties{}, "bindings", "upgrade", "--all"),
		Entry(nil, "preview-upgrade", properties{}, "pending-changes", "--all", "--broker-config",
			"/var/vcap/jobs/broker/config/broker.yml"),
		Entry(nil, "rotate-encryption-key", properties{}, "bindings", "reencrypt"),
		Entry(nil, "destroy-instances", properties{"instances": []any{"i1", "a b'$(touch /x)", "--all"}},
			"instance", "destroy", "--", "i1", "a b'$(touch /x)", "--all"),
		Entry(nil, "destroy-instances", properties{"director": directorProperties()},
			"instance", "destroy", "--gone", "--director", "/var/vcap/jobs/destroy-instances/config/director.yml"),
		Entry(nil, "destroy-instances", properties{"instances": []any{"i1"}, "director": directorProperties()},
			"instance", "destroy", "--", "i1"),
		Entry(nil, "destroy-instances", properties{"instances": []any{"i1"}, "delete_bindings": true}, "instance",
			"destroy", "--force", "--", "i1"),
		Entry(nil, "destroy-instances", properties{"director": directorProperties(), "delete_bindings": true},
			"instance", "destroy", "--force", "--gone", "--director",
			"/var/vcap/jobs/destroy-instances/config/director.yml"),
	)

	It("is prepared without following a link that vcap put in place of its directory", func(ctx context.Context) {
		site := install(ctx, "service-adapter", someProperties("service-adapter"), "#!/bin/bash\n")
		data := site.linkDirectories("service-adapter", "prepared", "errands")
		output, err := site.preStart(ctx)
		Expect(err).NotTo(HaveOccurred(), output)
		site.expectUntouched(data, "prepared", "errands")
	})

	It("compares instances and bindings as vcap from its first command on", func(ctx context.Context) {
		site := install(ctx, "drift", properties{}, "#!/bin/bash\nps -o user= -p $PPID; ps -o args= -p $PPID\n")
		errands := filepath.Join(site.vcap, "data/service-adapter/errands")
		Expect(os.MkdirAll(errands, 0o700)).To(Succeed())
		Expect(os.Chown(errands, vcapID, vcapID)).To(Succeed())
		output, err := site.run(ctx, "/var/vcap/jobs/drift/bin/run")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal(strings.Repeat("vcap\n/bin/bash /var/vcap/jobs/drift/bin/run\n", 2)))
	})

	It("compares instances and bindings, and exits with the worse of the two exit codes", func(ctx context.Context) {
		site := bareVM()
		script := strings.Replace(stand, "exit 3", `[ "$1" != bindings ]`, 1)
		writeFile(script, site.vcap, "packages/odb-service-adapter/bin/service-adapter")
		Expect(os.Chmod(filepath.Join(site.vcap, "packages/odb-service-adapter/bin/service-adapter"),
			0o755)).To(Succeed())
		Expect(os.MkdirAll(filepath.Join(site.vcap, "data/service-adapter/errands"), 0o755)).To(Succeed())
		site.deploy(ctx, "drift", properties{})
		for _, worst := range []string{"exit status 1", "exit status 3"} {
			output, err := site.run(ctx, "/var/vcap/jobs/drift/bin/run")
			Expect(err).To(MatchError(worst))
			Expect(output).To(Equal(environment("drift") + "<instance>\n<drift>\n<--all>\n" + environment("drift") +
				"<bindings>\n<drift>\n<--all>\n"))
			writeFile(strings.Replace(stand, "exit 3", `[ "$1" = bindings ] || exit 3`, 1), site.vcap,
				"packages/odb-service-adapter/bin/service-adapter")
		}
	})

	It("destroys nothing if neither instances nor a Director are configured", func(ctx context.Context) {
		site := bareVM()
		site.deploy(ctx, "destroy-instances", properties{})
		output, err := site.run(ctx, "/var/vcap/jobs/destroy-instances/bin/run")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal("destroy-instances: neither the property instances nor director.url is set\n"))
	})
})

// directorProperties returns the properties with which an errand reaches a Director.
func directorProperties() properties {
	return properties{
		"url": "https://10.0.0.6:25555", "ca_cert": "planted\n", "client_id": "planted",
		"client_secret": "planted",
	}
}

var _ = Describe("The job destroy-instances", func() {
	const file = "config/director.yml"

	It("renders the Director's settings into a file that only the adapter can read", func(ctx context.Context) {
		for name, text := range render(ctx, "destroy-instances", properties{"director": directorProperties()}) {
			Expect(strings.Contains(text, "planted")).To(Equal(name == file), name)
		}
		Expect(render(ctx, "destroy-instances", properties{})[file]).To(MatchYAML("{}"))
	})

	It("renders every text unchanged", kit.Slow(), func(ctx context.Context) {
		for _, text := range hostile() {
			values := directorProperties()
			values["client_secret"] = text
			path := filepath.Join(kit.Directory(GinkgoT()), "director.yml")
			writeFile(render(ctx, "destroy-instances", properties{"director": values})[file], path)
			Expect(os.Chmod(path, 0o640)).To(Succeed())
			Expect(cli.ReadDirectorConfig(path)).To(Equal(&director.Config{
				URL: "https://10.0.0.6:25555", CACert: "planted\n", ClientID: "planted", ClientSecret: text.(string),
			}))
		}
	})

	DescribeTable("validates the settings of a Director",
		func(ctx context.Context, change properties, places ...string) {
			values := directorProperties()
			maps.Copy(values, change)
			Expect(complaints(ctx, "destroy-instances", properties{"director": values})).To(ConsistOf(places))
		},
		Entry("that are complete", properties{}),
		Entry("without certificates", properties{"ca_cert": nil}),
		Entry("that are absent", properties{"url": nil, "client_id": nil, "client_secret": nil}),
		Entry("without a client", properties{"client_id": nil}, "/director/client_id"),
		Entry("without a secret", properties{"client_secret": nil}, "/director/client_secret"),
		Entry("with an empty URL", properties{"url": ""}, "/director/url"),
		Entry("with a wrong type", properties{"ca_cert": 1}, "/director/ca_cert"),
	)
})
