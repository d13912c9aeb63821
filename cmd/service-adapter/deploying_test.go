package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// invoiceDefinition is the service of the recipes in docs/deploying.md.
const invoiceDefinition = `version: 1
name: invoice
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: Invoice
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plans:
- {name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}
provision:
  bosh: {manifest: {stemcells: [{alias: default}], instance_groups: [{name: server, jobs: [{name: server}]}]}}
requires_commands: [invoice-client]
bind:
  computed_inputs:
  - {name: file, type: string, default: '${config("file")}'}
  template: |
    variable "file" { type = string }
    resource "terraform_data" "account" {
      provisioner "local-exec" {
        command = "invoice-client >${var.file}"
      }
    }
`

// invoiceManifest is the manifest of a pak without programs of its own.
const invoiceManifest = `packversion: 1
name: invoice
version: 1.0.0
platforms: [{os: linux, arch: amd64}, {os: linux, arch: arm64}]
service_definitions: [invoice.yml]
`

// TestDeployingRecipes follows each recipe of docs/deploying.md for a program that commands need, up to a bind that
// runs the program.
func TestDeployingRecipes(t *testing.T) {
	_, section, _ := strings.Cut(readFile(t, "docs/deploying.md"), "\n## Programs that commands need\n")
	section, _, _ = strings.Cut(section, "\n## ")
	recipes := map[string]string{}
	for _, part := range strings.Split(section, "\n### ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		recipes[title] = text
	}
	program := invoiceSite{t: t, inPak: yamlBlock(t, recipes["In the pak"], "manifest.yml")}
	tests := map[string]func(s invoiceSite){
		"In the pak": func(s invoiceSite) { s.writeScript(filepath.Join(s.dir, "invoice", "commands")) },
		"In the pak, as a static program": func(s invoiceSite) {
			s.write("invoice-client/go.mod", "module invoice\n\ngo 1.26\n")
			s.write("invoice-client/main.go",
				"package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"ran\") }\n")
			recipe := recipes["In the pak, as a static program"]
			command := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindStringSubmatch(recipe)
			if command == nil {
				t.Fatal("the recipe has no command")
			}
			s.run("sh", "-euc", "mkdir -p invoice/commands; "+command[1])
			s.expectStatic("invoice/commands/invoice-client")
		},
		"From a package of a release": func(s invoiceSite) {
			s.inPak = "terraform_binaries: [{name: tofu, version: 1.12.6, default: true}]\n"
			s.write("invoice/manifest.yml", invoiceManifest+s.inPak)
			var operations []struct{ Path string }
			ops := yamlBlock(t, recipes["From a package of a release"], "ops.yml")
			if err := yaml.Unmarshal([]byte(ops), &operations); err != nil || len(operations) != 1 {
				t.Fatalf("%s: %v", ops, err)
			}
			s.install()
			missing := `requires the command "invoice-client"`
			if err := s.prepare(); err == nil || !strings.Contains(err.Error(), missing) {
				t.Errorf("without the program, prepare returns %v", err)
			}
			// The package cannot be installed below /var/vcap.
			packages := filepath.Join(s.dir, "packages")
			properties := yamlBlock(t, recipes["From a package of a release"], "properties.yml")
			s.write("config.yml", strings.ReplaceAll(properties, "/var/vcap/packages", packages))
			s.writeScript(filepath.Join(packages, "invoice-client", "bin"))
		},
	}
	if len(tests) != len(recipes) {
		t.Errorf("%d of %d recipes are tested", len(tests), len(recipes))
	}
	for title, follow := range tests {
		t.Run(title, func(t *testing.T) {
			if title != "In the pak" {
				kit.SkipSlow(t)
			}
			s := program
			s.t, s.dir = t, t.TempDir()
			s.write("config.yml", "config: {}\n")
			s.write("invoice/invoice.yml", invoiceDefinition)
			s.write("invoice/manifest.yml", invoiceManifest+s.inPak)
			follow(s)
			if _, err := os.Stat(filepath.Join(s.dir, "installed")); err != nil {
				s.install()
			}
			if err := s.prepare(); err != nil {
				t.Fatal(err)
			}
			s.bind()
			if text, err := os.ReadFile(filepath.Join(s.dir, "used")); err != nil || string(text) != "ran\n" {
				t.Errorf("the command wrote %q (%v)", text, err)
			}
		})
	}
}

