package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"service-adapter/spec/bench/figures"
)

// resultsFile returns the path of the stored results. Quick runs have their own file.
func (b *bench) resultsFile() string {
	if b.quick {
		return filepath.Join(b.root, "build", "bench", "quick.json")
	}
	return filepath.Join(b.root, "build", "bench", "results.json")
}

// report prints the table. After a thorough run of all parts, it also writes the table into the documentation.
func (b *bench) report(known *figures.Results) error {
	var list []figures.Figure
	for _, p := range parts() {
		list = append(list, known.Parts[p.name]...)
	}
	text := figures.Table(list)
	fmt.Print(text)
	if b.quick || !known.Complete {
		return nil
	}
	docs := filepath.Join(b.root, "docs")
	page, err := os.ReadFile(filepath.Join(docs, "performance.md")) //nolint:gosec // a file of the repository
	if err != nil {
		return err
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	machine := fmt.Sprintf("Measured on %d cores, %s, with %s and OpenTofu %s.\n\n", runtime.NumCPU(), platform,
		runtime.Version(), tofuVersion)
	written, err := figures.Replace(string(page), machine+text)
	if err != nil {
		return fmt.Errorf("docs/performance.md: %w", err)
	}
	programs, err := json.MarshalIndent(object{
		"cores": runtime.NumCPU(), "platform": platform, "go": runtime.Version(), "opentofu": tofuVersion,
		"figures": list,
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeAll(docs, map[string]string{"performance.md": written, "performance.json": string(programs) + "\n"})
}

// fileChecksum returns the SHA-256 digest of a file.
func fileChecksum(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the program to measure
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it is only read
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
