package pakbuild

import "fmt"

// finding is what the author must mend: it is reported with its place, and the build goes on to find others. Other errors, such
// as a server that is down, end the build.
type finding struct {
	rule string // such as "checksum"
	err  error
}

func (f *finding) Error() string { return f.err.Error() }
func (f *finding) Unwrap() error { return f.err }

func findingf(rule, format string, args ...any) error {
	return &finding{rule: rule, err: fmt.Errorf(format, args...)}
}
