package acceptance_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// planted returns a secret that must not be visible. Each source of values has its own secret.
func planted(source string) string { return "planted-in-" + source + "-0123456789" }

var _ = Describe("a secret", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.site.set(object{"log_level": "debug"})
		b.site.env = append(b.site.env, "DB_PASSWORD="+planted("environment"), "TF_VAR_content="+planted("tfvar"),
			"HOME=/nowhere")
		b.deploy(ctx, nil)
		for reference := range b.Secrets {
			b.Secrets[reference] = planted("secrets")
		}
		b.Secrets["((other))"] = planted("other")
	})

	expectUnseen := func(got answer) {
		GinkgoHelper()
		Expect(got.Stderr).NotTo(ContainSubstring("planted-in-"))
	}

	It("is not on standard error, whichever input contains it", func(ctx context.Context) {
		parameters := b.Generate(b.body(object{"text": planted("parameter")}))
		parameters["uaa_client"] = object{"client_id": "inst-1", "client_secret": planted("uaa"), "name": "n"}
		expectUnseen(b.call(ctx, generateManifest, parameters))
		secret := object{"content": planted("parameter"), "tree": object{"deep": []any{planted("tree")}}}
		expectUnseen(b.bind(ctx, "bind-1", secret))
		expectUnseen(b.bind(ctx, "bind-1", secret))
		expectUnseen(b.unbind(ctx, "bind-1"))
		expectUnseen(b.unbind(ctx, "bind-1"))
	})

	It("is not on standard error of a command that fails", func(ctx context.Context) {
		parameters := b.Generate(b.body(object{
			"number": planted("number"), "text": planted("parameter"),
			planted("name"): 1,
		}))
		parameters["uaa_client"] = object{"client_id": "inst-1", "client_secret": planted("uaa")}
		got := b.call(ctx, generateManifest, parameters)
		Expect(got.Exit).To(Equal(1))
		Expect(strings.ReplaceAll(got.Stderr, planted("name"), "")).NotTo(ContainSubstring("planted-in-"))
		for _, change := range []func(object){
			func(p object) { p["previous_secrets"] = `{"((a))": "` + planted("broken") + `", ` },
			func(p object) { p["previous_secrets"] = `["` + planted("list") + `"]` },
			func(p object) { p["uaa_client"] = `"` + planted("text") + `"` },
			func(p object) { p["request_parameters"] = `{"parameters":{"text":"` + planted("broken") },
			func(p object) { p["previous_manifest"] = "brokerpak: [" + planted("manifest") },
			func(p object) { p["previous_manifest"] = "brokerpak: " + planted("record") + "\n" },
			func(p object) { p["plan"] = `{"properties":{"password":"` + planted("plan") + `"}}` },
			func(p object) { p["plan"] = `{"instance_groups":"` + planted("plan") + `"}` },
		} {
			broken := maps.Clone(parameters)
			broken["request_parameters"] = b.body(nil)
			change(broken)
			got := b.call(ctx, generateManifest, broken)
			Expect(got.Exit).To(Equal(1), got.Stderr)
			expectUnseen(got)
			Expect(got.Stdout).NotTo(ContainSubstring("planted-in-"))
		}
		got = b.bind(ctx, "bind-1",
			object{"failure": diskFull, "content": planted("parameter"), "tree": planted("tree")})
		Expect(got.Exit).To(Equal(1))
		expectUnseen(got)
		const generated = "7Hq2xP0vLk9dWm4RtZ"
		got = b.bind(ctx, "bind-1", object{"path": "/" + generated})
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(And(ContainSubstring("Writing entry: open "), Not(ContainSubstring(generated))))
		// The path is not a secret, so the error may contain it.
		got = b.bind(ctx, "bind-1", object{"path": "/missing/orders"})
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stderr).To(ContainSubstring("Writing entry: open /missing/orders/"))
	})

	It("is neither an argument nor in the environment of a process, and files are private",
		func(ctx context.Context) {
			at := b.site.point(afterCreate)
			at.Hold()
			creation := b.start(createBinding,
				b.bindParameters("bind-1", object{"content": planted("parameter"), "tree": planted("tree")}))
			provider := at.Reached()
			for _, pid := range []int{creation.Process.Pid, b.site.tofu("bind-1"), provider} {
				arguments, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
				Expect(err).NotTo(HaveOccurred())
				Expect(string(arguments)).NotTo(ContainSubstring("planted-in-"))
			}
			for _, pid := range []int{b.site.tofu("bind-1"), provider} {
				text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
				Expect(err).NotTo(HaveOccurred())
				Expect(string(text)).NotTo(ContainSubstring("planted-in-"))
				variables := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
				Expect(slices.ContainsFunc(variables, func(v string) bool {
					return strings.HasPrefix(v, "HOME="+b.site.dir)
				})).To(BeTrue(), "%q", variables)
			}
			Expect(modes(b.site.cache())).To(BeEmpty())
			Expect(modes(b.site.state())).To(BeEmpty())
			at.Release()
			Expect(credentials(creation.Wait())["admin_password"]).To(Equal(planted("secrets")))
			Expect(modes(b.site.cache())).To(BeEmpty())
			Expect(modes(b.site.state())).To(BeEmpty())
		})

	It("in an environment variable reaches OpenTofu only if the pak requires the variable", func(ctx context.Context) {
		manifest, err := os.ReadFile(filepath.Join(b.site.pak, "manifest.yml"))
		Expect(err).NotTo(HaveOccurred())
		b.site.write("manifest.yml", string(manifest)+"required_env_variables: [DB_PASSWORD]\n")
		at := b.site.point(afterCreate)
		at.Hold()
		creation := b.start(createBinding, b.bindParameters("bind-1", nil))
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(at.Reached()), "environ"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("DB_PASSWORD=" + planted("environment") + "\x00"))
		at.Release()
		expectUnseen(creation.Wait())

		b.site.env = nil
		expectBroken(b.bind(ctx, "bind-2", nil),
			"requires DB_PASSWORD, which is neither an environment variable nor a key of `config`")
	})
})
