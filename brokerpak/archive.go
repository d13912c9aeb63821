package brokerpak

import (
	"archive/zip"
	"fmt"
	"path"
	"slices"
	"strings"
)

// entryName is an entry's path in the pak. Some programs write "./" before it.
func entryName(file *zip.File) string {
	return path.Clean(strings.ReplaceAll(file.Name, `\`, "/"))
}

// checkEntries refuses an index that programs would read differently: a name that leads outside of the pak, which some cut
// and others follow, and a name that stands for two files, of which some take the first and others the last.
func checkEntries(files []*zip.File) error {
	seen := make(map[string]bool, len(files))
	for _, file := range files {
		slashes := strings.ReplaceAll(file.Name, `\`, "/")
		if path.IsAbs(slashes) || slices.Contains(strings.Split(slashes, "/"), "..") {
			return fmt.Errorf("the zip holds a file %q, which leads outside of the pak", file.Name)
		}
		name := entryName(file)
		if seen[name] && !file.Mode().IsDir() {
			return fmt.Errorf("the zip holds two files %q", name)
		}
		seen[name] = seen[name] || !file.Mode().IsDir()
	}
	return nil
}
