package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"service-adapter/spec/servers"
)

// kind is a way to make bindings.
type kind struct {
	name     string
	template string
	backend  string // local or pg
	encrypt  bool
}

// bindings compares create-binding and delete-binding with OpenTofu alone in an initialised directory with the same template.
func bindings(ctx context.Context, b *bench) (figures []Figure, err error) {
	kinds := []kind{
		{"built-in resource, local", builtIn, "local", false},
		{"one provider, local", external, "local", false},
		{"one provider, local, encrypted", external, "local", true},
	}
	dsn := ""
	server, err := b.postgresql(ctx)
	switch {
	case errors.Is(err, servers.ErrMissing):
		fmt.Fprintln(os.Stderr, "leaving out pg:", err)
	case err != nil:
		return nil, err
	default:
		defer func() { err = errors.Join(err, server.Kill(), os.RemoveAll(server.Dir)) }()
		if err := errors.Join(server.CreateDatabase(ctx, "adapter"), server.CreateDatabase(ctx, "bare")); err != nil {
			return nil, err
		}
		dsn = server.DSN("bare")
		kinds = append(kinds, kind{"built-in resource, pg", builtIn, "pg", false}, kind{"one provider, pg", external, "pg", false},
			kind{"one provider, pg, encrypted", external, "pg", true})
	}
	for n, k := range kinds {
		s, err := b.bindSite(k)
		if err != nil {
			return nil, err
		}
		if k.backend == "pg" {
			s.config["state"].(object)["type"], s.config["state"].(object)["config"] = "pg", object{ //nolint:forcetypeassert // made by newSite
				"conn_str": server.DSN("adapter"), "schema_name": fmt.Sprintf("s%d", n)}
		}
		if err := errors.Join(s.save(), s.deploy(ctx, nil)); err != nil {
			return nil, err
		}
		bare := bareTofu{bench: b, dir: filepath.Join(s.dir, "bare"), dsn: dsn, schema: fmt.Sprintf("s%d", n)}
		if err := bare.init(ctx, k); err != nil {
			return nil, err
		}
		medians, err := compare(ctx, b.runs(20, 3), s.binds, bare.bind, s.unbinds, bare.unbind)
		if err != nil {
			return nil, err
		}
		figures = append(figures,
			figure("create-binding, "+k.name, medians[0], "tofu apply, output", medians[1]),
			figure("delete-binding, "+k.name, medians[2], "tofu state pull, destroy, workspace delete", medians[3]))
	}
	return figures, nil
}

