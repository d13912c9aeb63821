package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/recording"
	"service-adapter/internal/redact"
	"service-adapter/spec/kit/site"
)

// secret contains all characters that a log line must escape.
const secret = "s3cret \"quoted\" <\\> and\na s3cret second line"

// A writerFunc is a function that implements io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

var _ = Describe("recorded requests", func() {
	var s *site.Site
	var dir string

	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{Inputs: "[{field_name: password, type: string, details: x}]"}.String()))
		dir = filepath.Join(s.Dir, "requests")
		s.Env["SERVICE_ADAPTER_RECORD_REQUESTS"] = dir
	})

	recordings := func() []string {
		GinkgoHelper()
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		Expect(err).NotTo(HaveOccurred())
		return files
	}

	It("are private files without secrets, and give the same answer again", func() {
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(object{"password": secret})))
		Expect(result.Code).To(Equal(0))
		files := recordings()
		Expect(files).To(HaveLen(1))
		info, err := os.Stat(files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		text, err := os.ReadFile(files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("generate-manifest"))
		Expect(string(text)).NotTo(ContainSubstring("s3cret"))

		var stdout, stderr bytes.Buffer
		code, err := adapter.Replay(context.Background(),
			adapter.Invocation{Stdout: &stdout, Stderr: &stderr, Getenv: s.Getenv}, files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(0), stderr.String())
		Expect(stdout.String()).To(ContainSubstring("name: service-instance_inst-1"))
		Expect(recordings()).To(HaveLen(1), "a replay is not recorded")
	})

	// decoded returns the documents of the only recorded request.
	decoded := func() (recorded string, documents object) {
		GinkgoHelper()
		files := recordings()
		Expect(files).To(HaveLen(1))
		recorded = site.ReadFile(files[0])
		var file struct {
			Input map[string]map[string]string
		}
		Expect(json.Unmarshal([]byte(recorded), &file)).To(Succeed())
		documents = object{}
		for _, fields := range file.Input {
			for name, text := range fields {
				var document any
				Expect(yaml.Unmarshal([]byte(text), &document)).To(Succeed(), text)
				if document != nil {
					documents[name] = document
				}
			}
		}
		return recorded, documents
	}

	It("contain no secrets of an instance of another adapter, and can be replayed", func() {
		s.Serve(s.Pak("one", site.Definition{
			Bind: `{user_inputs: [{field_name: pin, type: string, details: x}, ` +
				`{field_name: community, type: string, details: x}], ` +
				`computed_inputs: [{name: port, default: '${manifest.get("/port")}', type: integer}]}`,
		}.String()))
		const manifest = `# planted-1
name: service-instance_inst-1
port: 6379
instance_groups:
- name: redis
  jobs:
  - name: redis
    properties:
      password: planted-2
      secret: &shared {value: planted-3, name: readable-1}
      again: {admin_password: *shared}
      redis: {requirepass: planted-4, masterauth: 12345678, admin_pass: planted-5, pass: planted-6, auth: planted-7,
        psk: planted-8}
      reference: ((/odb/other))
      token: ((admin_token))
      enable_auth: true
      auth_required: null
      require: {auth: false, password: null}
      address: https://admin:planted-9@db.example.com/a
      config: |
        requirepass: planted-10
        maxclients: 20
      nested: '{"erlang_cookie": "planted-11", "hosts": ["readable-2"]}'
      long: |
        {"a": "((x))", "dsn": "planted-12"}
`
		deployed := site.Instance()
		deployed.Manifest = manifest
		deployed.Secrets = map[string]string{
			"((/odb/other))": "planted-13",
			"((/odb/user))":  `{"username": "readable-3", "password": "p1"}`, "((/odb/pin))": "p14",
		}
		parameters := deployed.Bind("b-1", site.Body(object{"pin": "readable-4", "community": "planted-15"}))
		s.Call("create-binding", parameters)
		recorded, documents := decoded()
		Expect(recorded).NotTo(ContainSubstring("planted"))
		Expect(recorded).NotTo(ContainSubstring("12345678"))
		group := documents["manifest"].(object)["instance_groups"].([]any)[0].(object)
		masked := object{"value": "[redacted]", "name": "readable-1"}
		Expect(group["jobs"].([]any)[0].(object)["properties"]).To(Equal(object{
			"password": "[redacted]", "secret": masked, "again": object{"admin_password": masked},
			"redis": object{
				"requirepass": "[redacted]", "masterauth": "[redacted]", "admin_pass": "[redacted]",
				"pass": "[redacted]", "auth": "[redacted]",
				"psk": "[redacted]",
			},
			"reference": "((/odb/other))", "token": "((admin_token))", "enable_auth": true, "auth_required": nil,
			"require": object{"auth": false, "password": nil}, "address": "https://admin:[redacted]@db.example.com/a",
			"config": "requirepass: [redacted]\nmaxclients: 20\n",
			"nested": `{"erlang_cookie":"[redacted]","hosts":["readable-2"]}`,
			"long":   `{"a":"((x))","dsn":"[redacted]"}`,
		}))
		Expect(documents["secrets"]).To(Equal(object{
			"((/odb/other))": "[redacted]", "((/odb/pin))": "[redacted]",
			"((/odb/user))": `{"password":"[redacted]","username":"readable-3"}`,
		}))
		Expect(documents["request_parameters"].(object)["parameters"]).To(Equal(object{
			"pin":       "readable-4",
			"community": "[redacted]",
		}))
		var stdout, stderr bytes.Buffer
		Expect(adapter.Replay(context.Background(),
			adapter.Invocation{Stdout: &stdout, Stderr: &stderr, Getenv: s.Getenv}, recordings()[0])).To(
			Equal(0), stderr.String())
		Expect(stdout.String()).To(MatchJSON(`{"community": "[redacted]", "pin": "readable-4", "port": 6379}`))
	})

	It("keep the record of an instance, so that the same manifest is generated again", func() {
		s.Serve(s.Pak("one", site.Definition{
			Inputs: "[{field_name: password, type: string, details: x}, " +
				"{field_name: size, type: integer, details: x, default: 1}]",
			Bosh: `    secrets:
    - {name: admin_pass, value: "${password}"}
    - {name: generated, length: 20, keepers: {size: "${size}"}}
    ops:
    - inline:
      - {type: replace, path: "/properties?", value: {a: ((admin_pass)), b: ((generated)), size: ((size))}}`,
		}.String()))
		deployed := site.Instance()
		created := s.Call("generate-manifest", deployed.Generate(site.Body(object{"password": "planted-1", "size": 2})))
		Expect(deployed.Deploy(created.Stdout)).To(Succeed())
		Expect(os.RemoveAll(dir)).To(Succeed())
		result := s.Call("generate-manifest", deployed.Generate(object{}))
		Expect(result.Code).To(Equal(0))
		again := site.Document(result)
		recorded, _ := decoded()
		Expect(recorded).NotTo(ContainSubstring("planted"))
		var stdout, stderr bytes.Buffer
		Expect(adapter.Replay(context.Background(),
			adapter.Invocation{Stdout: &stdout, Stderr: &stderr, Getenv: s.Getenv}, recordings()[0])).To(
			Equal(0), stderr.String())
		Expect(stdout.String()).To(MatchJSON(site.JSONText(again)))
	})

	It("of dashboard-url contain no secrets of the instance", func() {
		s.Env["SERVICE_ADAPTER_SECURE_MANIFESTS"] = "false"
		s.Serve(s.Pak("one", site.Definition{
			Inputs: "[{field_name: password, type: string, details: x}]",
			Bosh: `    dashboard_url: https://example.com
    secrets: [{name: admin, value: "${password}"}]
    ops:
    - inline: [{type: replace, path: "/properties?", value: {greeting: ((admin))}}]`,
		}.String()))
		deployed := site.Instance()
		created := s.Call("generate-manifest", deployed.Generate(site.Body(object{"password": "planted"})))
		Expect(deployed.Deploy(created.Stdout)).To(Succeed())
		Expect(deployed.Manifest).To(ContainSubstring("greeting: planted"))
		Expect(os.RemoveAll(dir)).To(Succeed())
		result := s.Call("dashboard-url", object{
			"instance_id": deployed.ID, "plan": deployed.Plan, "manifest": deployed.Manifest,
		})
		Expect(result.Code).To(Equal(0), result.Stderr)
		recorded, _ := decoded()
		Expect(recorded).NotTo(ContainSubstring("planted"))
	})

	It("of a check for pending changes do not compare the state of the instance again", func() {
		deployed := site.Instance()
		created := s.Call("generate-manifest", deployed.Generate(site.Body(nil)))
		Expect(deployed.Deploy(created.Stdout)).To(Succeed())
		s.Serve(s.Pak("one", site.Definition{
			Inputs: "[]\n  template: resource \"terraform_data\" \"added\" {}",
		}.String()))
		Expect(os.RemoveAll(dir)).To(Succeed())
		const compared = "the state of the instance could not be compared" // the pak has no OpenTofu
		checked := s.Call("generate-manifest", deployed.Generate(object{}))
		Expect(checked.Code).To(Equal(0), checked.Stderr)
		Expect(checked.Stderr).To(ContainSubstring(compared))
		var stdout, stderr bytes.Buffer
		Expect(adapter.Replay(context.Background(),
			adapter.Invocation{Stdout: &stdout, Stderr: &stderr, Getenv: s.Getenv}, recordings()[0])).To(
			Equal(0), stderr.String())
		Expect(stderr.String()).NotTo(ContainSubstring(compared))
		Expect(stdout.String()).To(MatchJSON(checked.Stdout))
	})

	It("withhold a document that cannot be parsed, and name it", func() {
		parameters := site.Instance().Bind("b-1", site.Body(nil))
		parameters["manifest"] = "password: [planted-1"
		parameters["secrets"] = `{"((a))": "planted-2", `
		Expect(s.Call("create-binding", parameters).Code).To(Equal(1))
		text := site.ReadFile(recordings()[0])
		Expect(text).To(And(Not(ContainSubstring("planted")), ContainSubstring(`"withheld": [
    "manifest",
    "secrets"
  ]`)))
		_, err := adapter.Replay(context.Background(), adapter.Invocation{Getenv: s.Getenv}, recordings()[0])
		Expect(err).To(
			MatchError(ContainSubstring("it lacks manifest and secrets, which could not be parsed or masked")))
	})

	It("are written after the answer", func() {
		var order []string
		input, err := odb.Input("generate-manifest", site.Instance().Generate(site.Body(object{"password": secret})))
		Expect(err).NotTo(HaveOccurred())
		note := func(what string) writerFunc {
			return func(text []byte) (int, error) {
				if !strings.HasPrefix(string(text), "[odb-sdk] handling") {
					order = append(order, fmt.Sprintf("%s with %d recordings", what, len(recordings())))
				}
				return len(text), nil
			}
		}
		s.Env["SERVICE_ADAPTER_SERVICES"] = "{another: {}}" // a warning
		Expect(adapter.Run(context.Background(), adapter.Invocation{
			Args: []string{"service-adapter", "generate-manifest"}, Stdin: strings.NewReader(input),
			Stdout: note("answer"), Stderr: note("log"), Getenv: s.Getenv,
		})).To(Equal(0))
		Expect(order).To(Equal([]string{"answer with 0 recordings", "log with 1 recordings"}))
	})

	It("are deleted if there are too many, the oldest first", func() {
		for i := range 205 {
			s.Write(fmt.Sprintf("requests/20200101T000000.%09dZ-dashboard-url-1.json", i), "{}")
		}
		s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		files := recordings()
		Expect(files).To(HaveLen(200))
		Expect(filepath.Base(files[len(files)-1])).To(ContainSubstring("generate-manifest"))
		Expect(filepath.Base(files[0])).To(Equal("20200101T000000.000000006Z-dashboard-url-1.json"))
	})

	DescribeTable("are also deleted in a directory whose name is a pattern", func(ctx context.Context, name string) {
		dir := filepath.Join(s.Dir, name)
		for i := range 205 {
			s.Write(fmt.Sprintf("%s/20200101T000000.%09dZ-dashboard-url-1.json", name, i), "{}")
		}
		s.Write(name+"/other.json", "{}")
		err := recording.Write(ctx, dir, "dashboard-url", serviceadapter.InputParams{}, &redact.Secrets{})
		Expect(err).NotTo(HaveOccurred())
		Expect(os.ReadDir(dir)).To(HaveLen(201))
	},
		Entry("a class", "requests[a]"),
		Entry("an invalid pattern", "requests[a"),
	)

	It("may be deleted by several processes at the same time", func(ctx context.Context) {
		for i := range 2000 {
			s.Write(fmt.Sprintf("requests/20200101T000000.%09dZ-dashboard-url-1.json", i), "{}")
		}
		errs := make(chan error)
		for range 4 {
			go func() {
				errs <- recording.Write(ctx, dir, "dashboard-url", serviceadapter.InputParams{}, &redact.Secrets{})
			}()
		}
		for range 4 {
			Expect(<-errs).To(Succeed())
		}
	})

	It("do not affect the command if they cannot be written", func() {
		s.Env["SERVICE_ADAPTER_RECORD_REQUESTS"] = s.Write("a-file", "")
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		Expect(result.Code).To(Equal(0))
		Expect(result.Stderr).To(ContainSubstring("recording the request"))
	})

	It("that record_requests did not write are rejected", func() {
		_, err := adapter.Replay(context.Background(), adapter.Invocation{Getenv: s.Getenv},
			s.Write("none.json", `{"command":"rm"}`))
		Expect(err).To(MatchError(ContainSubstring("record_requests did not write it")))
	})
})
