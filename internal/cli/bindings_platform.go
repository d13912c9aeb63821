package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/director"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
)

// settlingTime is the minimum age of an item at the time when the platform was asked. The absence of a younger item
// from the platform's answer is not conclusive, because a binding is stored before Cloud Foundry lists it, and a
// service instance before the Director has its deployment.
const settlingTime = time.Hour

// A platformFilter holds the flags that restrict a selection to the bindings or service instances that the platform
// does not have. The platform is Cloud Foundry or the Director: --existing reads a list of its items from a file, and
// --gone asks the Director. A platformFilter also contains the results of the comparison. The zero value does not
// restrict the selection and does not ask the platform.
type platformFilter struct {
	// existingFile is the file of --existing, which lists the ids or deployments that exist. "" means no comparison
	// with a file.
	existingFile string
	// askedAtFlag is the time of --asked-at as the user wrote it, at which the list in existingFile was made; check
	// parses it into askedAt. If askedAtFlag is "", the time is that of the file's last modification.
	askedAtFlag string
	askedAt     time.Time
	// gone selects the service instances whose deployments do not exist at the Director that directorFile describes.
	// Without gone, directorFile does not restrict the selection; see removal.runningInstances.
	gone         bool
	directorFile string
	// wait is the time after which --gone asks the Director again, because the broker may be about to deploy an
	// instance that it has just created. 0 means that it is asked once.
	wait time.Duration
	// allowAll permits that the platform has none of the stored items.
	allowAll bool
	// removes is set for a command that removes the items that the platform does not have. Such a command leaves out
	// items that the platform may not report yet, and reports each of them with the reason.
	removes bool
	// notStored is set by selection.reportNotStored for --existing: the names in the file that match no stored item,
	// sorted.
	notStored []string
	// createdBefore is set by selection.missing for a command that removes items. It excludes items that were created
	// at this time or later, because the platform's answer may be older. It is in the format of records; "" means no
	// limit.
	createdBefore string
}

// addFlags adds two flags to a command: --existing FILE, which selects the items whose id and deployment are both
// missing from the list in the file, and --allow-all, which permits that the list contains none of the stored items.
// The values are stored in p. The other flags of the filter, such as --gone, are added by the commands that have them.
func (p *platformFilter) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&p.existingFile, "existing", "",
		"only those whose id and deployment are both missing from this file, which has one id or deployment per line")
	command.Flags().BoolVar(&p.allowAll, "allow-all", false,
		"proceed even if none of the stored ones exists on the platform")
}

// isSet reports whether --gone or --existing is set, so that the command selects only items that the platform does not
// have.
func (p *platformFilter) isSet() bool { return p.gone || p.existingFile != "" }

// check validates the flags of the filter after cobra has parsed them, and parses --asked-at into askedAt if that flag
// is set. command supplies which flags were set. check returns an error if --existing or --director is set to "", if
// --asked-at is set without --existing, if --allow-all is set without --existing or --gone, if --gone is set without
// --director or with a negative --wait, or if --asked-at is not a time in RFC 3339 format or is in the future. The
// errors are plain errors, which setArgumentChecks turns into usageErrors. The files are not read.
func (p *platformFilter) check(command *cobra.Command) error {
	switch {
	case command.Flags().Changed("existing") && p.existingFile == "":
		// The name may be that of an unset shell variable. Without this check, the command would select all items.
		return errors.New("--existing must name a file")
	case command.Flags().Changed("asked-at") && p.existingFile == "":
		return errors.New("--asked-at requires --existing")
	case p.allowAll && !p.isSet() && command.Flags().Lookup("gone") != nil:
		return errors.New("--allow-all requires --existing or --gone")
	case p.allowAll && !p.isSet():
		return errors.New("--allow-all requires --existing")
	case command.Flags().Changed("director") && p.directorFile == "":
		return errors.New("--director must name a file")
	case p.gone && p.directorFile == "":
		return errors.New("--gone needs --director FILE")
	case p.gone && p.wait < 0:
		return errors.New("--wait must not be negative")
	case command.Flags().Changed("asked-at"):
		return p.parseAskedAt()
	}
	return nil
}

