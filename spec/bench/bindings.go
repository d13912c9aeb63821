package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"service-adapter/spec/bench/figures"
	"service-adapter/spec/kit/servers"
)

// The state backends.
const (
	local = "local"
	pg    = "pg"
	s3    = "s3"
)

// The names of the baselines of bindings. OpenTofu runs in an initialised directory with the same template, backend and
// provider.
const (
	tofuBind            = "tofu apply, output"
	tofuBindEncrypted   = "tofu apply, output, encrypted"
	tofuUnbind          = "tofu state pull, destroy, workspace delete"
	tofuUnbindEncrypted = "tofu state pull, destroy, workspace delete, encrypted"
	tofuDestroy         = "tofu destroy alone"
	tofuDestroyEnc      = "tofu destroy alone, encrypted"
)

// bindings returns a measure that compares create-binding and delete-binding with OpenTofu alone. The goal applies to
// the figures in which both do the same work.
func bindings(name, template, backend string, goal figures.Goal) measure {
	return func(ctx context.Context, b *bench) ([]figures.Figure, error) {
		server, err := b.server(ctx, backend)
		if errors.Is(err, servers.ErrMissing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		plain, err := b.bindSite(ctx, template, backend, false)
		if err != nil {
			return nil, err
		}
		secret, err := b.bindSite(ctx, template, backend, true)
		if err != nil {
			return nil, err
		}
		bare := bareTofu{bench: b, dir: filepath.Join(plain.dir, "bare")}
		if backend == pg {
			bare.dsn = server.DSN("bare")
		}
		if err := bare.write(template, backend, "bare_"+plain.schema); err != nil {
			return nil, err
		}
		if _, err := bare.initialise(ctx); err != nil {
			return nil, err
		}
		got, err := compare(ctx, b.runs(20, 2), plain.binds, bare.bind(false), secret.binds, bare.bind(true),
			plain.unbinds, bare.unbind(false), secret.unbinds, bare.unbind(true))
		if err != nil {
			return nil, err
		}
		create, remove := "create-binding, "+name+", "+backend, "delete-binding, "+name+", "+backend
		const encrypted = ", encrypted"
		return []figures.Figure{
			against(create, got[0], tofuBind, got[1], &goal),
			against(remove, got[4], tofuUnbind, got[5], &goal),
			against(remove, got[4], tofuDestroy, got[5].part(destroyPart), nil),
			against(create+encrypted, got[2], tofuBindEncrypted, got[3], &goal),
			against(create+encrypted, got[2], tofuBind, got[1], nil),
			against(remove+encrypted, got[6], tofuUnbindEncrypted, got[7], &goal),
			against(remove+encrypted, got[6], tofuUnbind, got[5], nil),
			against(remove+encrypted, got[6], tofuDestroyEnc, got[7].part(destroyPart), nil),
		}, nil
	}
}

// heavySize is the number of bytes that are appended to a provider, to make it as large as public providers.
const heavySize = 300 << 20

// largeProvider compares create-binding with OpenTofu alone for a provider of 300 MB that works for a second when it
// starts. The figures include the memory of all processes.
func largeProvider(ctx context.Context, b *bench) ([]figures.Figure, error) {
	small, err := os.ReadFile(b.provider())
	if err != nil {
		return nil, err
	}
	large := filepath.Join(b.dir, "large-provider")
	//nolint:gosec // the file is an executable
	if err := errors.Join(os.WriteFile(large, small, 0o755), os.Truncate(large, heavySize)); err != nil {
		return nil, err
	}
	b.heavy = large
	defer func() { b.heavy = "" }()
	s, err := b.bindSite(ctx, external, local, false)
	if err != nil {
		return nil, err
	}
	s.tree = true
	bare := bareTofu{bench: b, dir: filepath.Join(s.dir, "bare"), tree: true}
	if err := bare.write(external, local, ""); err != nil {
		return nil, err
	}
	if _, err := bare.initialise(ctx); err != nil {
		return nil, err
	}
	got, err := compare(ctx, b.runs(5, 1), s.binds, bare.bind(false), s.unbinds, bare.unbind(false))
	if err != nil {
		return nil, err
	}
	goal := figures.Goal{Ratio: 0.5}
	return []figures.Figure{
		against("create-binding, provider of 300 MB", got[0], tofuBind, got[1], &goal),
		against("delete-binding, provider of 300 MB", got[2], tofuUnbind, got[3], &goal),
	}, nil
}

// databases starts PostgreSQL with a database for adapters and a database for OpenTofu alone.
func databases(ctx context.Context, dir string) (*servers.Server, error) {
	server, err := servers.PostgreSQL(ctx, dir)
	if err != nil {
		return nil, err
	}
	return server, errors.Join(server.CreateDatabase(ctx, "adapter"), server.CreateDatabase(ctx, "bare"))
}

// server returns the server of a backend, which the first call starts. It returns nil for the local backend. If the
// error is servers.ErrMissing, it has printed that the backend is left out.
func (b *bench) server(ctx context.Context, backend string) (*servers.Server, error) {
	if backend == local {
		return nil, nil
	}
	server, err := b.servers[backend].Open(ctx)
	if errors.Is(err, servers.ErrMissing) {
		fmt.Fprintf(os.Stderr, "leaving out %s: %s\n", backend, err)
	}
	return server, err
}

// cold compares the first bind on a machine with the directories that `service-adapter prepare` writes, without them,
// and with OpenTofu alone in a directory that is not initialised.
func cold(ctx context.Context, b *bench) ([]figures.Figure, error) {
	s, err := b.bindSite(ctx, external, local, false)
	if err != nil {
		return nil, err
	}
	prepared := filepath.Join(s.dir, "prepared")
	prepare := program{
		bench: b, path: b.adapter(), args: []string{"prepare", "--dir", prepared}, env: s.env(),
		dir: s.dir,
	}
	if _, err := prepare.run(ctx); err != nil {
		return nil, err
	}
	with := func(prepared string) side {
		return func(ctx context.Context, n int) (sample, error) {
			s.config["prepared_dir"] = prepared
			if err := errors.Join(s.save(), os.RemoveAll(filepath.Join(s.dir, "cache"))); err != nil {
				return sample{}, err
			}
			took, err := s.binds(ctx, n)
			if err == nil {
				_, err = s.unbinds(ctx, n)
			}
			return took, err
		}
	}
	bare := func(ctx context.Context, n int) (sample, error) {
		t := bareTofu{bench: b, dir: filepath.Join(s.dir, fmt.Sprint("bare", n))}
		if err := t.write(external, local, ""); err != nil {
			return sample{}, err
		}
		first, err := t.initialise(ctx)
		if err != nil {
			return sample{}, err
		}
		rest, err := t.bind(false)(ctx, n)
		rest.took += first.took
		rest.own, rest.largest = max(rest.own, first.own), max(rest.largest, first.largest)
		return rest, err
	}
	got, err := compare(ctx, b.runs(10, 2), with(prepared), with(""), bare)
	if err != nil {
		return nil, err
	}
	return []figures.Figure{
		against("first create-binding, prepared before", got[0], "not prepared", got[1], nil),
		against("first create-binding, prepared before", got[0], "tofu init, apply, output", got[2], nil),
		against("first create-binding, not prepared", got[1], "tofu init, apply, output", got[2], nil),
	}, nil
}

// throughput measures the number of bindings that several adapters create in a minute. The numbers of adapters take
// turns.
func throughput(ctx context.Context, b *bench) ([]figures.Figure, error) {
	s, err := b.bindSite(ctx, external, local, false)
	if err != nil {
		return nil, err
	}
	if _, err := s.binds(ctx, 0); err != nil {
		return nil, err
	}
	numbers := []int{1, 2, 4, 8}
	rates := make([][]float64, len(numbers))
	next := 1
	for range b.runs(5, 1) {
		for i, workers := range numbers {
			count := max(b.runs(8, 4), b.runs(2, 1)*workers)
			begin := time.Now()
			if err := s.parallel(ctx, workers, next, count); err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], float64(count)/time.Since(begin).Minutes())
			next += count
		}
	}
	var found []figures.Figure
	for i, workers := range numbers {
		found = append(found, figures.Figure{
			Name: fmt.Sprintf("create-binding, %d at once", workers), Unit: "per minute",
			Measure: figures.Of(rates[i]...),
		})
	}
	return found, nil
}

// parallel creates count bindings, numbered from first, with several adapters at the same time. It returns the errors
// of all adapters, each of which stops at its first error.
func (s *site) parallel(ctx context.Context, workers, first, count int) error {
	var group sync.WaitGroup
	var done atomic.Int64
	failures := make([]error, workers)
	for worker := range workers {
		group.Go(func() {
			for n := int(done.Add(1)) - 1; n < count && failures[worker] == nil; n = int(done.Add(1)) - 1 {
				_, failures[worker] = s.binds(ctx, first+n)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}
