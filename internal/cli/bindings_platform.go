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

// platformFilter holds the flags that restrict a selection to the bindings or service instances that the platform,
// Cloud Foundry or the Director, does not have. The zero value does not ask the platform.
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

// addFlags adds --existing and --allow-all, which compare the items with a list in a file, to a command. The other
// flags of the filter are added by the commands that have them.
func (p *platformFilter) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&p.existingFile, "existing", "",
		"only those whose id and deployment are both missing from this file, which has one id or deployment per line")
	command.Flags().BoolVar(&p.allowAll, "allow-all", false,
		"proceed even if none of the stored ones exists on the platform")
}

// isSet reports whether the flags select the items that the platform does not have.
func (p *platformFilter) isSet() bool { return p.gone || p.existingFile != "" }

// check parses the time of --asked-at into askedAt if that flag is set. It returns an error, which is not yet a usage
// error, if flags of the filter contradict each other, if a flag lacks one that it requires, if a flag that names a
// file is set to "", if --wait is negative, or if --asked-at is not a time or is in the future.
func (p *platformFilter) check(command *cobra.Command) error {
	switch {
	case command.Flags().Changed("existing") && p.existingFile == "":
		// The name may be that of an unset shell variable. Without this check, the command would select all items.
		return errors.New("--existing must name a file")
	case command.Flags().Changed("asked-at") && p.existingFile == "":
		return errors.New("--asked-at requires --existing")
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

// parseAskedAt parses the value of --asked-at into askedAt. It returns an error if the value is not a time in RFC 3339
// format, or if the time is in the future.
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

// A platformReport is the answer of the platform, Cloud Foundry or the Director, about the bindings or service
// instances that exist.
type platformReport struct {
	// names are the ids of the bindings or service instances that exist, or the names of their deployments.
	names map[string]bool
	// tasks describes the Director's running task for a deployment, by the name of the deployment. It is nil for a list
	// in a file.
	tasks map[string]string
	// askedAt is the time at which the platform was asked. It is the zero time if the command removes nothing.
	askedAt time.Time
	// doubt is the error text for a report that contains none of the stored items.
	doubt string
}

// An inventory asks the platform which items exist. stored is the number of items in the state backend, for the error
// text platformReport.doubt. It returns an error if the platform cannot be asked, if its answer is malformed or cut
// off, or if ctx ends.
type inventory func(ctx context.Context, stored int) (*platformReport, error)

// inventory returns the inventory that the flags choose, or nil if they do not compare with the platform. It reads the
// time of the list in a file, or the file that describes the Director, and returns an error if that file cannot be
// used; see listTime and directorInventory. The Director is not asked yet.
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

// fileInventory returns an inventory that reads the file of --existing, which contains one name per line; spaces around
// a name and empty lines are ignored. It returns the errors of listTime. The inventory returns an error if the file
// cannot be read, contains no name, or has no line break at its end, because the command that wrote the file has
// probably failed.
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
			return nil, fmt.Errorf("%s names nothing: is it the output of a command that failed?", p.existingFile)
		case !strings.HasSuffix(string(text), "\n"):
			return nil, fmt.Errorf("%s does not end with the end of a line: is it cut off?", p.existingFile)
		}
		reported.doubt = fmt.Sprintf("%s names none of the %d that are stored: unless it is a list of something else, "+
			"or of somebody who may not see them, name the ids or add --allow-all", p.existingFile, stored)
		return reported, nil
	}, nil
}

// listTime returns the time at which the list in the file was made: the time of --asked-at, or else that of the file's
// last modification. It returns the zero time for a command that removes nothing, which does not need the time. It
// returns a usage error, which asks for --asked-at, if the file is not a regular file or was modified in the future, so
// that its modification says nothing about the list. It returns another error if the file does not exist.
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

// directorInventory returns an inventory that asks the Director for its deployments and running tasks. file describes
// how to reach the Director. directorInventory returns the errors of ReadDirectorConfig, and an error if the address or
// the credentials in the file are missing or malformed. The inventory returns an error if the Director does not answer
// one of the two requests.
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
		reported.doubt = fmt.Sprintf("the Director %s has %d deployments and none of them is that of one of the %d "+
			"instances: unless it is the wrong Director, or a client that may not see them, "+
			"name the instances or add --allow-all",
			client.Address(), len(deployments), stored)
		return reported, nil
	}, nil
}

// missing asks the platform and returns those candidates that the platform does not have, that pass the filters, and
// that removable does not leave out, in the same order. all are the stored items; candidates are some of them, and are
// not changed. If the platform has none of the stored items, missing returns an error, unless --allow-all is set: the
// list is probably wrong. It also returns the error of asking the platform. If the command removes items, missing sets
// platform.createdBefore; with --existing it sets platform.notStored. It writes the names that are not stored, and the
// reasons for the items that are left alone, to standard error.
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

// reportNotStored sets platform.notStored to the names of a report that are neither the id nor the deployment of a
// stored item, and writes the first maxNotStored of them to standard error, with their number. It writes nothing if
// there are none. After the restore of an older backup, these are the items that exist and that the adapter has lost.
// It does nothing for the Director, which also has the deployments of other services. all are the stored items.
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

// removable returns those candidates that pass the filters and that the platform is not about to report, in the same
// order. The caller has found that the platform does not have the candidates. removable leaves out a candidate whose
// deployment is unknown or has a running task according to reported, or which tooRecent rejects. If the command removes
// items, removable writes the reason to standard error for each candidate that it leaves out, except for those that a
// filter other than --condition excludes. It overwrites candidates.
func (s *selection) removable(
	streams Streams, reported *platformReport, candidates []lifecycle.Stored,
) []lifecycle.Stored {
	return slices.DeleteFunc(candidates, func(stored lifecycle.Stored) bool {
		reason := s.platform.tooRecent(&stored.Entry)
		switch {
		case !s.filter.matchesInAnyCondition(&stored):
			return true
		case stored.Deployment == "":
			reason = "its deployment is not known"
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

// tooRecent returns the reason why the platform may not report an item yet, or "" if the item is old enough or if
// createdBefore is not set. An item without a time of creation may be recent, because an older release created it or
// because its record cannot be read.
func (p *platformFilter) tooRecent(entry *lifecycle.Entry) string {
	switch {
	case p.createdBefore == "":
		return ""
	case entry.CreatedAt == "":
		return "the time of its creation is not known"
	case entry.CreatedAt >= p.createdBefore:
		return fmt.Sprintf("it was created at %s, and only what was created before %s is meant",
			entry.CreatedAt, p.createdBefore)
	default:
		return ""
	}
}

// ReadDirectorConfig reads the address and the credentials of a Director from a YAML file. A missing key leaves its
// field "". ReadDirectorConfig returns an error if the file cannot be read, is accessible to all users, or contains
// unknown keys or invalid values. Errors do not contain the values.
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