// parseAskedAt parses the text of --asked-at, such as "2026-11-05T10:00:00Z", into askedAt. It must be called only if
// that flag is set. It returns an error if the text, which may be "", is not a time in RFC 3339 format, or if the
// time is in the future. After an error askedAt must not be used.
func (p *platformFilter) parseAskedAt() (err error) {
	p.askedAt, err = time.Parse(time.RFC3339, p.askedAtFlag)
	switch {
	case err != nil:
		return fmt.Errorf("--asked-at %q must be a time such as 2026-11-05T10:00:00Z", p.askedAtFlag)
	case p.askedAt.After(time.Now()):
		return fmt.Errorf("--asked-at %s is in the future", p.askedAtFlag)
	}
	return nil
}

// A platformReport is the answer of the platform, Cloud Foundry or the Director, to the question which bindings or
// service instances exist: their ids or the names of their deployments, running tasks, and the time of the answer.
// The zero value reports that no item exists.
//
// Every report of an inventory also contains doubt, whether it is plausible or not: the text of the error that the
// caller must return, unless --allow-all is set, if it finds that the report contains none of the stored items. The
// field does not state that this is so.
type platformReport struct {
	// names are the ids of the bindings or service instances that exist, or the names of their deployments.
	names map[string]bool
	// tasks describes the Director's running task for a deployment, by the name of the deployment. It is nil for a list
	// in a file.
	tasks map[string]string
	// askedAt is the time at which the platform was asked. It is the zero time if the command removes nothing.
	askedAt time.Time
	// doubt is the error text for the case that names contains none of the stored items. Every inventory sets it, and
	// it does not mean that this is the case; selection.missing compares the names and decides.
	doubt string
}

// An inventory asks the platform which items exist, by reading the file of --existing or by requests to the Director.
// The report is not nil unless there is an error. An inventory returns an error if the file cannot be read, is empty
// or is cut off, if the Director does not answer or its answer is malformed, or if ctx ends.
//
// An inventory does not compare the report with the stored items: a Director without deployments is not an error.
// Unless --allow-all is set, the caller must check whether the report contains any stored item, because a report
// without one is probably wrong. Every report contains the error text for this case in its field doubt. stored is the
// number of items in the state backend, and is used only in that text.
type inventory func(ctx context.Context, stored int) (*platformReport, error)

// inventory returns the inventory that the flags choose: one that reads the list of --existing, or one that asks the
// Director for --gone. It returns nil without an error if neither flag is set. The Director is not asked and the list
// is not read yet. If the command removes items, so that p.removes is set, and --asked-at is not set, inventory
// returns an error if the file of --existing cannot be inspected, is not a regular file or was modified in the
// future; see listTime. For --gone, it returns an error if the file that describes the Director cannot be read or is
// invalid; see directorInventory.
func (p *platformFilter) inventory() (inventory, error) {
	switch {
	case p.existingFile != "":
		return p.fileInventory()
	case p.gone:
		return directorInventory(p.directorFile)
	default:
		return nil, nil //nolint:nilnil // nil means that the flags do not compare with the platform
	}
}

// fileInventory returns an inventory that reads the file of --existing, which contains one id or deployment per line;
// spaces around a name and empty lines are ignored. fileInventory itself only determines the time of the list. It
// returns an error if the command removes items, --asked-at is not set, and the file does not exist, is not a regular
// file or was modified in the future; see listTime. The inventory returns an error if the file cannot be read,
// contains no name, or has no line break at its end, because the command that wrote the file has probably failed, or
// if ctx ends.
func (p *platformFilter) fileInventory() (inventory, error) {
	askedAt, err := p.listTime()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, stored int) (*platformReport, error) {
		text, err := ctxio.ReadFile(ctx, p.existingFile)
		if err != nil {
			return nil, fmt.Errorf("reading the list of --existing: %w", err)
		}
		reported := &platformReport{names: map[string]bool{}, askedAt: askedAt}
		for line := range strings.Lines(string(text)) {
			if name := strings.TrimSpace(line); name != "" {
				reported.names[name] = true
			}
		}
		switch {
		case len(reported.names) == 0:
			return nil, fmt.Errorf("%s contains no names: check that the command that wrote it succeeded",
				p.existingFile)
		case !strings.HasSuffix(string(text), "\n"):
			return nil, fmt.Errorf("the last line of %s has no line break at its end: check that the file is complete",
				p.existingFile)
		}
		reported.doubt = fmt.Sprintf("%s names none of the %d stored items: check that it is the right list and that "+
			"its author may see all of them; to continue, name the ids or add --allow-all", p.existingFile, stored)
		return reported, nil
	}, nil
}

