package lint

import (
	"io/fs"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
)

// defects warns about each bundled OpenTofu whose version has a known defect, at the position of the version.
func (l *linter) defects() {
	for _, binary := range l.pak.Manifest.Binaries {
		for _, defect := range opentofu.Defects() {
			if binary.Kind() == brokerpak.Tofu && defect.Has(binary.Version) {
				l.diags.Warnf(l.manifestPositions().value(binary.Pos, "version"), "opentofu-defect",
					"OpenTofu %s has a defect: %s (%s); use %s",
					binary.Version, defect.Summary, defect.Issue, defect.Fixed)
			}
		}
	}
}

// manifestPositions returns the positions of the values in manifest.yml. The index is empty if the file cannot be read
// or is not a YAML mapping, which is reported elsewhere; positions in it are then those of the entries.
func (l *linter) manifestPositions() *positionIndex {
	const name = "manifest.yml"
	text, _ := fs.ReadFile(l.pak.Files(), name)
	if positions, ok := indexPositions(l.pak.Display(name), string(text)); ok {
		return positions
	}
	return &positionIndex{}
}
