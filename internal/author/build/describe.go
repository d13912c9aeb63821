package build

import (
	"context"
	"os"
	"path/filepath"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
)

// describe writes the bill of materials of the built pak into the stage directory. It returns an error if a file of the
// stage cannot be read or written, or if ctx ends.
func (b *builder) describe(ctx context.Context) error {
	files := os.DirFS(b.stage)
	digests, err := brokerpak.Digests(ctx, files, brokerpak.FetchedDirs()...)
	if err != nil {
		return err
	}
	manifest := b.pak.Manifest
	text, err := bill.ForPak(bill.Pak{
		Name: manifest.Name, Version: manifest.Version, Files: files, Digests: digests, Executables: b.executables,
	})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(b.stage, brokerpak.BillName), text, 0o600)
}
