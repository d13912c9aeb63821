package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// authorsRepository creates a git repository in a temporary directory with a new pak, whose first version has a tag. It
// returns the path of the repository and a function that executes a shell script in it, with service-adapter in the
// PATH, and returns the script's output.
func authorsRepository(t *testing.T) (dir string, run func(script string) (string, error)) {
	t.Helper()
	parent := authorsDir(t)
	dir = filepath.Join(parent, "cache")
	run = func(script string) (string, error) {
		shell := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script)
		shell.Dir = dir
		path := filepath.Join(parent, "build", "bin") + ":" + os.Getenv("PATH")
		shell.Env = append(os.Environ(), "PATH="+path, "GIT_CONFIG_GLOBAL=/dev/null")
		output, err := shell.CombinedOutput()
		return string(output), err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	output, err := run("service-adapter pak init . && git init -q . && git add -A && " +
		"git -c user.name=a -c user.email=a@example.com commit -qm one && git tag v0.1.0")
	if err != nil {
		t.Fatalf("creating a repository: %v\n%s", err, output)
	}
	// With binaries in its directory, the pak is tested without downloads.
	if err := addBinaries(repository(t), dir); err != nil {
		t.Fatal(err)
	}
	return dir, run
}

// TestWorkflow runs the steps of the workflow in docs/tutorial.md that check a pak, with a correct pak and with a
// breaking change.
func TestWorkflow(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```yaml\n(# .github/workflows/pak.yml\n.*?)^```$")
	matches := block.FindStringSubmatch(readFile(t, "docs/tutorial.md"))
	if matches == nil {
		t.Fatal("docs/tutorial.md has no workflow")
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string `yaml:"run"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(matches[1]), &workflow); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, step := range workflow.Jobs["pak"].Steps {
		if strings.Contains(step.Run, "service-adapter pak") {
			steps = append(steps, step.Run)
		}
	}
	if len(steps) != 3 {
		t.Fatalf("the workflow must have 3 steps that run service-adapter, not %q", steps)
	}
	dir, run := authorsRepository(t)
	for _, step := range steps {
		if output, err := run(step); err != nil {
			t.Errorf("%s: %v\n%s", step, err, output)
		}
	}
	definition := filepath.Join(dir, "cache.yml")
	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "field_name: maxclients", "field_name: clients", 1)
	if err := os.WriteFile(definition, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		_, last, _ := strings.Cut("\n"+strings.TrimSpace(step), "\nservice-adapter ")
		if output, err := run("service-adapter " + last); err == nil {
			t.Errorf("%s succeeds with a breaking change:\n%s", step, output)
		} else if strings.Contains(last, "--format github") && !strings.Contains(output, "::error file=") {
			t.Errorf("%s writes no annotation:\n%s", step, output)
		}
	}
}

// TestPreCommitHook runs the command of .pre-commit-hooks.yaml as pre-commit would: it succeeds with a valid pak and
// fails with an invalid one, and the hook runs for every file of a pak.
func TestPreCommitHook(t *testing.T) {
	var hooks []struct {
		ID            string   `yaml:"id"`
		Entry         string   `yaml:"entry"`
		Args          []string `yaml:"args"`
		Files         string   `yaml:"files"`
		Language      string   `yaml:"language"`
		PassFilenames bool     `yaml:"pass_filenames"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".pre-commit-hooks.yaml")), &hooks); err != nil {
		t.Fatal(err)
	}
	if len(hooks) != 1 || hooks[0].PassFilenames || hooks[0].Language != "golang" {
		t.Fatalf("unexpected hooks: %+v", hooks)
	}
	hook := hooks[0]
	if !strings.Contains(readFile(t, "docs/tutorial.md"), "- id: "+hook.ID+"\n") {
		t.Errorf("docs/tutorial.md has no hook %s", hook.ID)
	}
	dir, run := authorsRepository(t)
	command := hook.Entry + " " + strings.Join(hook.Args, " ")
	if output, err := run(command); err != nil {
		t.Errorf("%s: %v\n%s", command, err, output)
	}
	for _, file := range []string{"manifest.yml", "cache.yml", "bosh/manifest.yml", "terraform/bind.tf"} {
		_, err := os.Stat(filepath.Join(dir, file))
		if err != nil || !regexp.MustCompile(hook.Files).MatchString(file) {
			t.Errorf("%s does not exist or does not match the files of the hook (%v)", file, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bosh", "manifest.yml"), []byte("name: ((typo))\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := run(command); err == nil {
		t.Errorf("the hook succeeds with an invalid pak:\n%s", output)
	}
}
