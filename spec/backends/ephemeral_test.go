package backends_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// ephemeralTemplate is a template with ephemeral variables. The provider block reads "administrator" and, if
// readsParameter is set, the parameter "phrase". All of them but "administrator" are values of write-only attributes.
func ephemeralTemplate(readsParameter bool) string {
	password, locals := "var.administrator", ""
	if readsParameter {
		password, locals = "local.password", `locals { password = "${var.administrator}${var.phrase}" }`
	}
	return `
    terraform {
      required_providers {
        directory = {
          source  = "registry.terraform.io/service-adapter/directory"
          version = "1.0.0"
        }
      }
    }
    variable "path" {}
    variable "name" {}
    variable "password_file" {}
    variable "administrator" {
      ephemeral = true
      sensitive = true
    }
    variable "token" { ephemeral = true }
    variable "phrase" { ephemeral = true }
    variable "random" { ephemeral = true }
    ` + locals + `
    provider "directory" {
      password      = ` + password + `
      password_file = var.password_file
    }
    resource "directory_entry" "account" {
      path        = var.path
      name        = "${var.name}-account"
      password_wo = var.token
    }
    resource "directory_entry" "user" {
      path                = var.path
      name                = "${var.name}-user"
      password_wo         = var.phrase
      password_wo_version = "1"
    }
    resource "directory_entry" "random" {
      path        = var.path
      name        = "${var.name}-random"
      password_wo = var.random
    }
    output "secret" {
      value     = directory_entry.account.secret
      sensitive = true
    }
`
}

// ephemeralPak returns the directory of a pak whose bind template has ephemeral variables: "administrator" of the
// deployed manifest, "token" of the operator's configuration, "phrase" of the user and "random", which is generated.
func ephemeralPak(readsParameter bool) string {
	GinkgoHelper()
	return entriesPak(fmt.Sprintf("ephemeral-%t", readsParameter), `provision:
  bosh:
    manifest: |
      instance_groups:
      - name: server
        jobs: [{name: server}]
    dashboard_url: https://example.com/dashboard
bind:
  user_inputs:
  - {field_name: path, type: string, required: true, details: The directory}
  - {field_name: password_file, type: string, required: true, details: The accepted password}
  - {field_name: phrase, type: string, default: "", details: A secret of the user}
  computed_inputs:
  - {name: name, type: string, default: '${request.binding_id}', overwrite: true}
  - {name: source, type: string, default: '${manifest.get("/greeting")}', overwrite: true}
  - {name: administrator, type: string, default: '${source}', overwrite: true}
  - {name: token, type: string, default: '${config("entries.greeting")}', overwrite: true}
  - {name: random, type: string, default: '${rand.base64(12)}', overwrite: true}
  template: |`+ephemeralTemplate(readsParameter)+`  outputs:
  - {field_name: secret, type: string, details: The secret of the account}
`)
}

// entriesPak returns the directory of a pak with the service "entries", whose sections provision and bind are the
// YAML text of actions. Two calls with the same name share the pak, so its actions must be the same.
func entriesPak(name, actions string) string {
	GinkgoHelper()
	pak := filepath.Join(suite.dir, "pak-"+name)
	if _, err := os.Stat(pak); err == nil {
		return pak
	}
	return makePak(entriesSource(name, actions), kit.Newest)
}

// entriesSource writes the source of such a pak, and returns its directory, which has this name.
func entriesSource(name, actions string) string {
	GinkgoHelper()
	source := filepath.Join(suite.dir, name)
	Expect(os.MkdirAll(source, 0o700)).To(Succeed())
	manifest := read(kit.Path("spec", "acceptance", "testdata", "paks", "entries", "manifest.yml"))
	for file, text := range map[string]string{
		"manifest.yml": manifest,
		"entries.yml": `version: 1
name: entries
id: ` + entriesService + `
description: A service with secrets
display_name: Entries
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plan_updateable: true
plans:
- {name: standard, id: ` + entriesPlan + `, description: One, display_name: One}
` + actions,
	} {
		Expect(os.WriteFile(filepath.Join(source, file), []byte(text), 0o600)).To(Succeed())
	}
	return source
}

// ephemeralSite is a machine with a deployed instance of the ephemeral pak.
type ephemeralSite struct {
	*machine
	accepted string // the file with the password that the provider accepts, which is not searched
}

