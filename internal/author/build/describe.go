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

// pin checks the location from, which is that of an entry, against the lock of the source, and returns it with a
// checksum. platform is OS/ARCH, such as "linux/amd64", or brokerpak.SourceCode for the source code of the entry.
//
// If b.lock is nil, because the source has no lock or the lock is being written, pin returns the location unchanged.
// Otherwise the first of these cases that applies decides:
//   - The lock lacks the entry for the platform, or the location has a SHA-256 checksum that differs from the lock: pin
//     returns the zero location and a finding.
//   - The location has any other checksum: it is returned unchanged. A SHA-512 checksum is not compared.
//   - The location has no checksum: it gets the SHA-256 digest in the lock as its checksum, and the advice of
//     ifIntended as its field locked, for the message about a file with another digest.
//
// The lock need not name the same location. If it has several files of the entry for the platform, the one with the
// same location counts, or else the first.
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

// lockCommand returns the command line that writes the lock of the pak, for messages: "service-adapter pak lock DIR",
// with Options.Dir as it is.
func (b *builder) lockCommand() string { return "service-adapter pak lock " + b.Dir }

// ifIntended returns a clause for messages about a file that differs from the lock. It says that the author should run
// lockCommand if the lock is out of date and the file is the right one.
func (b *builder) ifIntended() string {
	return "if " + brokerpak.LockName + " is out of date and the file is the right one, run: " + b.lockCommand()
}

// record appends to b.fetched that a file was fetched for an entry and a platform, for the lock that the build writes,
// and returns the origin of the file for the bill: the location without secrets, and the SHA-256 digest of the file.
// from is the location, and file the path of the local copy. platform is OS/ARCH or brokerpak.SourceCode.
//
// With Options.Unpacked, the build writes neither lock nor bill. record then does not read the file, appends nothing,
// and returns an origin without digest. Otherwise it returns an error if the file cannot be read, or if ctx ends.
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

// describe compares the files below bin and src of the stage directory with the lock of the source, if that has one,
// and writes the lock and the bill of materials of the built pak into the stage directory. All binaries must have
// been fetched before. Options.Unpacked must not be set, because the lock would then list no fetched files. The error
// is a diag.Errors if one of these files has another digest in the lock of the source or is not in it; describe then
// writes neither. It returns another error if a file of the stage directory cannot be read or written, if the lock or
// the bill cannot be encoded, or if ctx ends; the lock may have been written then.
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
// source or has another digest there. It returns nil if there is no such file, or if the source has no lock. digests
// contains the hexadecimal SHA-256 digests of the files below bin and src of the built pak, by their slash-separated
// paths. A file of the lock that the built pak lacks is not a finding, because the pak may be built for one platform,
// without source code, or with an executable from Options.Binaries instead of an archive.
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
