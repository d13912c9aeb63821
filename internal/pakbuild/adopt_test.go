package pakbuild_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/pakbuild"
)

// manifestOf is a manifest with properties of one job, in YAML's flow style.
func manifestOf(properties string) string {
	return "name: d\ninstance_groups:\n- name: g\n  jobs:\n  - name: j\n    properties: " + properties + "\n"
}

// adopted makes a pak of a manifest and returns its template, its definition and the notes.
func adopted(manifest string) (template, definition, notes string, err error) {
	dir := GinkgoT().TempDir()
	source := filepath.Join(dir, "m.yml")
	Expect(os.WriteFile(source, []byte(manifest), 0o600)).To(Succeed())
	_, told, err := pakbuild.InitFrom(filepath.Join(dir, "pak"), source)
	if err != nil {
		Expect(filepath.Join(dir, "pak")).NotTo(BeADirectory())
		return "", "", "", err
	}
	pak, err := brokerpak.Open(filepath.Join(dir, "pak"))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = pak.Close() }() // opened for reading
	for _, note := range told {
		notes += note.Pos.String()[len(dir)+1:] + ": " + note.Text + "\n"
	}
	text, err := os.ReadFile(filepath.Join(dir, "pak", "pak.yml"))
	Expect(err).NotTo(HaveOccurred())
	return pak.Services[0].Provision.Bosh.Manifest.Text, string(text), notes, nil
}