// yamlBlock returns the block of YAML with a label in a text.
func yamlBlock(t *testing.T, text, label string) string {
	t.Helper()
	block := regexp.MustCompile("(?ms)^```yaml " + regexp.QuoteMeta(label) + "\n(.*?)^```$").FindStringSubmatch(text)
	if block == nil {
		t.Fatalf("there is no block %s in %s", label, text)
	}
	return block[1]
}

// An invoiceSite is a directory with a pak, in the subdirectory invoice, and the configuration of an adapter.
type invoiceSite struct {
	t     *testing.T
	dir   string
	inPak string // the binaries in the manifest of the pak
}

// write creates or replaces a file.
func (s invoiceSite) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// writeScript creates the program of the recipes, as a script, in a directory.
func (s invoiceSite) writeScript(dir string) {
	s.t.Helper()
	path := filepath.Join(dir, "invoice-client")
	script := []byte("#!/bin/sh\necho ran\n")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, script, 0o700)); err != nil {
		s.t.Fatal(err)
	}
}

// expectStatic checks that a program needs no libraries.
func (s invoiceSite) expectStatic(name string) {
	s.t.Helper()
	file, err := elf.Open(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		s.t.Errorf("%s needs %v (%v)", name, libraries, err)
	}
}

// run runs a program in the directory, which must succeed.
func (s invoiceSite) run(program string, args ...string) {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), program, args...)
	command.Dir = s.dir
	if output, err := command.CombinedOutput(); err != nil {
		s.t.Fatalf("%s %q: %v\n%s", program, args, err, output)
	}
}

// adapter returns a command of the adapter. Its PATH does not contain the program of the recipes.
func (s invoiceSite) adapter(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, broker.Binary(s.t), args...)
	command.Dir = s.dir
	command.Env = []string{
		"PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir(), "SERVICE_ADAPTER_CONFIG=" + filepath.Join(s.dir, "config.yml"),
		"SERVICE_ADAPTER_PAKS=[\"" + filepath.Join(s.dir, "installed") + "\"]",
		"SERVICE_ADAPTER_STATE={config: {dir: \"" + filepath.Join(s.dir, "state") + "\"}}",
		"SERVICE_ADAPTER_CACHE_DIR=" + filepath.Join(s.dir, "cache"),
		"GSB_FILE=" + filepath.Join(s.dir, "used"),
	}
	return command
}

// install builds and installs the pak as a release does.
func (s invoiceSite) install() {
	s.t.Helper()
	pak := filepath.Join(s.dir, "invoice.brokerpak")
	for _, args := range [][]string{
		{
			"pak", "build", filepath.Join(s.dir, "invoice"), "--target", "current", "--output", pak,
			"--binary", "tofu=" + kit.Path("build", "tofu", "1.12.6", "tofu"),
		},
		{"pak", "unpack", pak, filepath.Join(s.dir, "installed")},
	} {
		if output, err := s.adapter(s.t.Context(), args...).CombinedOutput(); err != nil {
			s.t.Fatalf("%q: %v\n%s", args, err, output)
		}
	}
}

// prepare runs the command prepare and returns its error.
func (s invoiceSite) prepare() error {
	s.t.Helper()
	output, err := s.adapter(s.t.Context(), "prepare", "--dir", filepath.Join(s.dir, "prepared")).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(output)))
	}
	return nil
}

// bind creates a binding.
func (s invoiceSite) bind() {
	s.t.Helper()
	input, err := json.Marshal(map[string]any{"create_binding": map[string]any{
		"binding_id": "b1", "bosh_vms": "{}", "manifest": "name: service-instance_i1\n", "request_parameters": "{}",
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	command := s.adapter(s.t.Context(), "create-binding")
	command.Stdin = strings.NewReader(string(input))
	if output, err := command.CombinedOutput(); err != nil {
		s.t.Fatalf("create-binding: %v\n%s", err, output)
	}
}
