// Package arch_test asserts the structure of the module for all files of the product: the allowed imports, the package
// comments and the size of files.
package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "service-adapter/"

// maxLines is the number of lines of code, without blank lines and comments, above which a source file must be split.
const maxLines = 320

// layers contains the packages of the module from the bottom to the top. A package may import packages of lower layers,
// but not of its own. Every package below cmd is in the top layer.
var layers = [][]string{
	// Foundations: they do not depend on services, bindings and OpenTofu's runs.
	{
		"docs", "examples", "internal/ctxio", "internal/diag", "internal/durable", "internal/fault",
		"internal/privatefs", "internal/value", "internal/yamltree",
	},
	{
		"internal/filelock", "internal/outfile", "internal/record", "internal/redact", "internal/strictyaml",
		"internal/tfjson", "internal/engine/statestore",
	},
	{
		"internal/director", "internal/hclfile", "internal/journal", "internal/engine/backend",
		"internal/engine/opentofu",
	},
	{"internal/engine/lease", "internal/engine/provider", "internal/engine/shell", "internal/engine/statelock"},
	{"internal/engine/templates"},
	{"internal/engine/scratch"},
	{"internal/engine/workspace", "brokerpak/expr"},
	// The format, and the evaluation of expressions for a request.
	{"brokerpak"},
	{"schemas", "internal/bundled"},
	{"internal/vars"},
	{"internal/instance"},
	// The engine, which runs OpenTofu for bindings and instances.
	{"internal/engine/lifecycle"},
	{"binding", "internal/engine/provision", "internal/odb"},
	{"manifestgen"},
	// The protocol, and the tools for operators. The packages below adapter/session record every command. Those in the
	// row of adapter open their own sessions.
	{
		"adapter/config", "internal/operate/audit", "internal/operate/certificates", "internal/operate/manifestdiff",
	},
	{"adapter/input"},
	{"adapter/session", "internal/operate/metrics", "internal/operate/recording"},
	{
		"adapter", "internal/operate/evaluate", "internal/operate/prepare", "internal/operate/preview",
		"internal/operate/states",
	},
	{"internal/operate/status"},
	// The tools for authors, and the commands.
	{"internal/author/bill", "internal/author/release"},
	{"internal/author/build", "internal/author/doc", "internal/author/lint", "internal/author/test"},
	{"internal/author/diff"},
	{"internal/cli"},
	{"cmd"},
	// Packages that tests share.
	{"spec/bench/figures", "spec/kit"},
	{"spec/kit/broker", "spec/kit/hold", "spec/kit/servers"},
	{"spec/kit/process", "spec/kit/site"},
	{"spec/kit/service"},
	{
		"spec/demo", "spec/release/maker", "spec/bench", "spec/bench/empty", "spec/faults", "spec/bench/meter",
		"spec/bench/minimal", "spec/mutants", "spec/licences",
	},
	{"spec/release"},
}

// onlyImporters contains packages that may not be imported by all packages of higher layers, with the allowed
// importers.
var onlyImporters = map[string][]string{
	"internal/director":          {"internal/cli", "internal/operate/certificates"},
	"internal/engine/backend":    {"internal/engine", "adapter"},
	"internal/engine/lease":      {"internal/engine/scratch"},
	"internal/engine/provider":   {"internal/engine/templates", "internal/engine/scratch"},
	"internal/engine/scratch":    {"internal/engine/workspace"},
	"internal/engine/statelock":  {"internal/engine"},
	"internal/engine/statestore": {"internal/engine", "binding", "adapter"},
	"internal/engine/templates":  {"internal/engine", "adapter", "internal/operate/prepare"},
	"internal/engine/workspace":  {"internal/engine", "binding", "adapter", "internal/operate/prepare", "cmd"},
	"internal/filelock":          {"internal/engine", "internal/operate/audit"},
	"internal/privatefs":         {"internal/engine", "internal/operate/audit", "internal/operate/recording"},
}

