package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

// unlisted are the flags of commands for what the platform does not know.
type unlisted struct {
	// existing is a file with ids and names of deployments: those are meant that are not there. allowAll allows that these are all.
	existing string
	allowAll bool
}

func (u *unlisted) flags(command *cobra.Command) {
	command.Flags().StringVar(&u.existing, "existing", "", "only those of which this file names neither the id nor the deployment, one a line")
	command.Flags().BoolVar(&u.allowAll, "allow-all", false, "even if these are all there are")
}

// check refuses a file without a name, and --allow-all where nothing is compared with what exists.
func (u *unlisted) check(command *cobra.Command, compared bool) error {
	switch {
	case command.Flags().Changed("existing") && u.existing == "": // of a variable that is not set: else it would be all of them
		return errors.New("--existing must name a file")
	case !compared && u.allowAll:
		return errors.New("--allow-all goes with --existing")
	}
	return nil
}

// listed reads all of a kind and returns those that a filter leaves and, of those whose deployment is known, that the file does not name.
func (u *unlisted) listed(ctx context.Context, streams Streams, operator *adapter.Operator, kind lifecycle.Kind, f *filter) ([]lifecycle.Stored, error) {
	if u.existing == "" {
		return listed(ctx, streams, operator, kind, f)
	}
	all, err := listed(ctx, streams, operator, kind, &filter{})
	if err == nil {
		err = f.checkService(all, operator.Services())
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	meant, err := u.unknown(ctx, listedIn(u.existing), all, all)
	return slices.DeleteFunc(meant, func(stored lifecycle.Stored) bool { return stored.Deployment == "" || !f.means(&stored) }), err
}

// inventory lists what exists by ids or deployments. The doubt is what to say if it names none of so many that are stored.
type inventory func(ctx context.Context, stored int) (names []string, doubt string, err error)

// listedIn is the inventory of a file, with a name in each line. A file without any, or without an end to its last line, is refused: it is
// more likely that making it failed than that nothing exists.
func listedIn(path string) inventory {
	return func(_ context.Context, stored int) (names []string, doubt string, err error) {
		text, err := os.ReadFile(path) //nolint:gosec // the user names the file
		if err != nil {
			return nil, "", fmt.Errorf("reading what exists: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if name := strings.TrimSpace(line); name != "" {
				names = append(names, name)
			}
		}
		switch {
		case len(names) == 0:
			err = fmt.Errorf("%s names nothing: is it the output of a command that failed?", path)
		case !strings.HasSuffix(string(text), "\n"):
			err = fmt.Errorf("%s does not end with the end of a line: is it cut off?", path)
		}
		return names, fmt.Sprintf("%s names none of the %d that are stored: unless it is a list of something else, or of somebody who may not see "+
			"them, name the ids or add --allow-all", path, stored), err
	}
}

// unknown returns those of the candidates that an inventory does not have. That it has none of all is an error, unless that is allowed.
func (u *unlisted) unknown(ctx context.Context, known inventory, all, candidates []lifecycle.Stored) ([]lifecycle.Stored, error) {
	names, doubt, err := known(ctx, len(all))
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	exists := func(stored lifecycle.Stored) bool { return named[stored.ID] || named[stored.Deployment] }
	if !u.allowAll && !slices.ContainsFunc(all, exists) {
		return nil, errors.New(doubt)
	}
	return slices.DeleteFunc(slices.Clone(candidates), exists), nil
}
