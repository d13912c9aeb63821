package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"service-adapter/spec/kit"
)

// A drawing chooses mutants at random.
type drawing struct {
	seed   uint64
	count  int
	prefix string // prefix of the ids, which distinguishes them from those of other tables
}

// drawnFrom reports whether mutants are drawn from a file of the product.
func drawnFrom(name string) bool {
	return strings.HasPrefix(name, "internal/engine/") || strings.HasPrefix(name, "manifestgen/")
}

// A candidate is a point with its file and declaration.
type candidate struct {
	source *source
	in     declared
	point  point
}

// A pool contains the points of a package.
type pool struct {
	lines  int // number of lines of its files
	kinds  []string
	points map[string][]candidate // by kind
}

// pools returns the pools of the packages, by directory.
func pools(c *code) map[string]*pool {
	all := map[string]*pool{}
	for _, name := range sortedKeys(c.files) {
		if !drawnFrom(name) {
			continue
		}
		s := c.files[name]
		p := all[path.Dir(name)]
		if p == nil {
			p = &pool{points: map[string][]candidate{}}
			all[path.Dir(name)] = p
		}
		p.lines += strings.Count(s.text, "\n")
		for _, d := range s.declarations() {
			for _, found := range pointsOf(s, d) {
				p.points[found.kind] = append(p.points[found.kind], candidate{source: s, in: d, point: found})
			}
		}
		p.kinds = sortedKeys(p.points)
	}
	return all
}

// write draws mutants from the code of the working tree and writes them as a table. A package is drawn with the
// probability of its share of lines, then a kind of mistake, then one of its points. At most two mutants are in one
// declaration. A mutant that does not compile is drawn again.
func (d drawing) write(ctx context.Context, table string, progress io.Writer) error {
	if table == "" {
		return errors.New("-o is needed, the table to write")
	}
	c, err := readCode(kit.Path())
	if err != nil {
		return err
	}
	var drawn []string
	all := pools(c)
	random := rand.New(rand.NewPCG(d.seed, 0)) //nolint:gosec // the choice must be repeatable
	perDeclaration := map[string]int{}
	seen := map[string]bool{}
	for len(drawn) < d.count {
		chosen := choose(random, all)
		m, err := chosen.source.edit(chosen.in, chosen.point.begin, chosen.point.end, chosen.point.replacement)
		if err != nil {
			continue
		}
		declaration := m.file + " " + m.declaration
		key := strings.Join(m.hunk, "\n")
		if perDeclaration[declaration] == 2 || seen[declaration+key] {
			continue
		}
		seen[declaration+key] = true
		m.id, m.what = d.prefix+strconv.Itoa(len(drawn)+1), chosen.point.kind
		if err := c.compiles(ctx, m); err != nil {
			_, _ = fmt.Fprintln(progress, err)
			continue
		}
		perDeclaration[declaration]++
		drawn = append(drawn, m.String())
		_, _ = fmt.Fprintln(progress, m.id, m.file, m.declaration, m.what)
	}
	text := fmt.Sprintf("# %d mutants, drawn with seed %d.\n\n", d.count, d.seed) + strings.Join(drawn, "\n")
	return os.WriteFile(table, []byte(text), 0o644) //nolint:gosec // it is a file of the repository
}

// choose draws one point.
func choose(random *rand.Rand, all map[string]*pool) candidate {
	sum := 0
	for _, p := range all {
		sum += p.lines
	}
	line := random.IntN(sum)
	for _, name := range sortedKeys(all) {
		p := all[name]
		if line < p.lines {
			points := p.points[p.kinds[random.IntN(len(p.kinds))]]
			return points[random.IntN(len(points))]
		}
		line -= p.lines
	}
	panic("a line is in none of the packages")
}

// compiles returns an error with the compiler's last line if the package of a mutant does not compile.
func (c *code) compiles(ctx context.Context, m mutant) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	change, err := c.apply(m)
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(dir, c.root, change)
	if err != nil {
		return err
	}
	output, err := goCommand(ctx, c.root, "build", "-overlay", overlay, "./"+path.Dir(change.path)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("does not compile: %w: %s", err, lastLine(string(output)))
	}
	return nil
}

// writeOverlay writes the overlay with which the go command replaces a file by the mutant's, and returns its path.
func writeOverlay(dir, root string, change mutated) (string, error) {
	file := filepath.Join(dir, path.Base(change.path))
	if err := os.WriteFile(file, []byte(change.text), 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	text := fmt.Sprintf("{\"Replace\": {%q: %q}}\n", filepath.Join(root, change.path), file)
	return overlay, os.WriteFile(overlay, []byte(text), 0o600)
}

// lastLine returns the last line of a text that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
