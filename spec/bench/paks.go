package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"service-adapter/spec/bench/figures"
)

// paks measures the validation and the build of a pak with 20 services and 600 MB of binaries.
func paks(ctx context.Context, b *bench) ([]figures.Figure, error) {
	dir := filepath.Join(b.dir, "pak-big")
	size := int64(200 << 20)
	if b.quick {
		size = 20 << 20
	}
	if err := b.bigPak(dir, size); err != nil {
		return nil, err
	}
	once := func(args ...string) side {
		return func(ctx context.Context, _ int) (sample, error) {
			return program{
				bench: b, path: b.adapter(), args: append([]string{"pak"}, args...),
				env: []string{"PATH=/usr/bin:/bin", "TMPDIR=" + b.dir}, dir: b.dir,
			}.run(ctx)
		}
	}
	var found []figures.Figure
	for _, step := range []struct {
		name string
		runs int
		run  side
	}{
		{"pak validate, 20 services", 10, once("validate", dir)},
		{
			fmt.Sprintf("pak build, 20 services, %d MB", 3*size>>20), 3,
			once("build", "--target", "current", "--output", filepath.Join(b.dir, "big.brokerpak"), dir),
		},
	} {
		got, err := compare(ctx, b.runs(step.runs, 1), step.run)
		if err != nil {
			return nil, err
		}
		found = append(found, alone(step.name, got[0]))
	}
	return found, nil
}

// bigPak writes the pak. Its binaries contain random bytes, which cannot be compressed.
func (b *bench) bigPak(dir string, size int64) error {
	bin := filepath.Join(b.dir, "binaries")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(bin, 0o755)); err != nil {
		return err
	}
	files := map[string]string{}
	var names []string
	for n := range 20 {
		name := fmt.Sprintf("server-%d.yml", n)
		names = append(names, name)
		files[name] = fmt.Sprintf(definition, fmt.Sprint("server-", n),
			fmt.Sprintf("0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e%02d", n),
			fmt.Sprintf("0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b8e%02d", n))
	}
	manifest := "packversion: 1\nname: big\nversion: 0.1.0\nplatforms: [{os: " + runtime.GOOS + ", arch: " +
		runtime.GOARCH + "}]\nterraform_binaries:\n" +
		"- {name: tofu, version: " + tofuVersion + ", default: true, url_template: " + b.tofu() + "}\n"
	for n := range 3 {
		path := filepath.Join(bin, fmt.Sprintf("terraform-provider-noise%d_v1.0.0", n))
		if err := noise(path, size, uint64(n)); err != nil { //nolint:gosec // 0, 1, 2
			return err
		}
		manifest += fmt.Sprintf("- {name: terraform-provider-noise%d, version: 1.0.0, provider: "+
			"registry.terraform.io/example/noise%d, url_template: %s}\n",
			n, n, path)
	}
	files["manifest.yml"] = manifest + "service_definitions: [" + strings.Join(names, ", ") + "]\n"
	return writeAll(dir, files)
}

// noise writes a file with random bytes, which depend only on the seed.
func noise(path string, size int64, seed uint64) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY,
		0o755) //nolint:gosec // the file is an executable
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var key [32]byte
	key[0] = byte(seed) //nolint:gosec // 0, 1, 2
	_, err = io.CopyN(file, rand.NewChaCha8(key), size)
	return err
}
