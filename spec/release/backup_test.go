package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/hold"
	"service-adapter/spec/kit/servers"
	"service-adapter/spec/release/maker"
)

// backupJob is the name of the job with the scripts of BOSH Backup and Restore.
const backupJob = "bbr-service-adapter"

// artefact is the directory that BBR creates for the job on a VM. backupFile is the path of the file that the job
// writes to it.
const (
	artefact   = "store/bbr-backup"
	backupFile = artefact + "/states.backup"
)

// backupScripts returns the scripts of the job, rendered for both kinds of VMs and with both values of its properties,
// by name.
func backupScripts(ctx context.Context) map[string]string {
	GinkgoHelper()
	scripts := map[string]string{}
	for name, values := range map[string]properties{
		"strict": {}, "lenient": {"allow_unencrypted": true, "allow_partial": true},
	} {
		for path, text := range renderOn(ctx, backupJob, true, values) {
			scripts[name+"-"+filepath.Base(path)] = text
		}
	}
	// The scripts metadata and restore are equal or almost equal for all properties and VMs.
	delete(scripts, "lenient-metadata")
	scripts["other-vm-backup"] = renderOn(ctx, backupJob, false, properties{})["bin/bbr/backup"]
	return scripts
}

// bbr runs a script of the job as BBR does: as root, with the path of the artefact directory in the environment. It
// returns the output of the script.
func (v *vm) bbr(ctx context.Context, script string) (output string, err error) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Join(v.vcap, artefact), 0o700)).To(Succeed())
	return v.run(ctx, "env", "BBR_ARTIFACT_DIRECTORY=/var/vcap/"+artefact+"/", "/var/vcap/jobs/"+backupJob+
		"/bin/bbr/"+script)
}

