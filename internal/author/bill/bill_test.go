package bill_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
)

// validate fails the test unless a bill is valid according to the JSON Schema of CycloneDX 1.6, which the module
// cyclonedx-go contains.
func validate(t *testing.T, text []byte) {
	t.Helper()
	directory, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	const base = "http://cyclonedx.org/schema/"
	for url, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json",
		"jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		opened, err := os.Open(filepath.Join(strings.TrimSpace(string(directory)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(opened)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+url, document); err != nil {
			t.Fatal(err)
		}
		_ = opened.Close()
	}
	compiler.AssertFormat()
	schema, err := compiler.Compile(base + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// compareGolden compares a text with a file in testdata, which UPDATE=1 writes.
func compareGolden(t *testing.T, name string, text []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(string(want), string(text)); difference != "" {
		t.Error(difference)
	}
}

// samplePak is a pak with two scripts and a licence.
func samplePak() bill.Pak {
	script := &fstest.MapFile{Data: []byte("#!/bin/sh\n")}
	linux := brokerpak.Platform{OS: "linux", Arch: "amd64"}
	return bill.Pak{
		Name: "mail", Version: "1.0.0",
		Files: fstest.MapFS{"bin/linux/amd64/1.6.0/tofu": script, "bin/linux/amd64/terraform-provider-mail_v2": script},
		Digests: map[string]string{
			"bin/linux/amd64/terraform-provider-mail_v2": strings.Repeat("b", 64),
			"bin/linux/amd64/1.6.0/tofu":                 strings.Repeat("a", 64),
			"bin/linux/amd64/1.6.0/LICENSE":              strings.Repeat("c", 64),
		},
		Executables: map[string]bill.Executable{
			"bin/linux/amd64/1.6.0/tofu": {
				Entry: brokerpak.Binary{
					Name: "tofu", Version: "1.6", Source: "https://user:secret@example.com/tofu.zip?token=secret",
				},
				Platform: linux,
				Origin: bill.Origin{
					Location: "https://example.com/tofu_linux.zip",
					SHA256:   strings.Repeat("d", 64),
				},
			},
			"bin/linux/amd64/terraform-provider-mail_v2": {
				Entry: brokerpak.Binary{
					Name: "terraform-provider-mail", Version: "2", ProviderFQN: "registry.terraform.io/acme/mail",
				},
				Platform: linux, Origin: bill.Origin{Location: "providers/mail"},
			},
		},
	}
}

// TestPak: the bill of a pak is valid, has no credentials, and marks unknown values.
func TestPak(t *testing.T) {
	text, err := bill.ForPak(samplePak())
	if err != nil {
		t.Fatal(err)
	}
	validate(t, text)
	compareGolden(t, "pak.json", text)
	if strings.Contains(string(text), "secret") {
		t.Error("the bill contains credentials")
	}
}

// TestPublicReference: locations are listed without secrets.
func TestPublicReference(t *testing.T) {
	for location, wanted := range map[string]string{
		"https://user:secret@example.com/a/tofu.zip?token=secret#secret": "https://example.com/a/tofu.zip",
		"https://user:secret@example.com/%zz":                            "unknown",
		"https://user:sec ret@example.com/a b":                           "unknown",
		"tools/psql?archive=false&token=secret":                          "tools/psql",
		"file://tools/a b:c":                                             "tools/a%20b:c",
		"c:d":                                                            "./c:d",
		"/opt/tofu":                                                      "/opt/tofu",
	} {
		if got := bill.PublicReference(location); got != wanted {
			t.Errorf("PublicReference(%q) = %q, want %q", location, got, wanted)
		}
	}
}

// TestPakIsDeterministic: the same content has the same bill, and other content has another serial number.
func TestPakIsDeterministic(t *testing.T) {
	serial := func(pak bill.Pak) string {
		text, err := bill.ForPak(pak)
		if err != nil {
			t.Fatal(err)
		}
		var bom cdx.BOM
		if err := json.Unmarshal(text, &bom); err != nil {
			t.Fatal(err)
		}
		again, err := bill.ForPak(pak)
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("a second bill differs (%v)", err)
		}
		return bom.SerialNumber
	}
	other := samplePak()
	other.Digests["bin/linux/amd64/1.6.0/LICENSE"] = strings.Repeat("e", 64)
	if serial(samplePak()) == serial(other) {
		t.Error("two paks have the same serial number")
	}
}

// TestGoExecutable: the bill lists the modules of an executable that the Go compiler built: this test.
func TestGoExecutable(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pak := samplePak()
	pak.Files = os.DirFS(filepath.Dir(program))
	name := filepath.Base(program)
	pak.Digests = map[string]string{name: strings.Repeat("a", 64)}
	pak.Executables = map[string]bill.Executable{name: {Entry: brokerpak.Binary{Name: "test", Version: "1"}}}
	text, err := bill.ForPak(pak)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, text)
	var bom cdx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	components := *bom.Components
	if len(components) != 1 || components[0].Components == nil || bom.Compositions != nil {
		t.Fatalf("the modules of the executable are missing:\n%s", text)
	}
	urls := map[string]bool{}
	for _, module := range *components[0].Components {
		urls[strings.SplitAfter(module.PackageURL, "@")[0]] = module.Version != ""
	}
	for _, wanted := range []string{"pkg:golang/stdlib@", "pkg:golang/service-adapter"} { // a test has no other modules
		if !urls[wanted] {
			t.Errorf("no %s in %v", wanted, urls)
		}
	}
}

// TestUnreadableFile: a file that is missing is an error, and the bill does not leave it out.
func TestUnreadableFile(t *testing.T) {
	pak := samplePak()
	pak.Files = fstest.MapFS{}
	if _, err := bill.ForPak(pak); err == nil {
		t.Error("a pak without its files has a bill")
	}
}

// TestProgram: the bill of the program has its modules. It lists the replacement of a replaced module, and "unknown" as
// the version of a module without one.
func TestProgram(t *testing.T) {
	text, err := bill.ForProgram("1.2.3", "", &debug.BuildInfo{
		GoVersion: "go1.26.8 X:nodwarf5",
		Main:      debug.Module{Path: "service-adapter", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "github.com/Masterminds/semver/v3", Version: "v3.5.0", Sum: "h1:kQ="},
			{
				Path: "example.com/old", Version: "v1.0.0",
				Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0+incompatible"},
			},
			{Path: "example.com/local", Version: "v1.0.0", Replace: &debug.Module{Path: "../local"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	validate(t, text)
	compareGolden(t, "program.json", text)
}
