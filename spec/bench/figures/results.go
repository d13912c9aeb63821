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

// The lines of a page between which the figures stand.
const (
	begin = "<!-- figures: begin, written by `make bench` -->"
	end   = "<!-- figures: end -->"
)

// Results are the figures of a run, complete or not.
type Results struct {
	Of       string              `json:"of"` // the checksum of the program that was measured
	Complete bool                `json:"complete"`
	Parts    map[string][]Figure `json:"parts"`
}

// Load returns the results of an interrupted run of the same program, or none. Those of a complete run are wanted only
// when some of them are to be measured again. What cannot be read is measured anew.
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
		return none, nil //nolint:nilerr // as said above
	}
	return &known, nil
}

// Add adds the figures of a part and saves all. The results are complete with the last of the parts that wanted names.
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
	//nolint:gosec // no secrets
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(text, '\n'), 0o644))
}

// Replace puts a text in the place of the figures in a page.
func Replace(page, text string) (string, error) {
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("there is no place for the figures, between %q and %q", begin, end)
	}
	return head + begin + "\n" + text + end + tail, nil
}
