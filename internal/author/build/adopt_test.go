package build_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	yaml2 "gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
	"service-adapter/internal/diag"
	"service-adapter/internal/instance"
)

// manifestOf returns a manifest with properties of one job, given in YAML's flow style.
func manifestOf(properties string) string {
	return "name: d\ninstance_groups:\n- name: g\n  jobs:\n  - name: j\n    properties: " + properties + "\n"
}

// adopted creates a pak from a manifest and returns its template, its definition and the notes.
func adopted(manifest string) (template, definition, notes string, err error) {
	dir := GinkgoT().TempDir()
	source := filepath.Join(dir, "m.yml")
	Expect(os.WriteFile(source, []byte(manifest), 0o600)).To(Succeed())
	_, list, err := build.InitFrom(context.Background(), filepath.Join(dir, "pak"), source)
	if err != nil {
		Expect(filepath.Join(dir, "pak")).NotTo(BeADirectory())
		return "", "", "", err
	}
	pak, err := brokerpak.Open(filepath.Join(dir, "pak"))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = pak.Close() }() // opened for reading
	for _, note := range list {
		notes += note.Pos.String()[len(dir)+1:] + ": " + note.Text + "\n"
	}
	text, err := os.ReadFile(filepath.Join(dir, "pak", "pak.yml"))
	Expect(err).NotTo(HaveOccurred())
	return pak.Services[0].Provision.Bosh.Manifest.Text, string(text), notes, nil
}

