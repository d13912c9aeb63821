package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// psych decodes YAML documents with ruby, as the Director does.
func psych(ctx context.Context, documents []string) []any {
	GinkgoHelper()
	input, err := json.Marshal(documents)
	Expect(err).NotTo(HaveOccurred())
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, "ruby", "-ryaml", "-rjson", "-e",
		"puts JSON.generate(JSON.parse($stdin.read).map { |text| YAML.safe_load(text, aliases: true) })")
	command.Stdin, command.Stderr = bytes.NewReader(input), &stderr
	output, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	var values []any
	Expect(json.Unmarshal(output, &values)).To(Succeed())
	return values
}

// golang decodes YAML documents as the adapter does.
func golang(documents []string) []any {
	GinkgoHelper()
	values := []any{}
	for _, document := range documents {
		var decoded, plain any
		Expect(yaml.Unmarshal([]byte(document), &decoded)).To(Succeed())
		Expect(json.Unmarshal(value.MustJSON(value.Normalise(decoded)), &plain)).To(Succeed())
		values = append(values, plain)
	}
	return values
}

// aside matches the lines of manifestgen's cases at which the text after a manifest begins.
var aside = regexp.MustCompile(`(?m)^(# |--- |error: |user error: |no pending changes|PENDING CHANGES)`)

var _ = Describe("The Director", func() {
	It("decodes the manifests of manifestgen's cases as the adapter does", func(ctx context.Context) {
		names, err := filepath.Glob(kit.Path("manifestgen", "testdata", "*.txtar"))
		Expect(err).NotTo(HaveOccurred())
		documents := []string{}
		for _, name := range names {
			archive, err := txtar.ParseFile(name)
			Expect(err).NotTo(HaveOccurred())
			for _, file := range archive.Files {
				for _, part := range aside.Split(string(file.Data), -1) {
					_, document, _ := strings.Cut(part, "\n") // the document begins after the first line
					if file.Name == "want" && strings.HasPrefix(document, "name: ") {
						documents = append(documents, document)
					}
				}
			}
		}
		Expect(len(documents)).To(BeNumerically(">", 30))
		Expect(psych(ctx, documents)).To(Equal(golang(documents)))
	})

	It("decodes every text of a user as the adapter does", func(ctx context.Context) {
		pak, err := filepath.Abs(filepath.Join("testdata", "pak"))
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(kit.Directory(GinkgoT()), "service-adapter.yml")
		writeFile("paks: ["+pak+"]\nsecure_manifests: true\n", file)
		adapter := broker.Adapter{Path: adapterBinary, Env: []string{"SERVICE_ADAPTER_CONFIG=" + file}}
		documents, wanted := []string{}, []any{}
		for _, text := range hostile() {
			if strings.Contains(text.(string), "((") {
				continue // the adapter rejects the text
			}
			i := instance()
			answer, err := adapter.Call(ctx, "generate-manifest",
				i.Generate(map[string]any{"parameters": map[string]any{"text": text}}))
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Exit).To(BeZero(), "%q: %s%s", text, answer.Stdout, answer.Stderr)
			Expect(i.Deploy(answer.Stdout)).To(Succeed())
			documents, wanted = append(documents, i.Manifest), append(wanted, text)
		}
		for i, read := range psych(ctx, documents) {
			group := read.(map[string]any)["instance_groups"].([]any)[0].(map[string]any)
			job := group["jobs"].([]any)[0].(map[string]any)
			Expect(job["properties"]).To(HaveKeyWithValue("text", wanted[i]))
		}
		Expect(psych(ctx, documents)).To(Equal(golang(documents)))
	})
})
