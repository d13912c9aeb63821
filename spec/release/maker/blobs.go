package maker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	boshcrypto "github.com/cloudfoundry/bosh-cli/v7/crypto"
	boshalgorithms "github.com/cloudfoundry/bosh-utils/crypto"
	boshlog "github.com/cloudfoundry/bosh-utils/logger"
	boshsys "github.com/cloudfoundry/bosh-utils/system"
	"gopkg.in/yaml.v3"
)

// A blob is an entry of config/blobs.yml in the format of the BOSH CLI.
type blob struct {
	Size int64 `yaml:"size"`
	// ObjectID is the name of the blob in the blobstore. It is "" until the blob is uploaded.
	ObjectID string `yaml:"object_id,omitempty"`
	Digest   string `yaml:"sha"`
}

// trackBlobs writes an entry for every blob of a release directory to its config/blobs.yml, because the BOSH CLI
// deletes blobs without an entry. It returns an error if a blob differs from its existing entry and is not in added,
// because the CLI would then download a file that the checks of this package have not read.
func trackBlobs(dir string, added []string) error {
	index := filepath.Join(dir, "config", "blobs.yml")
	text, err := os.ReadFile(index) //nolint:gosec // a file of the release
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var listed map[string]blob
	if err := yaml.Unmarshal(text, &listed); err != nil {
		return fmt.Errorf("reading config/blobs.yml: %w", err)
	}
	if listed == nil {
		listed = map[string]blob{}
	}
	files := boshsys.NewOsFileSystem(boshlog.NewLogger(boshlog.LevelNone))
	for name, entry := range listed {
		if err := entry.verify(filepath.Join(dir, "blobs", name), files); err != nil && !slices.Contains(added, name) {
			return fmt.Errorf("blob %s is not the one of config/blobs.yml: run `bosh sync-blobs`: %w", name, err)
		} else if err != nil {
			delete(listed, name)
		}
	}
	digests := boshcrypto.NewDigestCalculator(files, []boshalgorithms.Algorithm{boshalgorithms.DigestAlgorithmSHA256})
	blobs := filepath.Join(dir, "blobs")
	err = filepath.WalkDir(blobs, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(blobs, path)
		if err != nil {
			return err
		}
		if _, ok := listed[name]; ok {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		digest, err := digests.Calculate(path)
		if err != nil {
			return err
		}
		listed[name] = blob{Size: info.Size(), Digest: digest}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the blobs: %w", err)
	}
	encoded, err := yaml.Marshal(listed)
	if err != nil {
		return fmt.Errorf("writing config/blobs.yml: %w", err)
	}
	return os.WriteFile(index, encoded, 0o644) //nolint:gosec // it contains no secret
}

// verify returns an error unless the file at the path has the digest of the entry.
func (b blob) verify(path string, files boshsys.FileSystem) error {
	digest, err := boshalgorithms.ParseMultipleDigest(b.Digest)
	if err != nil {
		return err
	}
	return digest.VerifyFilePath(path, files)
}