var _ = DescribeTable("the conversion of a property", func(properties string, wanted ...string) {
	template, definition, notes, err := adopted(manifestOf(properties))
	Expect(err).NotTo(HaveOccurred())
	for _, want := range wanted {
		if text, not := strings.CutPrefix(want, "not "); not {
			Expect(template + definition + notes).NotTo(ContainSubstring(text))
		} else {
			Expect(template + definition + notes).To(ContainSubstring(want))
		}
	}
},
	Entry("a password", `{a: {password: s3cret-7}}`, "{password: ((password))}", "{name: password, length: 32}",
		`m.yml:6:32: password: a secret, not copied; it is the generated secret "password"`, "not s3cret-7"),
	Entry("a short secret", `{a: {password: x}}`, "password: ((password))"),
	Entry("a number", `{pin_token: 123456}`, "pin_token: ((pin_token))", "not 123456"),
	Entry("an octal number that is a secret", `{admin_password: 0123456}`, "((admin_password))", "not 0123456",
		"not 42798"),
	Entry("the same secret twice", `{a: {password: s3cret-7}, b: {password: s3cret-7}}`,
		"a: {password: ((password))}, b: {password: ((password))}"),
	Entry("two secrets with the same name", `{a: {password: s3cret-7}, b: {password: s3cret-8}}`,
		"b: {password: ((b_password))}",
		"name: b_password"),
	Entry("a text that looks generated", `{cookie: f7oQ2xK9vB3mZp1w}`, "((cookie))", "not f7oQ2x"),
	Entry("a secret within a text", `{args: -p f7oQ2xK9vB3mZp1w -v}`, "-p ((args)) -v", "not f7oQ2x"),
	Entry("a secret that an earlier text contains", `{args: -p s3cret-7, password: s3cret-7}`,
		"{args: -p ((password)), password: ((password))}", "not s3cret-7"),
	Entry("a secret in a URL", `{uri: "amqp://u:pw@((host)):5672/v"}`, "amqp://u:((uri))@((host)):5672/v", "name: uri"),
	Entry("a secret in a URL between variables", `{uri: "amqp://((u)):lit7eral@h"}`, "amqp://((u)):((uri))@h",
		"not lit7eral"),
	Entry("a secret next to a variable", `{password: "salt7-((x))"}`, "password: ((password))", "not salt7"),
	Entry("a secret that is also another word", `{user: admin, password: admin}`, "user: admin, password: ((password))",
		"decide: this text is also a secret elsewhere, which is ((password)) now"),
	Entry("a secret in the environment of VMs", `{}`+"\n  env: {bosh: {password: '$6$salt'}}", "password: ((password))",
		"not $6$salt"),
	Entry("a reference", `{password: ((pw))}`, "password: ((pw))", "{name: pw, length: 32}"),
	Entry("properties that only concern secrets",
		`{password_policy: strict, token_name: a, use_password: true, password: ""}`,
		`{password_policy: strict, token_name: a, use_password: true, password: ""}`),
	Entry("names of links", `{}`+"\n    consumes: {db_credentials: {from: credentials}}",
		"consumes: {db_credentials: {from: credentials}}"),
	Entry("a certificate without a key",
		`{credentials: {ca: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"}}`, "BEGIN CERTIFICATE"),
	Entry("a key and its certificate in one text",
		`{pem: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n`+
			`-----BEGIN PRIVATE KEY-----\nKEYTEXT\n-----END PRIVATE KEY-----"}`,
		`"((pem.certificate))\n((pem.private_key))"`, "type: certificate", "not KEYTEXT"),
	Entry("a certificate as the name of a property",
		`{"-----BEGIN CERTIFICATE-----": x, key: "-----BEGIN PRIVATE KEY-----\nKEYTEXT"}`,
		"key: ((key.private_key))", "not KEYTEXT"),
	Entry("a key in a list",
		`{pems: [{chain: "-----BEGIN CERTIFICATE-----AA", key: "-----BEGIN RSA PRIVATE KEY-----\nKEYTEXT"}]}`,
		"{chain: ((pems.certificate)), key: ((pems.private_key))}", "not KEYTEXT"),
	Entry("two keys with a certificate, which belongs to the first key",
		`{ca: "-----BEGIN CERTIFICATE-----AA", one: "-----BEGIN PRIVATE KEY-----X", `+
			`two: "-----BEGIN PRIVATE KEY-----Y"}`,
		"{ca: ((one.ca)), one: ((one.private_key)), two: ((two.private_key))}"),
	Entry("a key of SSH", `{host: {key: "-----BEGIN OPENSSH PRIVATE KEY-----\nKEYTEXT", public: ssh-ed25519 AAAA}}`,
		"{key: ((host.private_key)), public: ((host.public_key))}", "type: ssh", "not KEYTEXT"),
	Entry("an address", `{nats: 10.0.0.1}`, "decide: nats is an address of this deployment"),
	Entry("a word that YAML readers disagree about", `{a: yes, b: 0644, c: 1:30, d: 2024-01-01}`,
		`{a: true, b: 420, c: '1:30', d: "2024-01-01"}`),
	Entry("a variable", `{size: ((size))}`, "decide: ((size)) is now an input of plans", "size: change-me",
		"{field_name: size, type: string, required: true"),
	Entry("a variable whose name an input cannot have", `{size: ((folder/größe-2))}`, "((folder_gr_e_2))",
		"folder_gr_e_2: change-me"),
	Entry("two variables that would get the same name", `{a: ((a/b)), b: ((a_b))}`, "a: ((a_b_2)), b: ((a_b))"),
	Entry("a part of a variable", `{size: ((size.large))}`, `size: {"large":"change-me"}`, "type: object"),
	Entry("parts of parts of a variable",
		`{id: ((cf.client.id)), name: ((cf.client.name)), cf: ((cf.client)), url: ((cf.url))}`,
		`cf: {"client":{"id":"change-me","name":"change-me"},"url":"change-me"}`, "{id: ((cf.client.id))"),
	Entry("a certificate that is not declared", `{cert: ((tls.certificate)), ca: ((tls.ca))}`, "name: tls",
		"type: certificate"),
	Entry("a secret of the broker", `{a: ((odb_secret:admin)), b: ((/odb/s/service-instance_1/root-2))}`,
		"{a: ((admin)), b: ((root))}", "name: root"),
	Entry("a credential of the operator", `{ca: ((/shared/ca.certificate)), c: ((/shared/ca.certificate))}`,
		"{ca: ((/shared/ca.certificate)), c: ((/shared/ca.certificate))}",
		"decide: ((/shared/ca.certificate)) is a credential of CredHub, which the operator must allow"),
	Entry("a property whose name ends in a number", `{password-2: s3cret-7}`, "password-2: ((password_2))",
		"name: password_2"),
	Entry("a part of a user that is not declared", `{db: ((db.password))}`, "name: db", "type: user"),
	Entry("a secret of the broker with the name of another secret",
		`{admin_token: s3cret-7, b: ((odb_secret:admin_token))}`,
		"{admin_token: ((admin_token)), b: ((admin_token_2))}"),
)

