package lint

import (
	"io/fs"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
)

// defects adds a warning to l.diags for each known defect, as opentofu.Defects lists them, of each OpenTofu version
// that the pak bundles. The position is that of the value of the key version in terraform_binaries of manifest.yml.
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

// manifestPositions parses the pak's manifest.yml and returns the positions of its keys and values. The index is empty,
// but never nil, if the file cannot be read or is not a YAML mapping, which other checks report. The methods value and
// key of an empty index return the position that is passed to them, such as that of an entry of terraform_binaries,
// unchanged.
func (l *linter) manifestPositions() *positionIndex {
	const name = "manifest.yml"
	text, _ := fs.ReadFile(l.pak.Files(), name)
	if positions, ok := indexPositions(l.pak.Display(name), string(text)); ok {
		return positions
	}
	return &positionIndex{}
}
