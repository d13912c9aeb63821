package backends_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// secretKeys are the names under which the specs of this file plant values.
var secretKeys = []string{
	"password", "admin_password", "secret", "client_secret", "token", "access_token", "api_key", "private_key",
	"secret_key", "credentials",
	"passphrase", "conn_str", "requirepass", "masterauth", "admin_pass", "rabbitmq_default_pass", "pass", "auth",
	"http_auth", "redis_auth", "psk", "ipsec_psk",
	"passcode", "rootpw", "db_pw", "tls_key", "server_key", "ca_key", "cluster_key", "ssh_key", "bearer", "cookie",
	"erlang_cookie", "session_cookie",
	"keyfile", "dsn", "community", "snmp_community", "proxy_bearer", "endpoint",
}

// planted returns the value of a secret key for one of the sources of values. Its encodings in JSON, URLs and base64
// all differ.
func planted(from, key string) string { return fmt.Sprintf(`pl@nted <%s> %s? "é"`, from, key) }

// plantedValues returns the values of all keys. The last one is a URL with a user and a password.
func plantedValues(from string) object {
	values := object{}
	for _, key := range secretKeys {
		values[key] = planted(from, key)
	}
	values["endpoint"] = "https://reader:" + url.QueryEscape(planted(from, "endpoint")) + "@db.example.com/path"
	return values
}

// formsOf returns a value as programs write it: as it is, in JSON, in a URL and in base64.
func formsOf(value string) []string {
	GinkgoHelper()
	inJSON, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	var plainJSON strings.Builder
	encoder := json.NewEncoder(&plainJSON)
	encoder.SetEscapeHTML(false)
	Expect(encoder.Encode(value)).To(Succeed())
	forms := []string{
		value, strings.Trim(string(inJSON), `"`), strings.Trim(plainJSON.String(), "\"\n"),
		url.QueryEscape(value), url.PathEscape(value),
	}
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", before) + value))
		encoded = encoded[min(before, 1)*4 : (before+len(value))/3*4]
		forms = append(forms, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	return forms
}

// leaks returns the planted values that a text shows, as they are, in JSON, in a URL or in base64.
func leaks(text string) []string {
	var all []string
	for _, from := range []string{"parameters", "plan", "manifest", "secrets", "client", "defaults", "environment"} {
		for _, key := range secretKeys {
			for _, form := range formsOf(planted(from, key)) {
				if strings.Contains(text, form) {
					all = append(all, from+": "+key+": "+form)
				}
			}
		}
	}
	return all
}

// leakyPak returns a pak whose rules and templates show all of their inputs in every form. It writes the pak on its
// first call.
func leakyPak() string {
	GinkgoHelper()
	suite.leaky = cmpOr(suite.leaky, func() string { return makePak(leakySource("leaky", "bosh"), kit.Newest) })
	return suite.leaky
}

// leakyErrandsPak returns such a pak whose provision template is applied by lifecycle errands.
func leakyErrandsPak() string {
	GinkgoHelper()
	suite.leakyErrands = cmpOr(suite.leakyErrands, func() string {
		return makePak(leakySource("leaky-errands", "template"), kit.Newest)
	})
	return suite.leakyErrands
}

// leakySource writes the source of a leaky pak that provisions with this key of a definition, "bosh" or "template", and
// returns its directory.
func leakySource(name, provision string) string {
	GinkgoHelper()
	var inputs, variables, shown, rule, properties strings.Builder
	for _, key := range secretKeys {
		fmt.Fprintf(&inputs, "  - {field_name: %s, type: string, default: \"\", details: A secret}\n", key)
		fmt.Fprintf(&variables, "    variable %q {}\n", key)
		fmt.Fprintf(&shown, "${var.%[1]s} ${jsonencode(var.%[1]s)} ${urlencode(var.%[1]s)} ${base64encode(var.%[1]s)} ",
			key)
		fmt.Fprintf(&rule, "${%[1]s} ${json.marshal(%[1]s)} ${str.queryEscape(%[1]s)} ", key)
		fmt.Fprintf(&properties, "          %[1]s: ((%[1]s))\n", key)
	}
	rules := `
  - {that: '${mode != "operator"}', message: 'shown: ` + rule.String() + `', audience: operator}
  - {that: '${mode != "user"}', message: 'shown: ` + rule.String() + `', audience: user}
`
	template := `  template: |
    variable "mode" {}
` + variables.String() + `    resource "terraform_data" "account" {
      input = [` + strings.ReplaceAll("var."+strings.Join(secretKeys, ", var."), "\n", "") + `]
      lifecycle {
        precondition {
          condition     = var.mode != "template"
          error_message = "shown: ` + shown.String() + `"
        }
      }
    }
    output "host" { value = "db.example.com" }
`
	body := template
	if provision == "bosh" {
		body = `  bosh:
    manifest: |
      instance_groups:
      - name: server
        jobs:
        - name: server
          properties:
            name: readable
` + strings.ReplaceAll(properties.String(), "          ", "            ") + `    checks:` +
			strings.ReplaceAll(rules, "\n  ", "\n    ") +
			`    dashboard_url: https://example.com/${manifest.get("/name")}
`
	}
	mode := "  - {field_name: mode, type: string, default: none, details: What fails}\n"
	return entriesSource(name, `provision:
  user_inputs:
`+mode+inputs.String()+body+`bind:
  user_inputs:
`+mode+inputs.String()+`  requires:`+rules+template+`  outputs:
  - {field_name: host, type: string, details: The host}
`)
}

// expectNoLeak asserts that an answer has this exit status and shows no planted value, and returns the answer. The
// standard output of a command is exempt if it is a product that has the values by design, such as the manifest for the
// broker.
func expectNoLeak(got answer, exit int, product bool) answer {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(exit), "%+v", got)
	Expect(leaks(got.Stderr)).To(BeEmpty(), "%s", got.Stderr)
	if !product {
		Expect(leaks(got.Stdout)).To(BeEmpty(), "%s", got.Stdout)
	}
	return got
}

