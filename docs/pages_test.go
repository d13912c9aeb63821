package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readPage returns the text of a file of the repository, whose path is relative to the root.
func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section returns the text below a heading of the second level, up to the next one.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(readPage(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// firstCells returns the texts in backquotes of the first cell of each row of the tables in a text, in their order.
func firstCells(text string) []string {
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(text, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			names = append(names, name[1])
		}
	}
	return names
}

// TestDependencies compares the table of CONTRIBUTING.md with the direct dependencies of go.mod.
func TestDependencies(t *testing.T) {
	output, err := exec.Command("go", "mod", "edit", "-json", filepath.Join("..", "go.mod")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(output, &module); err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, dependency := range module.Require {
		if !dependency.Indirect {
			direct = append(direct, dependency.Path)
		}
	}
	slices.Sort(direct)
	if rows := firstCells(section(t, "CONTRIBUTING.md", "Dependencies")); !slices.Equal(rows, direct) {
		t.Errorf("the table in CONTRIBUTING.md has\n%s\ngo.mod has\n%s",
			strings.Join(rows, "\n"), strings.Join(direct, "\n"))
	}
}

// TestThreatModelFiles checks that the threat model names only tests that exist, and that each table row about an actor
// names one.
func TestThreatModelFiles(t *testing.T) {
	const page = "docs/threat-model.md"
	file := regexp.MustCompile("`([a-z_/-]+(?:_test\\.go|\\.txtar))`")
	for _, name := range file.FindAllStringSubmatch(readPage(t, page), -1) {
		if _, err := os.Stat(filepath.Join("..", name[1])); err != nil {
			t.Errorf("%s names a test that does not exist: %v", page, err)
		}
	}
	rows := 0
	for _, table := range regexp.MustCompile(`(?m)^\|.*\| shown by \|\n\|.*\n((?:\|.*\n)+)`).
		FindAllStringSubmatch(section(t, page, "Actors"), -1) {
		for row := range strings.Lines(table[1]) {
			rows++
			if !file.MatchString(row) {
				t.Errorf("%s names no test for %s", page, row)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%s has %d rows about actors", page, rows)
	}
}

// TestThreatModelJobs checks that the threat model describes the scripts of every job, and that it describes them
// correctly: each script that runs the adapter gives up root's privileges, no job has a process, and none has another
// script that BOSH starts.
func TestThreatModelJobs(t *testing.T) {
	described := []string{"bin/run", "bin/pre-start", "bin/bbr/backup", "bin/bbr/metadata", "bin/bbr/restore"}
	const asVcap = "setpriv --reuid=vcap --regid=vcap --init-groups --no-new-privs"
	jobs, err := filepath.Glob("../jobs/*")
	if err != nil || len(jobs) == 0 {
		t.Fatalf("%d jobs: %v", len(jobs), err)
	}
	var names []string
	for _, job := range jobs {
		names = append(names, filepath.Base(job))
		monit, err := os.ReadFile(filepath.Join(job, "monit"))
		if err != nil || strings.TrimSpace(string(monit)) != "" {
			t.Errorf("%s has a process, or no file monit: %v", job, err)
		}
		scripts := regexp.MustCompile(`(?m)^  ([a-z-]+\.erb): (bin/.*)$`).
			FindAllStringSubmatch(readPage(t, filepath.Join("jobs", filepath.Base(job), "spec")), -1)
		if len(scripts) == 0 {
			t.Errorf("%s has no scripts", job)
		}
		for _, script := range scripts {
			if !slices.Contains(described, script[2]) {
				t.Errorf("the threat model does not describe %s of %s", script[2], job)
			}
			text := readPage(t, filepath.Join("jobs", filepath.Base(job), "templates", script[1]))
			if strings.Contains(text, "bin/service-adapter ") && (!strings.Contains(text, asVcap) ||
				!strings.Contains(text, "env -i ")) {
				t.Errorf("%s of %s runs the adapter as root, or with root's environment", script[2], job)
			}
		}
	}
	rows := firstCells(section(t, "docs/threat-model.md", "Scripts that start as root"))
	slices.Sort(rows)
	if !slices.Equal(rows, names) {
		t.Errorf("the threat model describes the scripts of %v, and the jobs are %v", rows, names)
	}
}

// TestStemcells checks that no page, example or manifest names only the older of the two supported stemcells.
func TestStemcells(t *testing.T) {
	named := 0
	for _, dir := range []string{
		"docs", "examples", "manifests", "jobs", "adapter/requests", "brokerpak/examples",
		"internal/author/build/skeleton",
	} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			noble := strings.Contains(string(text), "ubuntu-noble")
			if noble {
				named++
			} else if strings.Contains(string(text), "ubuntu-jammy") {
				t.Errorf("%s names the stemcell ubuntu-jammy, and not ubuntu-noble", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if named == 0 {
		t.Error("no file names a stemcell")
	}
}

// TestFIPSCommand checks that the command of the page about cryptography is the one that `make fips` runs, and that
// `make test` runs it.
func TestFIPSCommand(t *testing.T) {
	makefile := strings.ReplaceAll(readPage(t, "Makefile"), "$(FIPS)", "GOFIPS140=v1.0.0")
	for _, line := range []string{"FIPS := GOFIPS140=v1.0.0\n", "test: unit fips "} {
		if !strings.Contains(makefile, "\n"+line) {
			t.Errorf("the Makefile has no line %q", line)
		}
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?\n)```").FindAllStringSubmatch(readPage(t, "docs/cryptography.md"), -1)
	if len(blocks) != 1 || !strings.Contains(makefile, "\n\t"+blocks[0][1]) {
		t.Errorf("`make fips` does not run the command of the page: %q", blocks)
	}
}
