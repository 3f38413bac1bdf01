// Command platforms checks that every program and test of this module compiles on each supported
// platform. It checks the types from source. That takes seconds, where go vet for another platform
// takes minutes to compile the standard library and all dependencies.
//
//	go run ./scripts/platforms [GOOS/GOARCH...]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	platforms := os.Args[1:]
	if len(platforms) == 0 {
		platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"}
	}
	for _, platform := range platforms {
		system, processor, _ := strings.Cut(platform, "/")
		n, err := check(system, processor)
		if err != nil {
			fmt.Fprintf(os.Stderr, "platforms: %s: %v\n", platform, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %d packages compile\n", platform, n)
	}
}

// A source is a package as go list describes it. A package compiled with its tests is a separate
// source.
type source struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // of the imports that mean another package
	DepOnly    bool
}

// A checker checks packages in the order of their dependencies.
type checker struct {
	packages map[string]*types.Package
	sizes    types.Sizes
}

// check returns the number of packages of this module that compile for a platform.
func check(system, processor string) (n int, err error) {
	c := &checker{map[string]*types.Package{"unsafe": types.Unsafe}, types.SizesFor("gc", processor)}
	if c.sizes == nil {
		return 0, errors.New("there is no such processor")
	}
	list := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly", "./...")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return 0, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var s source
		if err := decoder.Decode(&s); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return 0, err
		}
		if s.ImportPath == "unsafe" || strings.HasSuffix(s.ImportPath, ".test") {
			continue // a main that go test generates
		}
		if err := c.check(&s); err != nil {
			return 0, err
		}
		if !s.DepOnly {
			n++
		}
	}
}

// check checks one package. For a dependency, it checks only the declarations.
func (c *checker) check(s *source) error {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range s.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	own, _, _ := strings.Cut(s.ImportPath, "/")
	config := types.Config{
		Importer:         imported{c, s.ImportMap},
		IgnoreFuncBodies: own != "hubbub",
		Sizes:            c.sizes,
	}
	path, _, _ := strings.Cut(s.ImportPath, " ") // without the test that it is for
	var err error
	c.packages[s.ImportPath], err = config.Check(path, fset, files, nil)
	return err
}

// An imported resolves the imports of one package.
type imported struct {
	*checker
	other map[string]string
}

// Import returns a package that was checked before.
func (i imported) Import(path string) (*types.Package, error) {
	if other, ok := i.other[path]; ok {
		path = other
	}
	if p := i.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is imported before it is checked", path)
}