// expectNoStoredLeak asserts that no stored state and no file of the world, of its server or of a pak has a planted
// value. It returns the number of files.
func (w *world) expectNoStoredLeak(ctx context.Context, pak string) int {
	GinkgoHelper()
	dirs := []string{w.dir, pak}
	if w.server != nil {
		dirs = append(dirs, w.server.Dir)
		rows, err := w.server.Query(ctx, w.location, "SELECT row_to_json(s)::text FROM terraform_remote_state.states s")
		Expect(err).NotTo(HaveOccurred())
		Expect(rows).NotTo(BeEmpty())
		Expect(leaks(strings.Join(rows, "\n"))).To(BeEmpty())
	}
	files, leaky := filesWithLeaks(dirs...)
	Expect(leaky).To(BeEmpty())
	return files
}

// filesWithLeaks returns the number of regular files below directories, and the planted values of each file that has
// any. A file that is removed during the search is skipped: a server removes files of its own while it runs.
func filesWithLeaks(dirs ...string) (files int, leaky map[string][]string) {
	GinkgoHelper()
	leaky = map[string][]string{}
	for _, dir := range dirs {
		Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && path != dir:
				return nil
			case err != nil || !entry.Type().IsRegular():
				return err
			}
			text, err := os.ReadFile(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			}
			files++
			if found := leaks(string(text)); len(found) > 0 {
				leaky[path] = found
			}
			return nil
		})).To(Succeed())
	}
	return files, leaky
}