// newEphemeralSite deploys an instance whose manifest contains the password of the administrator at a harmless key.
func (w *world) newEphemeralSite(ctx context.Context, readsParameter bool) *ephemeralSite {
	GinkgoHelper()
	m := w.bareMachine()
	s := &ephemeralSite{machine: m, accepted: filepath.Join(GinkgoT().TempDir(), "accepted")}
	m.env = append(m.env, "GSB_ENTRIES_GREETING="+ephemeralValue("configuration"))
	m.set(object{
		"paks": []string{ephemeralPak(readsParameter)}, "log_level": "debug",
		"services": object{"entries": object{
			"bind_defaults": object{"path": w.entries, "password_file": s.accepted},
		}},
		"audit_log":       filepath.Join(w.dir, "audit.log"),
		"record_requests": filepath.Join(w.dir, "requests"),
	})
	m.deploy(ctx)
	s.setPassword(ephemeralValue("administrator"))
	return s
}

// setPassword deploys a password of the administrator, which the provider accepts from then on.
func (s *ephemeralSite) setPassword(password string) {
	GinkgoHelper()
	deployed, _, _ := strings.Cut(s.Manifest, "greeting: ")
	greeting, err := json.Marshal(password)
	Expect(err).NotTo(HaveOccurred())
	s.Manifest = deployed + "greeting: " + string(greeting) + "\n" // JSON is YAML
	s.accept(password)
}

// accept makes the provider accept only this password.
func (s *ephemeralSite) accept(password string) {
	GinkgoHelper()
	Expect(os.WriteFile(s.accepted, []byte(password), 0o600)).To(Succeed())
}

// bindRequest returns the parameters of create-binding, with a secret of the user.
func (s *ephemeralSite) bindRequest(id string) object {
	return s.Bind(id, object{
		"context": object{"platform": "cloudfoundry"}, "service_id": s.ServiceID, "plan_id": s.PlanID,
		"parameters": object{"phrase": ephemeralValue("parameter")},
	})
}

// digest returns the hash of the password that the provider received for an entry.
func (s *ephemeralSite) digest(name string) string {
	GinkgoHelper()
	var entry struct{ Digest string }
	Expect(json.Unmarshal([]byte(read(filepath.Join(s.world.entries, name))), &entry)).To(Succeed())
	return entry.Digest
}

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// ephemeralCore returns the part of ephemeralValue that no program escapes, however often a value is encoded in JSON.
func ephemeralCore(from string) string { return "Core4711of" + from + "Value" }

// ephemeralValue returns the value of an ephemeral variable, with characters that programs escape.
func ephemeralValue(from string) string { return `é "<` + ephemeralCore(from) + `>" ?` }

// ephemeralLeaks returns the values of ephemeral variables that a text contains: as they are, escaped, in hexadecimal
// and in base64, and the keys of generated values in records.
func ephemeralLeaks(content []byte) []string {
	found := []string{}
	for _, from := range []string{"administrator", "rotated", "configuration", "parameter"} {
		core := ephemeralCore(from)
		for _, form := range append(formsOf(core), fmt.Sprintf("%x", core)) {
			if bytes.Contains(content, []byte(form)) {
				found = append(found, form)
			}
		}
	}
	if bytes.Contains(content, []byte("rand.base64#")) {
		found = append(found, "rand.base64#")
	}
	return found
}

// expectSilent asserts the exit status of a command and that its output shows no ephemeral value, and returns the
// answer.
func expectSilent(got answer, exit int) answer {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(exit), "%+v", got)
	Expect(ephemeralLeaks([]byte(got.Stdout + got.Stderr))).To(BeEmpty())
	return got
}

