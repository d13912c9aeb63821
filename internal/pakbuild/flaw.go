package pakbuild

import "fmt"

// flaw is what the author must mend: it is reported with its place, and the build goes on to find others. Other errors, such
// as a server that is down, end the build.
type flaw struct {
	rule string // such as "checksum"
	err  error
}

func (f *flaw) Error() string { return f.err.Error() }
func (f *flaw) Unwrap() error { return f.err }

func flawf(rule, format string, args ...any) error {
	return &flaw{rule: rule, err: fmt.Errorf(format, args...)}
}
