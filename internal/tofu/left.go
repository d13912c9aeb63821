package tofu

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Unsaved returns the workspaces of which the cache directory keeps a state that could not be saved in the backend, sorted. To open
// one of them and to ask for its State saves it.
func (e *Engine) Unsaved() ([]string, error) {
	runs := filepath.Join(e.options.CacheDir, runsName)
	files, err := filepath.Glob(filepath.Join(runs, "*", "*", erroredState))
	if err != nil {
		return nil, fmt.Errorf("looking for states that were not saved: %w", err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(filepath.Dir(file))))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
