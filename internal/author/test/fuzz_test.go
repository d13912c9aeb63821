package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"service-adapter/brokerpak"
)

// FuzzCases: any text of a case and of the defaults gives cases that can be played, or findings with their places.
func FuzzCases(f *testing.F) {
	dir := f.TempDir()
	write := func(f testing.TB, path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	write(f, "manifest.yml", "packversion: 1\nname: a\nversion: 1.0.0\nplatforms: [{os: linux, arch: amd64}]\n"+
		"terraform_binaries: [{name: tofu, version: 1.12.6}]\nservice_definitions: [a.yml]\n")
	write(f, "a.yml", `version: 1
name: a
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: A
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
provision:
  bosh: {manifest: {stemcells: [{alias: default}], instance_groups: [{name: server, jobs: [{name: server}]}]}}
`)
	pak, err := brokerpak.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	files, err := filepath.Glob("../../../examples/*/tests/*.yml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "")
		f.Add("bind: {}\n", string(text))
	}
	for _, text := range []string{
		"", "null", "steps: []", "steps:", "steps: [null]", "steps: [{do: create, plan: huge}]", "steps: [{do: run}]",
		"create: &a {b: *a}", "service: b",
		"<<: {plan: small}\ncreate: 5", "expect: []", "steps: [{do: bind, expect: {exit: 49}, vms: {a: }}]",
		"create: {}\nsteps: [{do: bind}]", "a: [",
		"--- {}\n--- {}\n", "create: {a: 2020-01-01, b: !!binary YQ==, c: 1_0, d: .nan}", "server: {ports: {}}",
		"plan: small\nplan: small\n",
	} {
		f.Add(text, "")
		f.Add("steps: [{do: create, parameters: {}}]", text)
	}
	place := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(dir) + `/tests/(case|defaults)\.yml:(\d+:)?`)
	f.Fuzz(func(t *testing.T, text, defaults string) {
		write(t, "tests/case.yml", text)
		write(t, "tests/defaults.yml", defaults)
		cases, err := Cases(pak, false)
		if err != nil {
			for finding := range strings.Lines(err.Error()) {
				if !place.MatchString(finding) {
					t.Errorf("a finding without a place: %q", finding)
				}
			}
			return
		}
		for _, made := range cases {
			if len(made.Steps) == 0 || made.Name != "case" || made.Service != "a" {
				t.Errorf("no case that can be played: %+v", made)
			}
		}
	})
}