// listTime returns the time at which the list in the file of --existing was made: the time of --asked-at, or else that
// of the file's last modification. For a command that removes nothing it does not inspect the file, and returns the
// time of --asked-at, or the zero time without that flag. It returns a usageError, which asks for --asked-at, if the
// file is not a regular file or was modified in the future, so that its modification says nothing about the list. It
// returns another error if the file cannot be inspected, for example because it does not exist.
func (p *platformFilter) listTime() (askedAt time.Time, err error) {
	if !p.removes || p.askedAtFlag != "" {
		return p.askedAt, nil
	}
	info, err := os.Stat(p.existingFile)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("reading the list of --existing: %w", err)
	case !info.Mode().IsRegular():
		return time.Time{}, usageError{fmt.Errorf(
			"%s is not a regular file, so the time at which the list was made is unknown; add --asked-at TIME",
			p.existingFile)}
	case info.ModTime().After(time.Now()):
		return time.Time{}, usageError{fmt.Errorf("%s was modified in the future, at %s; add --asked-at TIME",
			p.existingFile, lifecycle.FormatTime(info.ModTime()))}
	}
	return info.ModTime(), nil
}

// directorInventory returns an inventory that asks the Director for its running tasks and then for its deployments, and
// reports the names of the deployments and the tasks. Deployments that the client may not see are absent from the
// report. file is the path of a YAML file with the address and the credentials of the Director.
//
// directorInventory sends no request. It returns nil and an error if the file cannot be read, is accessible to users
// other than its owner and group, or contains unknown keys or invalid values, if the address or the credentials are
// missing or malformed, or if a CA certificate is set and contains no certificate. The inventory returns nil and an
// error if one of the two requests fails, or if ctx ends.
func directorInventory(file string) (inventory, error) {
	config, err := ReadDirectorConfig(file)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func(ctx context.Context, stored int) (*platformReport, error) {
		reported := &platformReport{names: map[string]bool{}, tasks: map[string]string{}, askedAt: time.Now()}
		// The tasks are read first. If the creation of a deployment ends between the two requests, the list of
		// deployments contains it.
		tasks, err := client.RunningTasks(ctx)
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			reported.tasks[task.Deployment] = fmt.Sprintf("task %d of its deployment is %s at the Director",
				task.ID, task.State)
		}
		deployments, err := client.Deployments(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range deployments {
			reported.names[name] = true
		}
		reported.doubt = fmt.Sprintf("the Director %s has %d deployments, none of which belongs to one of the %d "+
			"instances: check that it is the right Director and that the client may see all deployments; to "+
			"continue, name the instances or add --allow-all",
			client.Address(), len(deployments), stored)
		return reported, nil
	}, nil
}

// missing asks the platform with askPlatform, and returns those candidates that the platform does not have, that pass
// the filters, and that removable does not leave out: removable leaves out items whose deployment is unknown or has a
// running task and, only if the command removes items, also those that are too recent or of unknown age. A command
// that only lists items therefore also gets recent items. The order is that of candidates, and the result is empty if
// none remains. all contains all stored items; candidates are some of them, and are not changed. missing writes to
// standard error which names of the list of --existing are not stored (see reportNotStored) and, if the command
// removes items, the reasons for the items that are left alone.
//
// missing returns nil and the error of askPlatform. Unless --allow-all is set, it also returns nil and an error if
// the platform has none of the items in all, because the platform's answer is probably wrong; all must therefore not
// be empty. Otherwise it sets fields of s.platform: notStored with --existing, and createdBefore if the command
// removes items.
func (s *selection) missing(
	ctx context.Context, streams Streams, askPlatform inventory, all, candidates []lifecycle.Stored,
) ([]lifecycle.Stored, error) {
	reported, err := askPlatform(ctx, len(all))
	if err != nil {
		return nil, err
	}
	exists := func(stored lifecycle.Stored) bool {
		return reported.names[stored.ID] || reported.names[stored.Deployment]
	}
	if !s.platform.allowAll && !slices.ContainsFunc(all, exists) {
		return nil, errors.New(reported.doubt)
	}
	s.reportNotStored(streams, reported, all)
	if s.platform.removes {
		s.platform.createdBefore = lifecycle.FormatTime(reported.askedAt.Add(-settlingTime))
	}
	return s.removable(streams, reported, slices.DeleteFunc(slices.Clone(candidates), exists)), nil
}

// maxNotStored is the number of names that reportNotStored writes to standard error.
const maxNotStored = 20