// expectNowhere asserts that no byte that the commands left has an ephemeral value: in a file of the world, also in
// archives, in the database or in the bucket. It returns the number of files and archive entries.
func (w *world) expectNowhere(ctx context.Context) (searched int) {
	GinkgoHelper()
	search := func(where string, content []byte) {
		GinkgoHelper()
		Expect(ephemeralLeaks(content)).To(BeEmpty(), where)
		searched++
	}
	dirs := []string{w.dir, w.location}
	if w.server != nil {
		dirs = []string{w.dir, w.server.Dir}
	}
	for _, dir := range dirs {
		Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil //nolint:nilerr // a server may remove a file meanwhile
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return nil //nolint:nilerr // a server may remove a file meanwhile
			}
			search(path, content)
			for name, unpacked := range unpack(content) {
				search(path+" "+name, unpacked)
			}
			return nil
		})).To(Succeed())
	}
	if w.kind == pg {
		programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		Expect(err).NotTo(HaveOccurred())
		Expect(programs).NotTo(BeEmpty())
		dump, err := exec.CommandContext(ctx, programs[len(programs)-1], "--dbname", w.server.DSN(w.location)).Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(dump)).To(ContainSubstring("terraform_remote_state"))
		search("pg_dump", dump)
	}
	return searched
}

// unpack returns the content of a gzip file or of the entries of a zip file, by name. It returns nil for other files.
func unpack(content []byte) map[string][]byte {
	GinkgoHelper()
	if compressed, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
		text, err := io.ReadAll(compressed)
		Expect(err).NotTo(HaveOccurred())
		return map[string][]byte{"gunzip": text}
	}
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil
	}
	entries := map[string][]byte{}
	for _, file := range archive.File {
		reader, err := file.Open()
		Expect(err).NotTo(HaveOccurred())
		entries[file.Name], err = io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
	}
	return entries
}

var _ = Describe("ephemeral variables", func() {
	DescribeTable("are stored nowhere, and evaluated again",
		func(ctx context.Context, kind string, encrypted bool) {
			w := newWorld(ctx, kind)
			if encrypted {
				w.encrypt()
			}
			s := w.newEphemeralSite(ctx, false)
			silent := func(got answer, exit int) answer {
				GinkgoHelper()
				expectSilent(got, exit)
				w.expectNowhere(ctx)
				return got
			}
			silent(s.call(ctx, createBinding, s.bindRequest("b-1")), 0)
			Expect(s.digest("b-1-account")).To(Equal(digestOf(ephemeralValue("configuration"))))
			Expect(s.digest("b-1-user")).To(Equal(digestOf(ephemeralValue("parameter"))))
			Expect(s.digest("b-1-random")).NotTo(BeEmpty())
			silent(s.call(ctx, createBinding, s.bindRequest("b-1")), 49)
			silent(s.call(ctx, createBinding, s.Bind("b-1", object{"parameters": object{
				"phrase": ephemeralValue("parameter"), "unknown": 1,
			}})), 1)

			expectSilent(s.call(ctx, "dashboard-url",
				object{"instance_id": "inst-1", "plan": s.Plan, "manifest": s.Manifest}), 0)
			updated := s.call(ctx, generateManifest, s.Generate(object{}))
			Expect(updated.Exit).To(Equal(0), updated.Stderr)
			w.expectNowhere(ctx)
			exported := filepath.Join(w.dir, "export")
			for _, command := range []string{
				"bindings list --json", "bindings show b-1 --json", "bindings show b-1 --inputs", "metrics",
				"bindings export " + exported, "bindings state pull b-1 --output " + exported + ".state",
				"bindings state exec b-1 -- state list",
			} {
				silent(s.run(ctx, "", strings.Fields(command)...), 0)
			}
			Expect(read(exported)).NotTo(BeEmpty())

			By("killing binds")
			for id, where := range map[string]string{"b-2": beforeApply, "b-3": afterApply} {
				got := s.killed(createBinding, s.bindRequest(id), where, theMachine)
				Expect(ephemeralLeaks([]byte(got.Stderr))).To(BeEmpty())
				w.expectNowhere(ctx)
			}
			for _, id := range []string{"b-2", "b-3"} {
				w.ageLocks(id)
				silent(s.call(ctx, deleteBinding, s.unbindParameters(id)), 0)
			}

			By("rotating the password of the administrator")
			s.setPassword(ephemeralValue("rotated"))
			got := silent(s.call(ctx, deleteBinding, s.unbindParameters("b-1")), 0)
			Expect(got.Stderr).To(ContainSubstring("variable=phrase"))
			Expect(list(filepath.Join(w.dir, "requests"))).NotTo(BeEmpty())
			Expect(read(filepath.Join(w.dir, "audit.log"))).NotTo(BeEmpty())
			Expect(w.expectNowhere(ctx)).To(BeNumerically(">", 10))
			w.expectNothingLeft()
		},
		Entry("on local", local, false),
		Entry("on pg", kit.Slow(), pg, false),
		Entry("on s3", s3, false),
		Entry("on local with encryption", kit.Slow(), local, true),
		Entry("on pg with encryption", kit.Slow(), pg, true),
		Entry("on s3 with encryption", kit.Slow(), s3, true),
	)

	It("that a provider block reads are supplied if they cannot be evaluated", func(ctx context.Context) {
		w := newWorld(ctx, local)
		s := w.newEphemeralSite(ctx, true)
		s.accept(ephemeralValue("administrator") + ephemeralValue("parameter"))
		expectSilent(s.call(ctx, createBinding, s.bindRequest("b-1")), 0)
		got := expectSilent(s.call(ctx, deleteBinding, s.unbindParameters("b-1")), 1)
		Expect(got.Stderr).To(ContainSubstring(`a provider block reads the ephemeral variable \"phrase\" ` +
			"(it was a parameter of the request), whose value is not stored"))
		Expect(got.Stderr).To(ContainSubstring("service-adapter bindings delete b-1 --input phrase=FILE"))
		Expect(w.resources()).To(HaveLen(3))
		inputs := GinkgoT().TempDir()
		secret := writeInput(inputs, "secret", ephemeralValue("parameter")+"\n")
		admin := writeInput(inputs, "admin", ephemeralValue("administrator"))
		remove := func(exit int, arguments ...string) answer {
			GinkgoHelper()
			arguments = append([]string{"bindings", "delete", "b-1"}, arguments...)
			return expectSilent(s.run(ctx, "", arguments...), exit)
		}
		got = remove(1, "--input", "phrase="+secret)
		Expect(got.Stderr).To(ContainSubstring("--input administrator=FILE"))
		got = remove(1, "--input", "phrase="+secret, "--input", "path="+secret)
		Expect(got.Stderr).To(ContainSubstring("--input path: the binding b-1 has no ephemeral input of this name; " +
			"it has administrator, phrase, random, source, token"))
		Expect(w.resources()).To(HaveLen(3))
		remove(0, "--input", "phrase="+secret, "--input", "administrator="+admin)
		w.expectNowhere(ctx)
		w.expectNothingLeft()
	})
})

