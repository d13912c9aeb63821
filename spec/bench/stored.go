package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/spec/bench/figures"
	"service-adapter/spec/kit/servers"
)

// flat is the goal that existing bindings do not slow down other commands. A tenth is allowed for noise.
const flat = 1.1

// firstStored is the id of the binding that fill copies.
const firstStored = "first"

// stored returns a measure of the effect of existing bindings on other commands, and of the duration of lists.
func stored(backend string) measure {
	return func(ctx context.Context, b *bench) ([]figures.Figure, error) {
		_, err := b.server(ctx, backend)
		if errors.Is(err, servers.ErrMissing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var sites []*site
		var sides []side
		counts := []int{10, 1000, 10_000}
		if backend == pg && !b.quick {
			counts = append(counts, 100_000)
		}
		for _, count := range counts {
			s, err := b.storedSite(ctx, backend, count)
			if err != nil {
				return nil, err
			}
			sites, sides = append(sites, s), append(sides, s.binds, s.unbinds)
		}
		got, err := compare(ctx, b.runs(15, 2), sides...)
		if err != nil {
			return nil, err
		}
		var found []figures.Figure
		for i, s := range sites {
			name := fmt.Sprintf("-binding, %s, %d stored", backend, s.stored)
			if i == 0 {
				found = append(found, alone("create"+name, got[0]), alone("delete"+name, got[1]))
				continue
			}
			least, goal := fmt.Sprint(sites[0].stored, " stored"), &figures.Goal{Ratio: flat}
			found = append(found, against("create"+name, got[2*i], least, got[0], goal))
			if backend == s3 {
				goal = nil // to delete the object, OpenTofu lists all objects
			}
			found = append(found, against("delete"+name, got[2*i+1], least, got[1], goal))
		}
		if backend == s3 {
			sites = sites[:1] // each state takes a run of OpenTofu
		}
		lists, err := lists(ctx, sites)
		return append(found, lists...), err
	}
}

// storedSite returns a site with this number of bindings. It returns an error if the first binding cannot be created or
// copied.
func (b *bench) storedSite(ctx context.Context, backend string, count int) (*site, error) {
	s, err := b.bindSite(ctx, external, backend, false)
	if err != nil {
		return nil, err
	}
	call, err := s.bind(firstStored)
	if err != nil {
		return nil, err
	}
	if _, err := call.run(ctx); err != nil {
		return nil, err
	}
	s.stored = count
	return s, s.fill(ctx)
}

// lists measures `bindings list`.
func lists(ctx context.Context, sites []*site) ([]figures.Figure, error) {
	var found []figures.Figure
	for _, s := range sites {
		list := program{
			bench: s.bench, path: s.bench.adapter(), args: []string{"bindings", "list"}, env: s.env(),
			dir: s.dir, starts: true,
		}
		runs, err := compare(ctx, s.bench.runs(5, 1), func(ctx context.Context, _ int) (sample, error) {
			return list.run(ctx)
		})
		if err != nil {
			return nil, err
		}
		if listed := strings.Count(runs[0][0].stdout, "complete"); listed != s.stored {
			return nil, fmt.Errorf("bindings list found %d bindings, and %d are stored", listed, s.stored)
		}
		found = append(found, alone(fmt.Sprintf("bindings list, %s, %d stored", s.backend, s.stored), runs[0]))
	}
	return found, nil
}

// fill copies the first binding until the site has its number of bindings.
func (s *site) fill(ctx context.Context) error {
	const first, prefix = "b-" + firstStored, "b-copy-"
	if s.backend == pg {
		_, err := s.server.Query(ctx, "adapter", fmt.Sprintf(`INSERT INTO %[1]s.states (name, data)
			SELECT '%[2]s' || n, data FROM %[1]s.states, generate_series(2, %[3]d) AS n WHERE name = '%[4]s'`,
			s.schema, prefix, s.stored, first))
		return err
	}
	states, file := filepath.Join(s.dir, "state", "workspaces"), "terraform.tfstate"
	if s.backend == s3 {
		states, file = filepath.Join(s.server.Dir, "buckets", s.schema, "env:"), s3Key
	}
	text, err := os.ReadFile(filepath.Join(states, first, file))
	if err != nil {
		return err
	}
	for n := 2; n <= s.stored; n++ {
		dir := filepath.Join(states, fmt.Sprint(prefix, n))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, file), text, 0o600)); err != nil {
			return err
		}
	}
	return nil
}