// reportNotStored compares the names in the list of --existing, which reported contains, with all stored items. It sets
// s.platform.notStored to the sorted names that are neither the id nor the deployment of an item in all, and writes
// their number and the first 20 of them to standard error. If there are none, notStored is empty and no text is
// written. After the restore of an older backup, these names are the items that exist and that the adapter has lost.
// Without --existing, reportNotStored does nothing, because the Director also has the deployments of other services.
func (s *selection) reportNotStored(streams Streams, reported *platformReport, all []lifecycle.Stored) {
	if s.platform.existingFile == "" {
		return
	}
	unknown := maps.Clone(reported.names)
	for i := range all {
		delete(unknown, all[i].ID)
		delete(unknown, all[i].Deployment)
	}
	s.platform.notStored = value.Keys(unknown)
	count := len(unknown)
	if count == 0 {
		return
	}
	more := ""
	if count > maxNotStored {
		more = fmt.Sprintf(" and %d more; the list with --json has all", count-maxNotStored)
	}
	verb := "are"
	if count == 1 {
		verb = "is"
	}
	say(streams, fmt.Sprintf("%s contains %s that %s not stored: %s%s", s.platform.existingFile, counted(count, "name"),
		verb, strings.Join(s.platform.notStored[:min(count, maxNotStored)], ", "), more))
}

// removable returns the candidates that the command may remove or, if it is a command that removes nothing, may list.
// They are in the same order. The caller has established that the platform does not list the candidates. removable
// overwrites the elements of candidates. It leaves out a candidate in these cases:
//
//   - A filter excludes it.
//   - The name of its deployment is unknown.
//   - Its deployment has a running task according to reported.
//   - The command removes items, and the candidate was created so recently that the platform may not list it yet, or
//     the time of its creation is unknown; see tooRecent. A command that removes nothing lists such items.
//
// If the command removes items, removable writes the reason to standard error for each candidate that it leaves out,
// except for those that a filter other than --condition excludes.
func (s *selection) removable(
	streams Streams, reported *platformReport, candidates []lifecycle.Stored,
) []lifecycle.Stored {
	return slices.DeleteFunc(candidates, func(stored lifecycle.Stored) bool {
		reason := s.platform.tooRecent(&stored.Entry)
		switch {
		case !s.filter.matchesInAnyCondition(&stored):
			return true
		case stored.Deployment == "":
			reason = "the name of its deployment is unknown"
		case !s.filter.matches(&stored):
			reason = fmt.Sprintf("it is %s; name its id, or the condition with --condition", stored.Condition)
		case reported.tasks[stored.Deployment] != "":
			reason = reported.tasks[stored.Deployment]
		case reason == "":
			return false
		case stored.CreatedAt == "":
			reason += "; name its id"
		}
		if s.platform.removes {
			say(streams, fmt.Sprintf("%s %s: left alone, %s", stored.Kind, stored.ID, reason))
		}
		return true
	})
}

// tooRecent returns the reason why the platform may not list an item yet: the item was created at the time
// createdBefore or later, or the time of its creation is unknown, because an older release created it or because its
// record cannot be read. It returns "" if the item is old enough. It also returns "" if createdBefore is "", because
// the command does not remove items that the platform does not have.
func (p *platformFilter) tooRecent(entry *lifecycle.Entry) string {
	switch {
	case p.createdBefore == "":
		return ""
	case entry.CreatedAt == "":
		return "the time of its creation is unknown"
	case entry.CreatedAt >= p.createdBefore:
		return fmt.Sprintf("it was created at %s, and the command removes only those that were created before %s",
			entry.CreatedAt, p.createdBefore)
	default:
		return ""
	}
}

// ReadDirectorConfig reads the address and the credentials of a Director from the YAML file at path. A missing key
// leaves its field empty, and so does an empty file; director.New rejects an incomplete configuration.
// ReadDirectorConfig returns an error if the file cannot be read, is accessible to users other than its owner and
// group, is not valid YAML, or contains several documents, unknown or repeated keys, or values of the wrong type.
// Errors do not contain the values. After an error, the configuration is nil or incomplete and must not be used.
func ReadDirectorConfig(path string) (*director.Config, error) {
	if err := checkSecretFile("the file of the Director", path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading the file of the Director: %w", err)
	}
	config := &director.Config{}
	return config, strictyaml.Decode(path, "", string(text), config)
}