var _ = Describe("secrets under 40 names", func() {
	It("are in no file, no row of the database and no output of a command except its product", kit.Slow(),
		func(ctx context.Context) {
			Expect(secretKeys).To(HaveLen(40))
			Expect(leaks(fmt.Sprint(plantedValues("plan")))).To(HaveLen(40))
			w := newWorld(ctx, pg)
			w.encrypt()
			m := w.bareMachine()
			requests := filepath.Join(w.dir, "requests")
			defaults, err := json.Marshal(plantedValues("defaults"))
			Expect(err).NotTo(HaveOccurred())
			m.env = append(m.env, "GSB_SERVICE_ENTRIES_BIND_DEFAULTS="+string(defaults),
				"DB_PASSWORD="+planted("environment", "password"))
			m.set(object{
				"paks": []string{leakyPak()}, "services": object{}, "log_level": "debug", "record_requests": requests,
				"audit_log": filepath.Join(w.dir, "audit.log"),
			})
			m.Plan["properties"] = object{"other": plantedValues("plan")}
			inputs := GinkgoT().TempDir() // the inputs of commands are not searched

			commands := 0
			unseen := func(got answer, exit int, product bool) answer {
				GinkgoHelper()
				commands++
				return expectNoLeak(got, exit, product)
			}
			body := func(mode string) object {
				parameters := plantedValues("parameters")
				parameters["mode"] = mode
				return object{
					"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID,
					"plan_id":    m.PlanID,
					"parameters": parameters,
				}
			}
			client := plantedValues("client")
			client["client_id"] = "inst-1"
			generate := func(mode string) object {
				parameters := m.Generate(body(mode))
				parameters["uaa_client"] = client
				return parameters
			}
			unseen(m.call(ctx, "generate-plan-schemas", object{"plan": m.Plan}), 0, false)
			for _, mode := range []string{"operator", "user"} {
				got := unseen(m.call(ctx, generateManifest, generate(mode)), 1, false)
				Expect(got.Stdout + got.Stderr).To(ContainSubstring("shown: [redacted] "))
			}
			got := unseen(m.call(ctx, generateManifest, generate("none")), 0, true)
			Expect(m.Deploy(got.Stdout)).To(Succeed())
			unseen(m.call(ctx, generateManifest, m.Generate(object{})), 0, true)
			manifest, err := json.Marshal(object{
				"name": "service-instance_inst-1", "properties": plantedValues("manifest"), "text": string(defaults),
				"hash": object{"credentials": []any{planted("manifest", "password")}},
			})
			Expect(err).NotTo(HaveOccurred())
			m.Manifest += "# " + planted("manifest", "token") + "\nother: " + string(manifest) + "\n"
			for key, value := range plantedValues("secrets") {
				m.Secrets["((/odb/"+key+"))"] = value.(string)
			}
			bind := func(id, mode string) object {
				parameters := body(mode)
				parameters["bind_resource"] = object{"app_guid": "app"}
				return m.Bind(id, parameters)
			}
			for _, mode := range []string{"operator", "user", "template"} {
				got := unseen(m.call(ctx, createBinding, bind("b-"+mode, mode)), 1, false)
				Expect(got.Stdout + got.Stderr).To(ContainSubstring("shown: [redacted] "))
			}
			unseen(m.call(ctx, createBinding, bind("b-1", "none")), 0, false)
			unseen(m.call(ctx, createBinding, bind("b-1", "none")), 49, false)
			unseen(m.call(ctx, createBinding, m.Bind("b-2", body("none"))), 0, false)
			unseen(m.call(ctx, "dashboard-url",
				object{"instance_id": "inst-1", "plan": m.Plan, "manifest": m.Manifest}), 0,
				false)

			// The deployed manifest has another value for each property.
			properties, remembered, _ := strings.Cut(m.Manifest, "\nbrokerpak: ")
			changed := strings.ReplaceAll(properties, "<parameters>", "<manifest>") + "\nbrokerpak: " + remembered
			Expect(os.WriteFile(filepath.Join(inputs, "manifest.yml"), []byte(changed), 0o600)).To(Succeed())
			plan, err := json.Marshal(m.Plan)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(filepath.Join(inputs, "plan.json"), plan, 0o600)).To(Succeed())
			for _, command := range []string{
				"bindings list", "bindings list --json", "bindings show b-1", "bindings show b-1 --json",
				"bindings drift b-1", "bindings upgrade --all",
				"bindings reencrypt", "bindings export " + filepath.Join(w.dir, "export"), "bindings unlock b-1",
				"instance list", "metrics", "bindings recover",
				"prepare --dir " + filepath.Join(w.dir, "prepared"), "bindings delete b-2", "version",
			} {
				got := m.run(ctx, "", strings.Fields(command)...)
				unseen(got, got.Exit, false)
			}
			got = m.run(ctx, "", "pending-changes", "--manifest", filepath.Join(inputs, "manifest.yml"), "--plan",
				filepath.Join(inputs, "plan.json"))
			unseen(got, 1, false)
			Expect(got.Stdout).To(ContainSubstring("[redacted]"))
			unseen(m.call(ctx, deleteBinding, m.unbindParameters("b-1")), 0, false)
			unseen(m.call(ctx, deleteBinding, m.unbindParameters("b-1")), 41, false)
			for _, recording := range list(requests) { // of the masked requests
				got := m.run(ctx, "", "replay", filepath.Join(requests, recording))
				// The product of a binding request is its variables, which contain the defaults of the environment.
				unseen(got, got.Exit, strings.Contains(recording, "-binding"))
			}
			unseen(m.call(ctx, createBinding, bind("b-3", "none")), 0, false)
			Expect(commands).To(BeNumerically(">", 40))
			Expect(list(requests)).To(HaveLen(15))

			Expect(w.expectNoStoredLeak(ctx, leakyPak())).To(BeNumerically(">", 20))
		})
})
