package record_test

import (
	"math"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/record"
)

type object = map[string]any

// full returns a record with every field, and values that could be read as references.
func full() record.InstanceRecord {
	return record.InstanceRecord{
		Format: 2,
		Identity: record.Identity{
			Pak: "redis", PakVersion: "1.20", Service: "redis", ServiceID: "sid", Plan: "small", PlanID: "pid",
			Deployment: "service-instance_1",
		},
		Received: record.Received{
			Parameters: object{
				"maxclients": int64(math.MaxInt64), "ratio": 2.5, "label": `((evil)) \( "(" (`,
				"list": []any{uint64(1 << 63), nil, true},
			},
			SecretParameters: map[string]string{"license": "license_key"},
			Context:          object{"platform": "cloudfoundry", "annotations": object{"a": "line\nbreak: \u2028 <ä>"}},
			Owner:            record.Owner{Organization: "org", Space: "space"},
			UAAClient:        object{"client_id": "((x))"},
			PlanProperties:   object{"size": int64(5)},
		},
		KeptValues: record.KeptValues{
			Secrets: map[string]record.Secret{
				"a": {Version: 1}, "b": {Version: 2, Value: "literal (1)"},
				"c": {Version: 1, Reference: "((/odb/sid/service-instance_1/c))"},
				"d": {Version: 3, Value: object{"port": int64(1)}},
			},
			Generated: map[string]map[string]any{"id": {"rand.base64#1": "x==", "counter.next#1": int64(7)}},
			Sticky:    object{"zone": "z1"},
		},
		Provisioned: record.Provisioned{
			Outputs: object{"port": int64(6379), "deep": object{"list": []any{}}},
			Template: &record.Template{
				Outputs: object{"host": "h", "port": int64(5432)}, Sensitive: []string{"password"},
			},
			Errand:       &record.Versions{Pak: "redis", PakVersion: "1.20", Template: "digest", Tofu: "1.9.0"},
			Variables:    object{"v": nil},
			DashboardURL: "https://example.com/(a)",
		},
	}
}