// ephemeralInstancePak returns the directory of a pak whose provision template has the variables of the bind template:
// "administrator" of the configuration, which the provider block reads, "token" of the configuration, "phrase" of the
// user, which the provider block reads if readsParameter is set, and "random", which is generated.
func ephemeralInstancePak(readsParameter bool) string {
	GinkgoHelper()
	return entriesPak(fmt.Sprintf("ephemeral-instance-%t", readsParameter), `provision:
  user_inputs:
  - {field_name: path, type: string, required: true, details: The directory}
  - {field_name: password_file, type: string, required: true, details: The accepted password}
  - {field_name: note, type: string, default: "", details: A text}
  - {field_name: phrase, type: string, default: "", details: A secret of the user}
  computed_inputs:
  - {name: name, type: string, default: '${request.instance_id}', overwrite: true}
  - {name: administrator, type: string, default: '${config("entries.administrator")}', overwrite: true}
  - {name: token, type: string, default: '${config("entries.greeting")}', overwrite: true}
  - {name: random, type: string, default: '${rand.base64(12)}', overwrite: true}
  bosh:
    manifest: |
      instance_groups:
      - name: server
        jobs: [{name: server}]
  template: |`+ephemeralTemplate(readsParameter)+`
    variable "note" {}
    resource "directory_entry" "note" {
      path    = var.path
      name    = "${var.name}-note"
      content = var.note
    }
  outputs:
  - {field_name: secret, type: string, details: The secret of the account}
bind: {}
`)
}

