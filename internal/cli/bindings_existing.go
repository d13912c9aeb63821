package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"service-adapter/internal/director"
	"service-adapter/internal/lifecycle"
)

// inventory lists what exists by ids or deployments. The doubt is what to say if it names none of so many that are stored.
type inventory func(ctx context.Context, stored int) (names []string, doubt string, err error)

// inventory is what the flags say to compare with; nil for nothing.
func (s *selection) inventory() (inventory, error) {
	switch {
	case s.existing != "":
		return listedIn(s.existing), nil
	case s.gone:
		return deployedBy(s.director)
	default:
		return nil, nil //nolint:nilnil // nothing is compared
	}
}

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

// deployedBy is the inventory of the Director that a file says how to reach.
func deployedBy(file string) (inventory, error) {
	config, err := ReadDirector(file)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func(ctx context.Context, stored int) ([]string, string, error) {
		deployments, err := client.Deployments(ctx)
		return deployments, fmt.Sprintf("the Director %s has %d deployments and none of them is that of one of the %d instances: unless it is the wrong "+
			"Director, or a client that may not see them, name the instances or add --allow-all", client.Address(), len(deployments), stored), err
	}, nil
}

// unknown returns those of the candidates that an inventory does not have. That it has none of all is an error, unless that is allowed.
func (s *selection) unknown(ctx context.Context, known inventory, all, candidates []lifecycle.Stored) ([]lifecycle.Stored, error) {
	names, doubt, err := known(ctx, len(all))
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	exists := func(stored lifecycle.Stored) bool { return named[stored.ID] || named[stored.Deployment] }
	if !s.allowAll && !slices.ContainsFunc(all, exists) {
		return nil, errors.New(doubt)
	}
	return slices.DeleteFunc(slices.Clone(candidates), exists), nil
}