// postgresql starts a server where PostgreSQL's user can get to.
func (b *bench) postgresql(ctx context.Context) (*servers.Server, error) {
	dir, err := os.MkdirTemp("/tmp", "bench-postgresql-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // another user passes through
		return nil, err
	}
	server, err := servers.PostgreSQL(ctx, filepath.Join(dir, "cluster"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server, nil
}

// bindSite makes a site for a kind of bindings with states in files.
func (b *bench) bindSite(k kind) (*site, error) {
	name := strings.Join(strings.FieldsFunc(k.name, func(r rune) bool { return r == ' ' || r == ',' }), "-")
	pak, err := b.bindPak(name, k.template)
	if err != nil {
		return nil, err
	}
	s, err := b.newSite(pak, serviceID, planID, "server")
	if err != nil {
		return nil, err
	}
	if k.encrypt {
		s.config["state"].(object)["encryption"] = object{"key": []byte("0123456789abcdef0123456789abcdef")} //nolint:forcetypeassert // made by newSite
	}
	return s, s.save()
}

func (s *site) binds(ctx context.Context, n int) (sample, error) {
	call, err := s.bind(fmt.Sprint("b", n))
	if err != nil {
		return sample{}, err
	}
	return call.run(ctx)
}

func (s *site) unbinds(ctx context.Context, n int) (sample, error) {
	call, err := s.unbind(fmt.Sprint("b", n))
	if err != nil {
		return sample{}, err
	}
	return call.run(ctx)
}

// bareTofu is OpenTofu in an initialised directory.
type bareTofu struct {
	bench       *bench
	dir         string
	dsn, schema string
}

func (t bareTofu) init(ctx context.Context, k kind) error {
	mirror := filepath.Join(t.dir, "mirror", "registry.terraform.io", "service-adapter", "directory", "1.0.0")
	backend := object{"path": filepath.Join(t.dir, "state"), "workspace_dir": filepath.Join(t.dir, "states")}
	if k.backend == "pg" {
		backend = object{"schema_name": t.schema}
	}
	text, err := json.Marshal(object{"terraform": object{"backend": object{k.backend: backend}}})
	if err != nil {
		return err
	}
	platform := runtime.GOOS + "_" + runtime.GOARCH
	if err := errors.Join(os.MkdirAll(filepath.Join(mirror, platform), 0o755),
		os.Symlink(t.bench.provider(), filepath.Join(mirror, platform, "terraform-provider-directory_v1.0.0")),
		writeAll(t.dir, map[string]string{
			"main.tf": k.template, "backend.tf.json": string(text),
			"cli.tfrc": fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", filepath.Join(t.dir, "mirror")),
		})); err != nil {
		return err
	}
	_, err = t.command("", "init", "-input=false", "-no-color").run(ctx)
	return err
}

func (t bareTofu) command(workspace string, args ...string) program {
	env := []string{
		"PATH=/usr/bin:/bin", "HOME=" + t.dir, "TMPDIR=" + t.dir, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "PG_CONN_STR=" + t.dsn,
		"TF_CLI_CONFIG_FILE=" + filepath.Join(t.dir, "cli.tfrc"), "TF_VAR_path=" + t.dir, "TF_VAR_name=" + workspace,
	}
	if workspace != "" {
		env = append(env, "TF_WORKSPACE="+workspace)
	}
	return program{path: t.bench.tofu(), args: args, env: env, dir: t.dir}
}

func (t bareTofu) bind(ctx context.Context, n int) (sample, error) {
	name := fmt.Sprint("b", n)
	return all(ctx, t.command(name, "apply", "-json", "-input=false", "-auto-approve"), t.command(name, "output", "-json"))
}

func (t bareTofu) unbind(ctx context.Context, n int) (sample, error) {
	name := fmt.Sprint("b", n)
	return all(ctx, t.command(name, "state", "pull"), t.command(name, "destroy", "-json", "-input=false", "-auto-approve"),
		t.command("", "workspace", "delete", name))
}

// cold compares the first bind on a machine, with what `service-adapter prepare` made and without.
func cold(ctx context.Context, b *bench) ([]Figure, error) {
	s, err := b.bindSite(kind{"cold", external, "local", false})
	if err != nil {
		return nil, err
	}
	if err := s.deploy(ctx, nil); err != nil {
		return nil, err
	}
	prepared := filepath.Join(s.dir, "prepared")
	prepare := program{path: b.adapter(), args: []string{"prepare", "--dir", prepared}, env: s.env(), dir: s.dir}
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
	medians, err := compare(ctx, b.runs(10, 2), with(prepared), with(""))
	if err != nil {
		return nil, err
	}
	return []Figure{figure("first create-binding, prepared before", medians[0], "not prepared", medians[1])}, nil
}

// throughput measures how many bindings several adapters make in a minute.
func throughput(ctx context.Context, b *bench) ([]Figure, error) {
	s, err := b.bindSite(kind{"throughput", external, "local", false})
	if err != nil {
		return nil, err
	}
	if err := s.deploy(ctx, nil); err != nil {
		return nil, err
	}
	if _, err := s.binds(ctx, 0); err != nil {
		return nil, err
	}
	var figures []Figure
	next := 0
	for _, workers := range []int{1, 2, 4, 8} {
		count := workers * b.runs(8, 2)
		begin := time.Now()
		if err := s.parallel(ctx, workers, next+1, count); err != nil {
			return nil, err
		}
		figures = append(figures, Figure{
			Name: fmt.Sprintf("create-binding, %d at once", workers), Unit: "per minute", Median: float64(count) / time.Since(begin).Minutes(),
		})
		next += count
	}
	return figures, nil
}

// parallel makes bindings with several adapters at once.
func (s *site) parallel(ctx context.Context, workers, first, count int) error {
	var group sync.WaitGroup
	var done atomic.Int64
	failures := make([]error, workers)
	for worker := range workers {
		group.Go(func() {
			for n := int(done.Add(1)); n <= count && failures[worker] == nil; n = int(done.Add(1)) {
				_, failures[worker] = s.binds(ctx, first+n)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// stored measures what bindings that exist cost others.
func stored(ctx context.Context, b *bench) ([]Figure, error) {
	s, err := b.bindSite(kind{"stored", external, "local", false})
	if err != nil {
		return nil, err
	}
	if err := s.deploy(ctx, nil); err != nil {
		return nil, err
	}
	if _, err := s.binds(ctx, 0); err != nil {
		return nil, err
	}
	states := filepath.Join(s.dir, "state", "workspaces")
	text, err := os.ReadFile(filepath.Join(states, "b-b0", "terraform.tfstate"))
	if err != nil {
		return nil, err
	}
	var figures []Figure
	var least [2]sample
	there := 1
	for _, count := range []int{10, 1000, 10_000} {
		for ; there < count; there++ {
			dir := filepath.Join(states, fmt.Sprintf("b-stored-%d", there))
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "terraform.tfstate"), text, 0o600)); err != nil {
				return nil, err
			}
		}
		shift := func(run side) side {
			return func(ctx context.Context, n int) (sample, error) { return run(ctx, count+n) }
		}
		medians, err := compare(ctx, b.runs(10, 2), shift(s.binds), shift(s.unbinds))
		if err != nil {
			return nil, err
		}
		if there == 10 {
			least = [2]sample{medians[0], medians[1]}
		}
		figures = append(figures,
			figure(fmt.Sprintf("create-binding, %d stored", count), medians[0], "10 stored", least[0]),
			figure(fmt.Sprintf("delete-binding, %d stored", count), medians[1], "10 stored", least[1]))
	}
	return figures, nil
}
