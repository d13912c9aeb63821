package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// A result is the outcome of the suites for a mutant.
type result struct {
	id    string
	suite string // the suite that caught the mutant; "" if it survived
	// all is true if the run included the specs that are skipped by default, and deep if it included the suites that
	// run the built program.
	all, deep bool
	failure   string // the first failure
}

// survived reports whether the mutant ran and no suite failed.
func (r result) survived() bool { return r.id != "" && r.suite == "" }

// String returns the line of the result in the file of results: the id, caught or survived, and how.
func (r result) String() string {
	extent := ""
	if r.all {
		extent += " all"
	}
	if r.deep {
		extent += " deep"
	}
	if r.suite == "" {
		return r.id + " survived" + extent
	}
	return r.id + " caught" + extent + " " + r.suite + ": " + r.failure
}

// parseResult parses a line that String returned. It returns an error for any other line.
func parseResult(line string) (result, error) {
	words := strings.Fields(line)
	if len(words) < 2 || words[1] != "caught" && words[1] != "survived" {
		return result{}, fmt.Errorf("not a result: %s", line)
	}
	r := result{id: words[0]}
	head, failure, _ := strings.Cut(line, ": ")
	for _, word := range strings.Fields(head)[2:] {
		switch word {
		case "all":
			r.all = true
		case "deep":
			r.deep = true
		default:
			r.suite, r.failure = word, failure
		}
	}
	return r, nil
}

// results contains the results of mutants and the path of their file.
type results struct {
	path string
	list []result
}

// readResults reads the file of results. A missing file contains none.
func readResults(path string) (*results, error) {
	all := &results{path: path}
	text, err := os.ReadFile(path) //nolint:gosec // it is a file of the repository
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		r, err := parseResult(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all.list = append(all.list, r)
	}
	return all, nil
}

// of returns the result of a mutant, and whether there is one.
func (all *results) of(id string) (result, bool) {
	for _, r := range all.list {
		if r.id == id {
			return r, true
		}
	}
	return result{}, false
}

// add stores the result of a mutant, replacing an earlier one, and writes the file.
func (all *results) add(added result) error {
	replaced := false
	for i, r := range all.list {
		if r.id == added.id {
			all.list[i], replaced = added, true
		}
	}
	if !replaced {
		all.list = append(all.list, added)
	}
	var text strings.Builder
	for _, r := range all.list {
		fmt.Fprintln(&text, r)
	}
	return os.WriteFile(all.path, []byte(text.String()), 0o644) //nolint:gosec // it is a file of the repository
}
