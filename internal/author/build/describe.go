package build

import (
	"context"
	"crypto"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
	"service-adapter/internal/diag"
)

// lockRule is the rule of findings about files that differ from the lock.
const lockRule = "lock"

// pin returns a location with the digest of the lock as its checksum, if it has none. It returns the location unchanged
// if the pak has no lock. platform is OS/ARCH or brokerpak.SourceCode. A lock without the entry is a finding, and so is
// a checksum of the location that differs from the lock.
func (b *builder) pin(from location, entry brokerpak.Binary, platform string) (location, error) {
	if b.lock == nil {
		return from, nil
	}
	locked, ok := b.lock.Fetch(entry, platform, from.origin)
	if !ok {
		return location{}, findingf(lockRule, "%s does not list it; run: %s", brokerpak.LockName, b.lockCommand())
	}
	digest := "sha256:" + locked.SHA256
	if from.checksum != "" && strings.HasPrefix(from.checksum, "sha256:") && from.checksum != digest {
		return location{}, findingf(lockRule, "the manifest has the checksum %s, and %s:%d has %s; run: %s",
			from.checksum, brokerpak.LockName, locked.Pos.Line, digest, b.lockCommand())
	}
	if from.checksum == "" {
		from.checksum, from.locked = digest, b.ifIntended()
	}
	return from, nil
}

// lockCommand returns the command that writes the lock of the pak.
func (b *builder) lockCommand() string { return "service-adapter pak lock " + b.Dir }

// ifIntended returns what an author should do about a file that differs from the lock, as a clause.
func (b *builder) ifIntended() string {
	return "if " + brokerpak.LockName + " is out of date and the file is the right one, run: " + b.lockCommand()
}

// record notes that a file was fetched for an entry and a platform, for the lock and the bill of the built pak, and
// returns the origin of the file. It does not read the file if the build writes neither. platform is OS/ARCH or
// brokerpak.SourceCode. record returns an error if the file cannot be read, or if ctx ends.
func (b *builder) record(
	ctx context.Context, from location, file string, entry brokerpak.Binary, platform string,
) (bill.Origin, error) {
	origin := bill.Origin{Location: from.origin}
	if b.Unpacked {
		return origin, nil
	}
	var err error
	if origin.SHA256, err = checksum(ctx, crypto.SHA256, file); err != nil {
		return origin, err
	}
	b.fetched = append(b.fetched, brokerpak.FetchedFile{
		Name: entry.Name, Version: entry.Version, Platform: platform, From: from.origin, SHA256: origin.SHA256,
	})
	return origin, nil
}

// describe compares the files that were fetched into the stage directory with the lock of the source, and writes the
// lock and the bill of materials of the built pak into it. The error is a diag.Errors if files differ from the lock.
// describe returns another error if a file of the stage cannot be read or written, or if ctx ends.
func (b *builder) describe(ctx context.Context) error {
	files := os.DirFS(b.stage)
	digests, err := brokerpak.Digests(ctx, files, brokerpak.FetchedDirs()...)
	if err != nil {
		return err
	}
	if err := b.compareWithLock(digests); err != nil {
		return err
	}
	lock, err := brokerpak.NewLock(b.fetched, digests).Encode()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(b.stage, brokerpak.LockName), lock, 0o600); err != nil {
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

// compareWithLock returns a diag.Errors with a finding for each file of the built pak that is not in the lock of the
// source or has another digest there. A file of the lock that the built pak lacks is not a finding, because the pak may
// be built for one platform, without source code, or with an executable from Options.Binaries instead of an archive.
func (b *builder) compareWithLock(digests map[string]string) error {
	if b.lock == nil {
		return nil
	}
	diags := &diag.List{}
	for _, difference := range b.lock.Differences(digests, brokerpak.FetchedDirs()...) {
		pos := difference.Pos
		if difference.Locked == "" {
			pos = diag.Pos{File: b.pak.Display(brokerpak.LockName), Line: 1}
		}
		if difference.Actual != "" {
			diags.Errorf(pos, lockRule, "%s; %s", difference, b.ifIntended())
		}
	}
	return diags.Err()
}