var _ = Describe("the secrets of a manifest that another adapter deployed", func() {
	// carriedOver converts a manifest and returns the values that the carry_over of the new pak reads from the same
	// manifest, and the notes.
	carriedOver := func(manifest string) (instance.Carried, string) {
		GinkgoHelper()
		dir := GinkgoT().TempDir()
		source := write(filepath.Join(dir, "m.yml"), manifest)
		_, notes, err := build.InitFrom(context.Background(), filepath.Join(dir, "pak"), source)
		Expect(err).NotTo(HaveOccurred())
		pak, err := brokerpak.Open(filepath.Join(dir, "pak"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(pak.Close)
		var deployed any
		Expect(yaml2.Unmarshal([]byte(manifest), &deployed)).To(Succeed())
		carried, err := instance.CarryOver(pak.Services[0].Provision.Bosh, deployed)
		Expect(err).NotTo(HaveOccurred())
		var texts strings.Builder
		for _, note := range notes {
			texts.WriteString(note.Text + "\n")
		}
		return carried, texts.String()
	}

	It("are carried over from properties that consist only of the secret", func() {
		carried, notes := carriedOver(`name: service-instance_1
instance_groups:
- name: clients
  jobs: []
- name: servers
  jobs:
  - name: other
    properties: {uri: "amqp://admin:s3cret-7@host"}
  - name: server
    properties:
      admin: {password: s3cret-7}
      users: [{name: a, password: s3cret-8}, {password: s3cret-9}, {name: b, password: x}, {name: b, password: z}]
      stored: ((odb_secret:token))
      sent: ((/odb/1/service-instance_1/key-2))
      external_secret: ((outside))
- name: last
  jobs: [{name: server, properties: {again: {password: s3cret-7}}}]
`)
		Expect(carried).To(Equal(instance.Carried{
			"uri": "s3cret-7", "password": "s3cret-8", "users_password": "s3cret-9", "users_password_2": "x",
			"users_password_3": "z", "token": "((odb_secret:token))",
			"key": "((/odb/1/service-instance_1/key-2))", "outside": "((outside))",
		}))
		Expect(notes).NotTo(ContainSubstring("carry_over"))
	})

	It("that carry_over cannot read are left to the author", func() {
		carried, notes := carriedOver(manifestOf(
			`{uri: "amqp://u:s3cret-7@host", "a/b": {password: s3cret-8}, "1": {token: s3cret-9}}`))
		Expect(carried).To(BeEmpty())
		for _, name := range []string{"uri", "password", "token"} {
			Expect(notes).To(ContainSubstring(`decide: carry_over cannot read the secret "` + name + `", which is`))
		}
	})
})

var _ = DescribeTable("a manifest that cannot be converted", func(manifest, message string) {
	_, _, _, err := adopted(manifest)
	var faults diag.Errors
	Expect(err).To(BeAssignableToTypeOf(faults))
	Expect(err).To(MatchError(ContainSubstring(message)))
},
	Entry("no YAML", "a: [", "m.yml:1: not valid YAML"),
	Entry("empty", "", "the document is empty"),
	Entry("a list", "[a]", "m.yml:1:1: the manifest has no list instance_groups"),
	Entry("two documents", "a: b\n---\nc: d\n", "only one YAML document is allowed"),
	Entry("a key twice", "instance_groups: [{name: a, name: b}]", `m.yml:1:29: key "name" is set twice`),
	Entry("no groups", "instance_groups: []", "has no list instance_groups"),
	Entry("groups without names", "instance_groups: [{jobs: []}, a]",
		"m.yml:1:19: an instance group must be a mapping with a name of letters"),
	Entry("a group whose name is null", "instance_groups: [{name: null, jobs: []}]",
		"m.yml:1:19: an instance group must be a mapping with a name of letters"),
	Entry("a job whose name is null", "instance_groups: [{name: a, jobs: [{name: ~}]}]",
		"m.yml:1:36: a job must be a mapping with a name"),
	Entry("a group whose name is a variable", "instance_groups: [{name: ((x))}]", "with a name of letters"),
	Entry("jobs that are not mappings", "instance_groups: [{name: a, jobs: [b]}]",
		"m.yml:1:36: a job must be a mapping with a name"),
	Entry("only errands", "instance_groups: [{name: a, lifecycle: errand, jobs: []}]",
		"all instance groups are errands"),
	Entry("operators of spruce", manifestOf("{a: (( grab b ))}"), "m.yml:6:21: (( grab b )) is not a BOSH variable"),
	Entry("an empty variable", manifestOf("{a: (())}"), "m.yml:6:21: (()) is not a BOSH variable"),
)

var _ = Describe("a large manifest", func() {
	const (
		count    = 15_000
		patience = 2 * time.Minute // for what takes seconds on a busy machine
	)

	// many joins a line for each number, of a list or mapping of properties.
	many := func(line string) string {
		var text strings.Builder
		text.WriteString(manifestOf(""))
		for i := range count {
			fmt.Fprintf(&text, "      "+line+"\n", i)
		}
		return text.String()
	}

	// If the time were proportional to the square of the number of secrets, it would be an hour.
	DescribeTable("is adopted with many secrets", func(ctx context.Context, manifest, wanted string) {
		dir := GinkgoT().TempDir()
		source, pak := filepath.Join(dir, "m.yml"), filepath.Join(dir, "pak")
		Expect(os.WriteFile(source, []byte(manifest), 0o600)).To(Succeed())
		failed := make(chan error, 1)
		go func() {
			_, _, err := build.InitFrom(ctx, pak, source)
			failed <- err
		}()
		Eventually(failed).WithTimeout(patience).Should(Receive(BeNil()))
		template, err := os.ReadFile(filepath.Join(pak, "bosh", "manifest.yml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(template)).To(And(ContainSubstring(wanted), Not(ContainSubstring("s3cret"))))
	},
		Entry("of different keys", many("k%d_password: s3cret-%[1]d-"),
			fmt.Sprintf("k%d_password: ((k%[1]d_password))", count-1)),
		Entry("of the same key", many("- {password: s3cret-%d-}"),
			fmt.Sprintf("- {password: ((password_%d))}", count-1)),
	)

	It("is rejected if it is larger than 4 MB, without reading the rest", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		endless := filepath.Join(dir, "endless.yml")
		Expect(syscall.Mkfifo(endless, 0o600)).To(Succeed())
		written := make(chan int64, 1)
		go func() {
			defer GinkgoRecover()
			to, err := os.OpenFile(endless, os.O_WRONLY, 0)
			Expect(err).NotTo(HaveOccurred())
			count, err := io.Copy(to, endlessLines{})
			Expect(err).To(MatchError(syscall.EPIPE))
			Expect(to.Close()).To(Succeed())
			written <- count
		}()
		_, _, err := build.InitFrom(ctx, filepath.Join(dir, "pak"), endless)
		Expect(err).To(MatchError(endless + ": the manifest is larger than 4 MB [bosh-manifest]"))
		Expect(err).To(BeAssignableToTypeOf(diag.Errors{}))
		const pipe = 1 << 20 // more than a pipe and a reader buffer
		Eventually(written).WithTimeout(patience).Should(Receive(BeNumerically("<", 4<<20+pipe)))
		Expect(filepath.Join(dir, "pak")).NotTo(BeADirectory())
	})

	It("is not waited for after the context has ended", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		silent := filepath.Join(dir, "silent.yml")
		Expect(syscall.Mkfifo(silent, 0o600)).To(Succeed())
		ctx, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			_, _, err := build.InitFrom(ctx, filepath.Join(dir, "pak"), silent)
			failed <- err
		}()
		cancel()
		Eventually(failed).WithTimeout(patience).Should(Receive(MatchError(context.Canceled)))
	})
})

// endlessLines is a reader of blank lines without an end.
type endlessLines struct{}

func (endlessLines) Read(buffer []byte) (int, error) {
	for i := range buffer {
		buffer[i] = '\n'
	}
	return len(buffer), nil
}

// FuzzInitFrom asserts that every manifest is rejected or becomes a pak that can be opened and whose template contains
// no secret.
func FuzzInitFrom(f *testing.F) {
	for _, properties := range []string{
		`{a: {password: s3cret-7}}`, `{uri: "amqp://u:pw@((host)):5672/v", b: yes, c: ((x.y)), d: ((/a/b.c))}`,
		`{password: "a-((x))"}`,
		`{t: {cert: "-----BEGIN CERTIFICATE-----", key: "-----BEGIN PRIVATE KEY-----\nx"}}`, `&a {b: [*a]}`,
		`{? [a] : b}`, `{password: "[redacted]"}`, `((a)) ((-2))`,
	} {
		f.Add(manifestOf(properties))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		dir := t.TempDir()
		source := filepath.Join(dir, "m.yml")
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := build.InitFrom(t.Context(), filepath.Join(dir, "pak"), source); err != nil {
			return
		}
		pak, err := brokerpak.Open(filepath.Join(dir, "pak"))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := pak.Close(); err != nil {
			t.Fatal(err)
		}
		_, notes, err := build.InitFrom(t.Context(), filepath.Join(dir, "again"),
			filepath.Join(dir, "pak", "bosh", "manifest.yml"))
		if err != nil {
			t.Fatalf("%q: its template is refused: %v", text, err)
		}
		for _, note := range notes {
			if strings.Contains(note.Text, "not copied") {
				t.Fatalf("%q: its template holds a secret: %s", text, note.Text)
			}
		}
	})
}