var _ = DescribeTable("what becomes of a property", func(properties string, wanted ...string) {
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
	Entry("a short one", `{a: {password: x}}`, "password: ((password))"),
	Entry("a number", `{pin_token: 123456}`, "pin_token: ((pin_token))", "not 123456"),
	Entry("an octal number that is a secret", `{admin_password: 0123456}`, "((admin_password))", "not 0123456", "not 42798"),
	Entry("the same one twice", `{a: {password: s3cret-7}, b: {password: s3cret-7}}`, "a: {password: ((password))}, b: {password: ((password))}"),
	Entry("two of a name", `{a: {password: s3cret-7}, b: {password: s3cret-8}}`, "b: {password: ((b_password))}", "name: b_password"),
	Entry("one that looks generated", `{cookie: f7oQ2xK9vB3mZp1w}`, "((cookie))", "not f7oQ2x"),
	Entry("one within a text", `{args: -p f7oQ2xK9vB3mZp1w -v}`, "-p ((args)) -v", "not f7oQ2x"),
	Entry("one that stands in another text before", `{args: -p s3cret-7, password: s3cret-7}`, "{args: -p ((password)), password: ((password))}", "not s3cret-7"),
	Entry("one in a URL", `{uri: "amqp://u:pw@((host)):5672/v"}`, "amqp://u:((uri))@((host)):5672/v", "name: uri"),
	Entry("one in a URL with variables around it", `{uri: "amqp://((u)):lit7eral@h"}`, "amqp://((u)):((uri))@h", "not lit7eral"),
	Entry("one beside a variable", `{password: "salt7-((x))"}`, "password: ((password))", "not salt7"),
	Entry("one that is a word elsewhere", `{user: admin, password: admin}`, "user: admin, password: ((password))",
		"decide: this text is also a secret elsewhere, which is ((password)) now"),
	Entry("one in the environment of VMs", `{}`+"\n  env: {bosh: {password: '$6$salt'}}", "password: ((password))", "not $6$salt"),
	Entry("a reference", `{password: ((pw))}`, "password: ((pw))", "{name: pw, length: 32}"),
	Entry("what is only about one", `{password_policy: strict, token_name: a, use_password: true, password: ""}`,
		`{password_policy: strict, token_name: a, use_password: true, password: ""}`),
	Entry("names of links", `{}`+"\n    consumes: {db_credentials: {from: credentials}}", "consumes: {db_credentials: {from: credentials}}"),
	Entry("a certificate without a key", `{credentials: {ca: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"}}`, "BEGIN CERTIFICATE"),
	Entry("a key and its certificate in one", `{pem: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nKEYTEXT\n-----END PRIVATE KEY-----"}`,
		`"((pem.certificate))\n((pem.private_key))"`, "type: certificate", "not KEYTEXT"),
	Entry("a key in a list", `{pems: [{chain: "-----BEGIN CERTIFICATE-----AA", key: "-----BEGIN RSA PRIVATE KEY-----\nKEYTEXT"}]}`,
		"{chain: ((pems.certificate)), key: ((pems.private_key))}", "not KEYTEXT"),
	Entry("a key of SSH", `{host: {key: "-----BEGIN OPENSSH PRIVATE KEY-----\nKEYTEXT", public: ssh-ed25519 AAAA}}`,
		"{key: ((host.private_key)), public: ((host.public_key))}", "type: ssh", "not KEYTEXT"),
	Entry("an address", `{nats: 10.0.0.1}`, "decide: nats is an address of this deployment"),
	Entry("a word that YAML readers disagree about", `{a: yes, b: 0644, c: 1:30, d: 2024-01-01}`, `{a: true, b: 420, c: '1:30', d: "2024-01-01"}`),
	Entry("a variable", `{size: ((size))}`, "decide: ((size)) is an input of plans", "size: change-me", "{field_name: size, type: string, required: true"),
	Entry("a variable with a name that is none of an input", `{size: ((folder/größe-2))}`, "((folder_gr_e_2))", "folder_gr_e_2: change-me"),
	Entry("two variables of one name then", `{a: ((a/b)), b: ((a_b))}`, "a: ((a_b_2)), b: ((a_b))"),
	Entry("a part of a variable", `{size: ((size.large))}`, `size: {"large":"change-me"}`, "type: object"),
	Entry("a certificate that nothing declares", `{cert: ((tls.certificate)), ca: ((tls.ca))}`, "name: tls", "type: certificate"),
	Entry("a secret of the broker", `{a: ((odb_secret:admin)), b: ((/odb/s/service-instance_1/root-2))}`, "{a: ((admin)), b: ((root))}", "name: root"),
	Entry("a credential of the operator", `{ca: ((/shared/ca.certificate)), c: ((/shared/ca.certificate))}`, "{ca: ((/shared/ca.certificate)), c: ((/shared/ca.certificate))}",
		"decide: ((/shared/ca.certificate)) is a credential of CredHub, which the operator must allow"),
	Entry("a property whose name ends in a number", `{password-2: s3cret-7}`, "password-2: ((password_2))", "name: password_2"),
	Entry("a part of a user that nothing declares", `{db: ((db.password))}`, "name: db", "type: user"),
	Entry("a secret of the broker with the name of one that is found", `{admin_token: s3cret-7, b: ((odb_secret:admin_token))}`,
		"{admin_token: ((admin_token)), b: ((admin_token_2))}"),
)

var _ = DescribeTable("a manifest that cannot be used", func(manifest, message string) {
	_, _, _, err := adopted(manifest)
	var faults diag.Errors
	Expect(err).To(BeAssignableToTypeOf(faults))
	Expect(err).To(MatchError(ContainSubstring(message)))
},
	Entry("no YAML", "a: [", "m.yml:1: not valid YAML"),
	Entry("empty", "", "the document is empty"),
	Entry("a list", "[a]", "m.yml:1:1: the manifest has no list instance_groups"),
	Entry("two documents", "a: b\n---\nc: d\n", "only one YAML document is allowed"),
	Entry("a key twice", "instance_groups: [{name: a, name: b}]", `m.yml:1:29: key "name" is there twice`),
	Entry("no groups", "instance_groups: []", "has no list instance_groups"),
	Entry("groups without names", "instance_groups: [{jobs: []}, a]", "m.yml:1:19: an instance group must be a mapping with a name of letters"),
	Entry("a group whose name is a variable", "instance_groups: [{name: ((x))}]", "with a name of letters"),
	Entry("jobs that are none", "instance_groups: [{name: a, jobs: [b]}]", "m.yml:1:36: a job must be a mapping with a name"),
	Entry("nothing but errands", "instance_groups: [{name: a, lifecycle: errand, jobs: []}]", "all instance groups are errands"),
	Entry("operators of spruce", manifestOf("{a: (( grab b ))}"), "m.yml:6:21: (( grab b )) is no BOSH variable"),
	Entry("an empty variable", manifestOf("{a: (())}"), "m.yml:6:21: (()) is no BOSH variable"),
)

// FuzzInitFrom: whatever a manifest holds, it is refused or becomes a pak that can be opened, whose template holds no secret any more.
func FuzzInitFrom(f *testing.F) {
	for _, properties := range []string{
		`{a: {password: s3cret-7}}`, `{uri: "amqp://u:pw@((host)):5672/v", b: yes, c: ((x.y)), d: ((/a/b.c))}`, `{password: "a-((x))"}`,
		`{t: {cert: "-----BEGIN CERTIFICATE-----", key: "-----BEGIN PRIVATE KEY-----\nx"}}`, `&a {b: [*a]}`, `{? [a] : b}`, `{password: "[redacted]"}`, `((a)) ((-2))`,
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
		if _, _, err := pakbuild.InitFrom(filepath.Join(dir, "pak"), source); err != nil {
			return
		}
		pak, err := brokerpak.Open(filepath.Join(dir, "pak"))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := pak.Close(); err != nil {
			t.Fatal(err)
		}
		_, notes, err := pakbuild.InitFrom(filepath.Join(dir, "again"), filepath.Join(dir, "pak", "bosh", "manifest.yml"))
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
