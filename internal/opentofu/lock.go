package opentofu

import (
	"regexp"
	"strings"
	"time"

	"service-adapter/internal/statestore"
)

// The places of locks in OpenTofu's texts. These expressions are compiled when a run failed: that takes a millisecond.
const (
	lockInfo = `Lock Info: ID: (\S*) ?Path: (?:.*?) ?Operation: (.*?) ?Who: (.*?) ?Version: \S* ?Created: (\S+ \S+ \S+ \S+) Info:`
	// lockRace is when the lock was taken or released between OpenTofu's try and its look who holds it.
	lockRace = `(?i)lock.*(PreconditionFailed|ConditionalRequestConflict|StatusCode: 409|resource temporarily unavailable)`
	// notReleased is when a lock stays although the run is over.
	notReleased = `(?i)releasing the state lock|error unlocking|unlocking the state file`
	// setupRace is when two machines make the tables of pg at the same moment.
	setupRace = `duplicate key value violates unique constraint "?pg_|tuple concurrently updated|` +
		`(type|relation) "(states|states_by_name|global_states_id_seq)" already exists`
	// backendFault is how OpenTofu reports what a backend cannot do. Resources and providers have an address or a file.
	backendFault = `(?i)dial tcp|connection refused|connection reset|broken pipe|bad connection|no such host|i/o timeout|` +
		`^EOF|unexpected EOF|request send failed|pq: |error (loading|refreshing|saving) (the )?(state|workspaces)|` +
		`error (acquiring|releasing) the state lock|listing workspaces failed|` +
		`failed to (load (the )?state|get existing workspaces|save (the )?state|persist|refresh (the )?state|lock|fetch the state|upload state)`
)

// LockReport is what the output of a failed run tells about locks.
type LockReport struct {
	Held        *statestore.HeldError // another run else's lock is why it failed
	NotReleased bool                  // a lock stays although the run is over
	SetupRace   bool                  // two machines made the tables of pg at once
}

// readLock reads the first error of a run, and looks for others in its output.
func readLock(said string, stdout, stderr []byte) LockReport {
	said = strings.Join(strings.Fields(said), " ")
	report := LockReport{
		NotReleased: regexp.MustCompile(notReleased).Match(stdout) || regexp.MustCompile(notReleased).Match(stderr),
		SetupRace:   regexp.MustCompile(setupRace).MatchString(said),
	}
	if report.NotReleased {
		return report
	}
	if info := regexp.MustCompile(lockInfo).FindStringSubmatch(said); info != nil {
		created, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", info[4])
		if err == nil {
			report.Held = &statestore.HeldError{ID: info[1], Operation: info[2], Who: info[3], Created: created}
		}
	} else if regexp.MustCompile(lockRace).MatchString(said) {
		report.Held = &statestore.HeldError{}
	}
	return report
}

// ofBackend tells whether the state backend is what failed.
func (e *Error) ofBackend() bool {
	return e.Address == "" && e.File == "" && regexp.MustCompile(backendFault).MatchString(e.Summary+" "+e.Detail)
}