var _ = Describe("ephemeral variables of instances", func() {
	// provisioned returns a machine whose instance does not exist yet, and the request that creates or changes it.
	provisioned := func(w *world, readsParameter bool) (*ephemeralSite, func(parameters object) object) {
		GinkgoHelper()
		m := w.bareMachine()
		s := &ephemeralSite{machine: m, accepted: filepath.Join(GinkgoT().TempDir(), "accepted")}
		m.env = append(m.env, "GSB_ENTRIES_GREETING="+ephemeralValue("configuration"),
			"GSB_ENTRIES_ADMINISTRATOR="+ephemeralValue("administrator"))
		m.set(object{
			"paks": []string{ephemeralInstancePak(readsParameter)}, "log_level": "debug",
			"services": object{"entries": object{
				"provision_defaults": object{"path": w.entries, "password_file": s.accepted},
			}},
			"audit_log":       filepath.Join(w.dir, "audit.log"),
			"record_requests": filepath.Join(w.dir, "requests"),
		})
		return s, func(parameters object) object {
			return m.Generate(object{
				"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID,
				"parameters": parameters,
			})
		}
	}

	DescribeTable("are stored nowhere, and evaluated again",
		func(ctx context.Context, kind string) {
			w := newWorld(ctx, kind)
			s, request := provisioned(w, false)
			s.accept(ephemeralValue("administrator"))
			silent := func(got answer) answer {
				GinkgoHelper()
				expectSilent(got, 0)
				w.expectNowhere(ctx)
				return got
			}
			got := silent(s.call(ctx, generateManifest, request(object{"phrase": ephemeralValue("parameter")})))
			Expect(s.digest("inst-1-account")).To(Equal(digestOf(ephemeralValue("configuration"))))
			Expect(s.digest("inst-1-user")).To(Equal(digestOf(ephemeralValue("parameter"))))
			Expect(s.digest("inst-1-random")).NotTo(BeEmpty())
			Expect(s.Deploy(got.Stdout)).To(Succeed())

			By("checking for pending changes, and changing another input")
			same := silent(s.call(ctx, generateManifest, s.Generate(object{})))
			var after struct{ Manifest string }
			Expect(json.Unmarshal([]byte(same.Stdout), &after)).To(Succeed())
			Expect(after.Manifest).To(MatchYAML(s.Manifest))
			Expect(ephemeralLeaks([]byte(s.Manifest))).To(BeEmpty())
			got = silent(s.call(ctx, generateManifest, request(object{"note": "another"})))
			Expect(got.Stderr).To(ContainSubstring("command=apply"))
			Expect(s.Deploy(got.Stdout)).To(Succeed())
			Expect(s.digest("inst-1-user")).To(Equal(digestOf(ephemeralValue("parameter"))))
			got = silent(s.call(ctx, generateManifest, request(object{"note": "another"})))
			Expect(got.Stderr).NotTo(ContainSubstring("command=apply"), "ephemeral values are not compared")

			for _, command := range []string{
				"instance list --json", "instance show inst-1 --json", "instance show inst-1 --inputs",
				"instance apply inst-1", "instance apply inst-1 --dry-run", "instance drift inst-1",
				"instance upgrade inst-1", "bindings export " + filepath.Join(w.dir, "export"),
				"instance state exec inst-1 -- plan -no-color",
			} {
				silent(s.run(ctx, "", strings.Fields(command)...))
			}
			s.killed(generateManifest, request(object{"note": "third", "phrase": ephemeralValue("parameter")}),
				beforeApply, theMachine)
			w.expectNowhere(ctx)
			w.ageLocks("inst-1")
			silent(s.run(ctx, "", "instance", "destroy", "inst-1"))
			w.expectNothingLeft()
		},
		Entry("on local", local),
		Entry("on pg", kit.Slow(), pg),
	)

	It("that a provider block reads are supplied if they cannot be evaluated", func(ctx context.Context) {
		w := newWorld(ctx, local)
		s, request := provisioned(w, true)
		s.accept(ephemeralValue("administrator") + ephemeralValue("parameter"))
		got := expectSilent(s.call(ctx, generateManifest,
			request(object{"phrase": ephemeralValue("parameter")})), 0)
		Expect(s.Deploy(got.Stdout)).To(Succeed())
		got = expectSilent(s.run(ctx, "", "instance", "destroy", "inst-1"), 1)
		Expect(got.Stderr).To(ContainSubstring(`service-adapter instance destroy inst-1 --input phrase=FILE`))
		Expect(w.resources()).To(HaveLen(4))
		secret := writeInput(GinkgoT().TempDir(), "secret", ephemeralValue("parameter"))
		expectSilent(s.run(ctx, "", "instance", "destroy", "inst-1", "--input", "phrase="+secret), 0)
		w.expectNowhere(ctx)
		w.expectNothingLeft()
	})
})
