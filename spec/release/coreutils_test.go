package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// rustCoreutils is the directory of the coreutils that are written in Rust, as Debian's package installs them.
const rustCoreutils = "/usr/lib/cargo/bin/coreutils"

// busy is a program in the place of the adapter that shows who runs it, and how, and writes a file wherever the adapter
// does: to its temporary directory, to a backup, and to the directory of an unpacked pak.
const busy = `#!/bin/bash
id
umask
pwd
env | grep -v '^_=\|^SHLVL' | sort
printf '<%s>\n' "$@"
[ -z "${TMPDIR-}" ] || echo temporary >"$TMPDIR/file"
case "$*" in
*export*) echo states >states.backup ;;
*import*) cat states.backup ;;
"pak unpack"*) mkdir "$4" && cp "$3" "$4/unpacked" ;;
esac
`

// someProperties returns the properties with which a job is rendered to run its scripts.
func someProperties(job string) properties {
	switch job {
	case "service-adapter":
		return with(properties{"state": properties{"type": "local", "config": properties{"dir": stateDir + "/a b"}}})
	case "destroy-instances":
		return properties{"instances": []any{"i1"}}
	case "apply-instance", "destroy-instance":
		return errand(job, nil)
	default:
		return properties{}
	}
}

// tree describes all files below a directory, one a line: the path, the mode, the owner and the content.
func tree(dir string) string {
	GinkgoHelper()
	var lines []string
	for path, info := range files(dir) {
		line := fmt.Sprintf("%s %s %d:%d", path, info.Mode(), stat(info).Uid, stat(info).Gid)
		if info.Mode().IsRegular() {
			line += fmt.Sprintf(" %q", readFile(dir, path))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// prepareVM returns a VM with the program busy as the adapter, the directories that pre-start creates, and the artefact
// of a backup.
func prepareVM(coreutils string) *vm {
	GinkgoHelper()
	v := bareVM()
	v.coreutils = coreutils
	program := filepath.Join(v.vcap, "packages/odb-service-adapter/bin/service-adapter")
	writeFile(busy, program)
	Expect(os.Chmod(program, 0o755)).To(Succeed())
	errands := filepath.Join(v.vcap, "data/service-adapter/errands")
	Expect(os.MkdirAll(errands, 0o700)).To(Succeed())
	Expect(os.Chown(errands, vcapID, vcapID)).To(Succeed())
	writeFile("states of the backup\n", v.vcap, backupFile)
	return v
}

var _ = Describe("With the coreutils that are written in Rust", func() {
	BeforeEach(func() {
		kit.Program(GinkgoT(), filepath.Join(rustCoreutils, "install"), "scripts/install rust-coreutils")
	})

	// expectSame runs a command on a VM with either coreutils, and asserts that it does the same.
	expectSame := func(ctx context.Context, prepare func(v *vm), command ...string) {
		GinkgoHelper()
		var outputs, trees []string
		for _, coreutils := range []string{"", rustCoreutils} {
			v := prepareVM(coreutils)
			prepare(v)
			for range 2 { // scripts run again when something changes, and when nothing does
				output, err := v.run(ctx, command...)
				Expect(err).NotTo(HaveOccurred(), output)
				outputs, trees = append(outputs, output), append(trees, tree(v.vcap))
			}
		}
		Expect(outputs[0]).NotTo(BeEmpty())
		Expect(outputs[2:]).To(Equal(outputs[:2]))
		Expect(trees[2:]).To(Equal(trees[:2]))
	}

	It("runs them in a VM", func(ctx context.Context) {
		output, err := prepareVM(rustCoreutils).run(ctx, "install", "--version")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).NotTo(ContainSubstring("GNU"))
	})

	for _, job := range jobs() {
		It("runs the scripts of "+job, kit.SlowIf(job != "apply-instance"), func(ctx context.Context) {
			rendered := render(ctx, job, someProperties(job))
			scripts := 0
			for name := range rendered {
				if !strings.HasPrefix(name, "bin/") {
					continue
				}
				scripts++
				expectSame(ctx, func(v *vm) { v.install(job, rendered) },
					"env", "BBR_ARTIFACT_DIRECTORY=/var/vcap/"+artefact, "/var/vcap/jobs/"+job+"/"+name)
			}
			Expect(scripts).To(BeNumerically(">", 0))
		})
	}

	DescribeTable("compiles the package", func(ctx context.Context, name string, sources ...string) {
		expectSame(ctx, func(v *vm) {
			for _, source := range sources {
				writeFile("content of "+source, v.vcap, "data/compile", source)
			}
			Expect(os.RemoveAll(filepath.Join(v.vcap, "data/target"))).To(Succeed())
			writeFile(readFile(kit.Path("packages", name, "packaging")), v.vcap, "data/compile/packaging")
		}, "/bin/bash", "-c", `cd /var/vcap/data/compile && rm -rf ../target && mkdir ../target &&
			BOSH_INSTALL_TARGET=/var/vcap/data/target bash -x packaging`)
	},
		Entry(nil, "odb-service-adapter", "service-adapter/service-adapter", "service-adapter/THIRD_PARTY_LICENSES"),
		Entry(nil, "service-adapter-paks", "brokerpaks/a.brokerpak", "brokerpaks/b c.brokerpak"),
	)
})