// onlyImporter contains the only package, or tree of packages, that may import a library. The entry "tests" is not a
// package; it allows only tests, among them the packages below spec.
var onlyImporter = map[string]string{
	"os/exec":                  "internal/engine",
	"github.com/CycloneDX":     "internal/author/bill",
	"github.com/hashicorp/hil": "brokerpak/expr",
	"github.com/hashicorp/hcl": "internal/hclfile",
	"github.com/lib/pq":        "internal/engine/statestore",
	"github.com/xeipuuv":       "schemas",
	"github.com/spf13/cobra":   "internal/cli",
	"github.com/spf13/pflag":   "internal/cli",
	"github.com/onsi":          "tests",
	"github.com/rogpeppe":      "tests",
}

// goPackage contains fields of the output of `go list -json` for a package, without its tests.
type goPackage struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
}

// name returns the path of the package within the module.
func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// packages lists the packages of the module that have product code.
func packages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Doc,GoFiles,Imports", module+"...")
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) == 0 {
			continue
		}
		found = append(found, p)
		// This call makes the cached result of the test invalid if the directory changes, because go test does not
		// notice the files that another process reads.
		if _, err := os.ReadDir(p.Dir); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < len(layers) {
		t.Fatalf("go list found only %d packages", len(found))
	}
	return found
}

func TestImportDirection(t *testing.T) {
	for _, p := range packages(t) {
		height := layer(p.name())
		if height < 0 {
			t.Errorf("%s is in no layer; add it to a layer in this test", p.name())
			continue
		}
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module)
			if !ours || layer(target) < 0 { // the loop reports a package without a layer
				continue
			}
			ownPart := under(p.name(), "cmd") && under(target, p.name()) // a command may import its own parts
			if layer(target) >= height && !ownPart {
				t.Errorf("%s must not import %s: it is not in a lower layer", p.name(), target)
			}
			users, narrow := onlyImporters[target]
			if narrow && !slices.ContainsFunc(users, func(user string) bool { return under(p.name(), user) }) {
				t.Errorf("%s must not import %s, only %s may", p.name(), target, strings.Join(users, ", "))
			}
		}
	}
}

// layer returns the index of the layer of a package. It returns -1 if no layer contains the package.
func layer(name string) int {
	if under(name, "cmd") {
		name = "cmd"
	}
	return slices.IndexFunc(layers, func(names []string) bool { return slices.Contains(names, name) })
}

// TestDirectories asserts that a directory contains no package that is above the package of the directory itself, so
// that the tree of directories shows the direction of imports. The packages below spec are tests, and cmd is not a
// package.
func TestDirectories(t *testing.T) {
	for _, p := range packages(t) {
		parent := path.Dir(p.name())
		if height := layer(parent); height >= 0 && layer(p.name()) >= height &&
			!under(p.name(), "spec") && !under(p.name(), "cmd") {
			t.Errorf("%s must not be in the directory of %s, which is not above it", p.name(), parent)
		}
	}
}

func TestLibrariesHaveOneImporter(t *testing.T) {
	for _, p := range packages(t) {
		for library, owner := range onlyImporter {
			imports := slices.ContainsFunc(p.Imports, func(imported string) bool { return under(imported, library) })
			if imports && !under(p.name(), owner) && !under(p.name(), "spec") {
				t.Errorf("%s must not import %s, only %s may", p.name(), library, owner)
			}
		}
	}
}

// under reports whether a path equals a tree or is below it.
func under(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}

// codeLines returns the number of lines that are neither blank nor only a comment. Comments do not count, so that no
// comment is omitted to shorten a file.
func codeLines(source []byte) int {
	count := 0
	for line := range bytes.Lines(source) {
		if text := bytes.TrimSpace(line); len(text) > 0 && !bytes.HasPrefix(text, []byte("//")) {
			count++
		}
	}
	return count
}

func TestFileSizes(t *testing.T) {
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if lines := codeLines(source); lines > maxLines {
				t.Errorf("%s/%s has %d lines of code; split it, the limit is %d", p.name(), file, lines, maxLines)
			}
		}
	}
}

// maxMethods is the maximum number of methods of a type. A type with more methods has to be split.
const maxMethods = 40

func TestMethods(t *testing.T) {
	for _, p := range packages(t) {
		count := map[string]int{}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil,
				parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declaration := range parsed.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv != nil {
					count[receiver(function.Recv.List[0].Type)]++
				}
			}
		}
		for name, methods := range count {
			if methods > maxMethods {
				t.Errorf("%s.%s has %d methods; the limit is %d", p.name(), name, methods, maxMethods)
			}
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}
