package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The lines of a page before and after the figures.
const (
	begin = "<!-- figures: begin, written by `make bench` -->"
	end   = "<!-- figures: end -->"
)

// Results contains the figures of a run, complete or not.
type Results struct {
	Of       string              `json:"of"` // the checksum of the program that was measured
	Complete bool                `json:"complete"`
	Parts    map[string][]Figure `json:"parts"`
}

// Load returns the results of an interrupted run of the same program. It returns empty results if there are none, or if
// the file cannot be decoded. The results of a complete run are returned only if again is true, which means that a part
// of them is measured again. The error means that the file cannot be read.
func Load(path, of string, again bool) (*Results, error) {
	none := &Results{Of: of, Parts: map[string][]Figure{}}
	text, err := os.ReadFile(path) //nolint:gosec // the benchmark's own file
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results of an earlier run: %w", err)
	}
	var known Results
	if json.Unmarshal(text, &known) != nil || known.Parts == nil || known.Of != of || known.Complete && !again {
		return none, nil //nolint:nilerr // a damaged file counts as missing
	}
	return &known, nil
}

// Add stores the figures of a part and writes all results to the file. The results are complete if they contain all
// parts in wanted.
func (r *Results) Add(path, part string, found []Figure, wanted []string) error {
	r.Parts[part] = found
	r.Complete = true
	for _, name := range wanted {
		_, done := r.Parts[name]
		r.Complete = r.Complete && done
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	//nolint:gosec // it contains no secrets
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(text, '\n'), 0o644))
}

// Replace returns a page in which the text replaces the figures between the marks. The error means that the page lacks
// the marks.
func Replace(page, text string) (string, error) {
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q around the figures", begin, end)
	}
	return head + begin + "\n" + text + end + tail, nil
}