var _ = Describe("the record", func() {
	DescribeTable("is decoded as it was encoded", func(r record.InstanceRecord) {
		text := r.Encode()
		Expect(text).NotTo(ContainSubstring("("))
		Expect(text).NotTo(ContainSubstring("\n"))
		Expect(r.Encode()).To(Equal(text), "is the same at every call")
		got, err := record.Decode(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(*got).To(Equal(r))
		Expect(got.Encode()).To(Equal(text))
	},
		Entry("with every field", full()),
		Entry("with only the required fields", record.InstanceRecord{
			Format:   1,
			Identity: record.Identity{Pak: "p", PakVersion: "1", Service: "s", Deployment: "d"},
		}),
	)

	DescribeTable("is found in a manifest", func(manifest func(text string) string) {
		got, err := record.FromManifest(manifest(full().Encode()))
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(HaveValue(Equal(full())))
	},
		Entry("on the last line", func(text string) string {
			return "name: x\nbrokerpak: '" + strings.ReplaceAll(text, "'",
				"''") + "'\n"
		}),
		Entry("on the only line", func(text string) string {
			return "brokerpak: '" + strings.ReplaceAll(text, "'",
				"''") + "'"
		}),
		Entry("with line ends of another system", func(text string) string {
			return "name: x\r\nbrokerpak: '" + strings.ReplaceAll(text, "'", "''") + "'\r\n"
		}),
		Entry("as an alias", func(text string) string {
			return "x: &record '" + strings.ReplaceAll(text, "'", "''") + "'\nbrokerpak: *record\n"
		}),
		Entry("before others", func(text string) string {
			return "brokerpak: '" + strings.ReplaceAll(text, "'", "''") + "'\n" +
				"properties:\n  x: |\n    brokerpak: other\n"
		}),
		Entry("as any YAML library writes it", func(text string) string {
			out, err := yaml.Marshal(object{"brokerpak": text, "name": "x", "zone": "brokerpak: no"})
			Expect(err).NotTo(HaveOccurred())
			return string(out)
		}),
		Entry("folded over several lines", func(text string) string {
			return "brokerpak: >-\n  " + strings.Replace(text, `"pak":`, "\n  "+`"pak":`, 1) + "\nname: x\n"
		}),
		Entry("with a quoted key", func(text string) string {
			return "name: x\n\"brokerpak\": '" + strings.ReplaceAll(text, "'", "''") + "'\n"
		}),
		Entry("in JSON", func(text string) string {
			out, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{
				{Kind: yaml.ScalarNode, Value: "brokerpak"},
				{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: text},
			}})
			Expect(err).NotTo(HaveOccurred())
			return string(out)
		}),
		Entry("next to a text that looks like one", func(text string) string {
			return "brokerpak: '" + strings.ReplaceAll(text, "'", "''") + "'\nname: \"x\nbrokerpak: y\"\n"
		}),
	)

	DescribeTable("is not found", func(manifest string) {
		got, err := record.FromManifest(manifest)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(BeNil())
	},
		Entry("in no manifest", ""),
		Entry("in null", "~"),
		Entry("in the manifest of another adapter", "name: service-instance_1\ninstance_groups: []\n"),
		Entry("below the top level", "properties:\n  brokerpak: '{\"format\":1}'\n"),
		Entry("in a block scalar", "properties:\n  x: |\n    brokerpak: '{\"format\":1}'\n"),
		Entry("in a quoted scalar without indentation", "name: \"x\nbrokerpak: y\"\n"),
		Entry("in a comment", "# brokerpak: x\nname: x\n"),
		Entry("in another key", "brokerpak_version: '{\"format\":1}'\nmy-brokerpak: x\n"),
	)

	DescribeTable("cannot be read from a text that is not a manifest", func(manifest string) {
		_, err := record.FromManifest(manifest)
		Expect(err).To(MatchError(record.ErrNoManifest))
	},
		Entry("invalid YAML", "{[not yaml"),
		Entry("a list", "- brokerpak: x\n"),
		Entry("a text", "brokerpak\n"),
	)

	// The files were written by releases that used these formats, and are never changed.
	DescribeTable("of every format is decoded, and encoded as before", func(file string, format int) {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		got, err := record.Decode(string(text))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Format).To(Equal(format))
		Expect(got.Encode() + "\n").To(Equal(string(text)))
	},
		Entry("1", "testdata/record-1.json", 1),
		Entry("2, with an errand and sticky inputs", "testdata/record-2.json", 2),
	)

	DescribeTable("is rejected", func(manifest, message string) {
		got, err := record.FromManifest(manifest)
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(got).To(BeNil())
	},
		Entry("when it is newer", `brokerpak: '{"format":3}'`,
			`reading the record "brokerpak" of the manifest: format 3 is not supported; `+
				`a newer adapter may have written it`),
		Entry("without a format", `brokerpak: '{}'`, "format 0 is not supported"),
		Entry("if it contains only the format", `brokerpak: "{\"format\":1}"`,
			`reading the record "brokerpak" of the manifest: it does not name a service`),
		Entry("when it is a mapping", "name: x\nbrokerpak: {format: 1}\n",
			`line 2: it must be a string, as the adapter wrote it, not a mapping`),
		Entry("when it is a list", "brokerpak: [1]\n", "not a list"),
		Entry("when it is null", "brokerpak:\n", "not null"),
		Entry("if its value is null", "name: x\nbrokerpak: null\n", "not null"),
		Entry("when it is a number", "brokerpak: 7\n", `not "7"`),
		Entry("when it is empty", "brokerpak: ''\n",
			`reading the record "brokerpak" of the manifest: unexpected end of JSON input`),
		Entry("when it is null in JSON", `{"name": "x", "brokerpak": null}`, "not null"),
		Entry("when it is a text within a text", `brokerpak: '"{\"format\":1}"'`,
			`reading the record "brokerpak" of the manifest: json: `),
		Entry("when it is cut off", `brokerpak: '{"format":1'`,
			`reading the record "brokerpak" of the manifest: unexpected EOF`),
		Entry("when further text follows it", `brokerpak: '{"format":1}}'`,
			`reading the record "brokerpak" of the manifest: unexpected data after the JSON document`),
		Entry("when it is not JSON", `brokerpak: hello`,
			`reading the record "brokerpak" of the manifest: invalid character`),
		Entry("when a field has another type", `brokerpak: '{"format":1,"pak":5}'`,
			`reading the record "brokerpak" of the manifest: `),
		Entry("when the manifest around it is broken", "brokerpak: '\nx: [",
			`reading the record "brokerpak" of the manifest: yaml: `),
	)
})

var _ = DescribeTable("a secret's name in CredHub", func(version int, want string) {
	Expect(record.Secret{Version: version}.StoredName("password")).To(Equal(want))
},
	Entry(nil, 0, "password"),
	Entry(nil, 1, "password"),
	Entry(nil, 2, "password-2"),
	Entry(nil, 10, "password-10"),
)

var _ = DescribeTable("a record has the oldest format that an older adapter cannot misread",
	func(r record.InstanceRecord, format int) {
		r.Service = "redis"
		read, err := record.Decode(r.Encode())
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Format).To(Equal(format))
	},
	Entry("with nothing new", record.InstanceRecord{}, 1),
	Entry("with keepers, which an older one forgets", record.InstanceRecord{
		KeptValues: record.KeptValues{Secrets: map[string]record.Secret{"p": {Version: 1, Keepers: "k"}}},
	}, 1),
	Entry("of an errand, whose secrets an older one would generate again", record.InstanceRecord{
		Provisioned: record.Provisioned{Errand: &record.Versions{}},
	}, 2),
	Entry("with sticky inputs, which an older one would change", record.InstanceRecord{
		KeptValues: record.KeptValues{Sticky: map[string]any{"a": int64(1)}},
	}, 2),
)
