package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// A result is what the suites said of a mutant.
type result struct {
	id    string
	suite string // the suite that caught the mutant; "" if it survived
	// all is whether the specs ran that are normally left out, and deep whether the suites ran that drive the built
	// program.
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

// parseResult is the inverse of String.
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

// results are the results of mutants, which are kept in a file.
type results struct {
	path string
	list []result
}

// readResults reads results. A missing file has none.
func readResults(path string) (*results, error) {
	all := &results{path: path}
	text, err := os.ReadFile(path) //nolint:gosec // of the repository
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

// add adds a result or replaces the former one of the mutant, and writes the file.
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
	return os.WriteFile(all.path, []byte(text.String()), 0o644) //nolint:gosec // a file of the repository
}