// artefactFiles returns the names of the files in the artefact of a VM.
func (v *vm) artefactFiles() []string {
	GinkgoHelper()
	entries, err := os.ReadDir(filepath.Join(v.vcap, artefact))
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// backupVM returns a VM with the job. A shell script replaces the adapter, to produce situations that the real adapter
// produces only by chance.
func backupVM(ctx context.Context, values properties, program string) *vm {
	GinkgoHelper()
	v := install(ctx, backupJob, values, "#!/bin/bash\n"+program+"\n")
	Expect(os.MkdirAll(filepath.Join(v.vcap, "data/service-adapter"), 0o755)).To(Succeed())
	return v
}

var _ = Describe("The scripts of BOSH Backup and Restore", func() {
	It("declare that BBR has to lock nothing", func(ctx context.Context) {
		v := backupVM(ctx, properties{}, "exit 1")
		output, err := v.run(ctx, "/var/vcap/jobs/"+backupJob+"/bin/bbr/metadata")
		Expect(err).NotTo(HaveOccurred(), output)
		var metadata map[string]any
		Expect(yaml.Unmarshal([]byte(output), &metadata)).To(Succeed())
		Expect(metadata).To(Equal(map[string]any{
			"backup_should_be_locked_before": []any{}, "restore_should_be_locked_before": []any{},
		}))
	})

	It("run the adapter as vcap, and let only root read the backup", func(ctx context.Context) {
		v := backupVM(ctx, properties{}, `
id -un
env | grep -v '^PATH\|^_=\|^PWD\|^SHLVL' | sort
printf '<%s>\n' "$@"
if [ "$2" = export ]; then echo states >"${@: -1}"; else echo "has $(cat "${@: -1}")"; fi`)
		environment := `vcap
SERVICE_ADAPTER_CONFIG=/var/vcap/jobs/service-adapter/config/service-adapter.yml
SERVICE_ADAPTER_ERRAND=bbr-service-adapter
TMPDIR=/var/vcap/data/service-adapter/bbr
`
		output, err := v.bbr(ctx, "backup")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal(environment + "<bindings>\n<export>\n<--require-encryption>\n<states.backup>\n"))
		Expect(v.artefactFiles()).To(Equal([]string{"states.backup"}))
		Expect(readFile(v.vcap, backupFile)).To(Equal("states\n"))
		info, err := os.Stat(filepath.Join(v.vcap, backupFile))
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode()).To(BeEquivalentTo(0o600))
		Expect(stat(info).Uid).To(BeZero())
		Expect(filepath.Join(v.vcap, "data/service-adapter/bbr")).NotTo(BeADirectory())

		output, err = v.bbr(ctx, "restore")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal(environment + "<bindings>\n<import>\n<states.backup>\nhas states\n"))
		Expect(filepath.Join(v.vcap, "data/service-adapter/bbr")).NotTo(BeADirectory())
	})

	It("write and restore credentials in clear text only if the operator allows it", func(ctx context.Context) {
		v := backupVM(ctx, properties{"allow_unencrypted": true}, `echo "$@"; echo states >states.backup`)
		output, err := v.bbr(ctx, "backup")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal("bindings export states.backup\n"))
		output, err = v.bbr(ctx, "restore")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal("bindings import --accept-unencrypted states.backup\n"))
	})

	DescribeTable("back up a part of the states only if the operator allows it:",
		func(ctx context.Context, allowed bool, program, failure string, files ...string) {
			v := backupVM(ctx, properties{"allow_partial": allowed}, program)
			output, err := v.bbr(ctx, "backup")
			if failure == "" {
				Expect(err).NotTo(HaveOccurred(), output)
			} else {
				Expect(err).To(MatchError(failure), output)
			}
			Expect(append([]string{}, files...)).To(Equal(v.artefactFiles()))
		},
		Entry("states are unreadable, which is not allowed",
			false, "echo part >states.backup.partial; exit 1", "exit status 1"),
		Entry("states are unreadable, which is allowed",
			true, "echo part >states.backup.partial; exit 1", "", "states.backup"),
		Entry("the adapter fails and leaves a file", true, "echo part >states.backup.partial; exit 3", "exit status 3"),
		Entry("the adapter fails without a file", true, "exit 1", "exit status 1"),
	)

	It("do nothing on all VMs but the first one", func(ctx context.Context) {
		v := backupVM(ctx, properties{}, "echo must not run; exit 1")
		v.install(backupJob, renderOn(ctx, backupJob, false, properties{}))
		for _, script := range []string{"backup", "restore"} {
			output, err := v.bbr(ctx, script)
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(output).To(BeEmpty())
		}
		Expect(v.artefactFiles()).To(Equal([]string{"backed-up-by-another-vm"}))
	})

	It("report an error if the artefact contains no backup", func(ctx context.Context) {
		v := backupVM(ctx, properties{}, "exit 0")
		output, err := v.bbr(ctx, "restore")
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring("has no file states.backup"))
	})

	It("do not run concurrently, and leave no directory that disturbs the next run when they are killed",
		func(ctx context.Context) {
			v := backupVM(ctx, properties{}, "echo half >states.backup; echo began; sleep 1000")
			Expect(os.MkdirAll(filepath.Join(v.vcap, artefact), 0o700)).To(Succeed())
			first := exec.CommandContext(ctx, "./container", "vm", v.vcap, "env",
				"BBR_ARTIFACT_DIRECTORY=/var/vcap/"+artefact, "/var/vcap/jobs/"+backupJob+"/bin/bbr/backup")
			Expect(first.Start()).To(Succeed())
			Eventually(func() error {
				_, err := os.Stat(filepath.Join(v.vcap, "data/service-adapter/bbr/states.backup"))
				return err
			}).Should(Succeed())

			// a second backup would otherwise wait for a long time
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			second, err := v.bbr(soon, "backup")
			Expect(err).To(MatchError("exit status 1"))
			Expect(second).To(ContainSubstring("another backup or restore of the service adapter is running"))

			Expect(first.Process.Kill()).To(Succeed())
			Expect(first.Wait()).NotTo(Succeed())
			Expect(v.artefactFiles()).To(BeEmpty(), "an incomplete file is not a backup")
			writeFile("#!/bin/bash\necho whole >states.backup\n", v.vcap,
				"packages/odb-service-adapter/bin/service-adapter")
			var failure error
			Eventually(func() (output string) {
				output, failure = v.bbr(ctx, "backup")
				return output
			}).ShouldNot(ContainSubstring("is running"), "the lock ends with the last process of the killed script")
			Expect(failure).NotTo(HaveOccurred())
			Expect(readFile(v.vcap, backupFile)).To(Equal("whole\n"))
		})
})

