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

// pins adds an error to l.diags for each defect of the pak's lock file, or one error if the file cannot be read. In a
// pak directory without binaries, it also adds a warning for each entry of terraform_binaries whose content is not
// pinned for all platforms. If the pak has a lock, each entry must be in it. Without a lock, only an entry whose
// url_template is missing, or an HTTP URL without the parameter checksum, is reported, because files of the pak's own
// source are not downloaded. A pak file, a directory that already has binaries, and a pak whose lock is invalid or
// cannot be read get no such warnings.
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
