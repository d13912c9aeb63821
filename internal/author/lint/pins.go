package lint

import (
	"errors"
	"regexp"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// remoteURL matches a url_template that is downloaded, and checksum one that pins the download.
var (
	remoteURL = regexp.MustCompile(`^https?://`)
	checksum  = regexp.MustCompile(`[?&]checksum=[^&]`)
)

// pins reports the defects of the lock, and warns about entries of terraform_binaries that neither the lock nor a
// checksum in the url_template pins. Without a lock, files of the pak's own source need no pin, because they are not
// downloaded. With a lock, each entry must be in it, because `pak build` requires that. A built pak is not checked,
// because nothing is fetched for it.
func (l *linter) pins() {
	lock, err := l.pak.Lock()
	var defects diag.Errors
	if errors.As(err, &defects) {
		for _, defect := range defects {
			l.diags.Add(defect)
		}
	} else if err != nil {
		l.diags.Errorf(diag.Pos{File: l.pak.Display(brokerpak.LockName), Line: 1}, "lock", "%s", err)
	}
	if err != nil || l.pak.IsZip() || l.hasBinaries() {
		return
	}
	for _, binary := range l.pak.Manifest.Binaries {
		if lock == nil && (binary.URLTemplate != "" && !remoteURL.MatchString(binary.URLTemplate) ||
			checksum.MatchString(binary.URLTemplate)) {
			continue
		}
		var unpinned []string
		for _, platform := range value.Convert(l.pak.Manifest.Platforms, brokerpak.Platform.String) {
			if _, pinned := lock.Fetch(binary, platform, ""); !pinned {
				unpinned = append(unpinned, platform)
			}
		}
		if len(unpinned) > 0 {
			l.diags.Warnf(binary.Pos, "unpinned", "nothing pins the content of %s %s for %s; "+
				"run service-adapter pak lock, which writes %s",
				binary.Name, binary.Version, strings.Join(unpinned, ", "), brokerpak.LockName)
		}
	}
}