var _ = Describe("The installed release, backed up and restored", kit.Slow(), func() {
	It("moves bindings to an empty backend of another type while other binds continue", func(ctx context.Context) {
		pak := filepath.Join(kit.Directory(GinkgoT()), "entries.brokerpak")
		bin := "bin/" + runtime.GOOS + "/" + runtime.GOARCH
		makePak(filepath.Join("testdata", "pak"), pak, map[string]string{
			bin + "/" + kit.Newest + "/tofu":             kit.OpenTofu(GinkgoT(), kit.Newest),
			bin + "/terraform-provider-directory_v1.0.0": kit.Provider(GinkgoT(), "directory"),
		})
		tarball, _ := makeRelease(ctx, maker.Content{Binary: adapterBinary, Paks: []string{pak}})
		entries := kit.Directory(GinkgoT())
		Expect(os.Chown(entries, vcapID, vcapID)).To(Succeed())

		deploy := func(state properties) *vm {
			GinkgoHelper()
			v := newVM(ctx, tarball)
			v.shares, v.online = []string{entries}, true
			for _, name := range []string{"odb-service-adapter", "service-adapter-paks"} {
				output, err := v.compile(ctx, name)
				Expect(err).NotTo(HaveOccurred(), output)
			}
			values := deployed()
			state["encryption"] = properties{"key": key('n')}
			values["state"] = state
			values["services"] = properties{"entries": properties{"bind_defaults": properties{"path": entries}}}
			v.deploy(ctx, "service-adapter", values)
			v.deploy(ctx, backupJob, properties{})
			output, err := v.preStart(ctx)
			Expect(err).NotTo(HaveOccurred(), output)
			return v
		}
		old := deploy(properties{"type": "local", "config": properties{"dir": stateDir}})
		i := instance()
		created := old.call(ctx, "generate-manifest", i.Generate(appBody(i)))
		Expect(created.Exit).To(BeZero(), created.Stderr)
		Expect(i.Deploy(created.Stdout)).To(Succeed())
		credentials := map[string]string{}
		for n := range 3 {
			id := "b" + strconv.Itoa(n)
			bound := old.call(ctx, "create-binding", i.Bind(id, appBody(i)))
			Expect(bound.Exit).To(BeZero(), bound.Stderr)
			credentials[id] = bound.Stdout
		}
		// A bind is paused while the provider creates its resource, so that it runs throughout the backup.
		at := hold.Point{Name: "after-create", Dir: entries, Provider: true}
		at.Hold()
		during := make(chan broker.Answer, 1)
		go func() {
			defer GinkgoRecover()
			during <- old.call(ctx, "create-binding", i.Bind("meanwhile", appBody(i)))
		}()
		at.Reached()
		output, err := old.bbr(ctx, "backup")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(during).NotTo(Receive())
		at.Release()
		Expect((<-during).Exit).To(BeZero())
		text := readFile(old.vcap, backupFile)
		for _, bound := range credentials {
			var binding struct{ Credentials map[string]string }
			Expect(json.Unmarshal([]byte(bound), &binding)).To(Succeed())
			Expect(text).NotTo(ContainSubstring(binding.Credentials["password"]))
			Expect(output).NotTo(ContainSubstring(binding.Credentials["password"]))
		}

		database := servers.Run(GinkgoT(), servers.PostgreSQL)
		Expect(database.CreateDatabase(ctx, "states")).To(Succeed())
		restored := deploy(properties{"type": "pg", "config": properties{"conn_str": database.DSN("states")}})
		writeFile(text, restored.vcap, backupFile)

		By("killing the first restore")
		killed := exec.CommandContext(ctx, "./container", "vm", restored.vcap, "env",
			"BBR_ARTIFACT_DIRECTORY=/var/vcap/"+artefact, "/var/vcap/jobs/"+backupJob+"/bin/bbr/restore")
		killed.Env = append(os.Environ(), restored.environment()...)
		Expect(killed.Start()).To(Succeed())
		Eventually(func() error {
			_, err := os.Stat(filepath.Join(restored.vcap, "data/service-adapter/bbr/states.backup"))
			return err
		}).Should(Succeed())
		Expect(killed.Process.Kill()).To(Succeed())
		_ = killed.Wait()

		By("a second restore")
		Eventually(func() (err error) {
			output, err = restored.bbr(ctx, "restore")
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		}).Should(Succeed())
		output, err = restored.bbr(ctx, "restore")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(MatchRegexp(`(?m)^[34] current$`), "restored states are not changed")

		for id := range credentials {
			Expect(restored.call(ctx, "create-binding", i.Bind(id, appBody(i))).Exit).To(Equal(49),
				"the binding exists")
			unbound := restored.call(ctx, "delete-binding", i.Bind(id, appBody(i)))
			Expect(unbound.Exit).To(BeZero(), unbound.Stderr)
			Expect(filepath.Join(entries, id)).NotTo(BeAnExistingFile())
		}
	})
})
