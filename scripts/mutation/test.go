package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const module = "hubbub/"

// A goPackage is a package as go list describes it.
type goPackage struct {
	ImportPath string
	ForTest    string
	GoFiles    []string
	Deps       []string

	folder string // from the root
}

// listPackages returns the output of go list.
func listPackages(ctx context.Context, args ...string) ([]goPackage, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{
		"list", "-json=ImportPath,ForTest,GoFiles,Deps",
	}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		p.folder = strings.TrimPrefix(p.ImportPath, module)
		packages = append(packages, p)
	}
}

// A tests is the test program of one package.
type tests struct {
	folder string
	uses   []string      // the import paths of the linked packages
	took   time.Duration // duration of its run without a mutant; 0 before that
}

// A tester runs tests on mutants.
type tester struct {
	programs []*tests
	scratch  string
}

func newTester(ctx context.Context) (*tester, error) {
	packages, err := listPackages(ctx, "-test", "./...")
	if err != nil {
		return nil, err
	}
	t := &tester{}
	for _, p := range packages {
		if folder, ok := strings.CutSuffix(p.folder, ".test"); ok && p.ForTest == "" {
			t.programs = append(t.programs, &tests{folder: folder, uses: p.Deps})
		}
	}
	t.scratch, err = os.MkdirTemp("", "mutate")
	return t, err
}

func (t *tester) close() { _ = os.RemoveAll(t.scratch) }

// of returns the tests that use a package: those of its group or, if there are none, of all
// groups. The package's own tests come first, then those of the folder above, then the quickest.
func (t *tester) of(ctx context.Context, p place) ([]*tests, error) {
	sees := func(program *tests) bool {
		return slices.ContainsFunc(program.uses, func(used string) bool {
			used, _, _ = strings.Cut(used, " ") // p [q.test] is p compiled for a test of q
			return used == module+p.pkg
		})
	}
	var near, others []*tests
	for _, program := range t.programs {
		switch {
		case !sees(program):
		case program.folder == p.group || strings.HasPrefix(program.folder, p.group+"/"):
			near = append(near, program)
		case strings.HasPrefix(program.folder, "peers/") || strings.HasPrefix(program.folder, "bus"):
			others = append(others, program)
		}
	}
	chosen := near
	if len(near) == 0 {
		chosen = others
	}
	for _, program := range chosen {
		if program.took > 0 {
			continue
		}
		began := time.Now()
		if out, err := goTest(ctx, program, 10*time.Minute, ""); err != nil {
			return nil, fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", program.folder, err, out)
		}
		program.took = time.Since(began)
	}
	far := func(program *tests) int {
		switch program.folder {
		case p.pkg:
			return 0
		case path.Dir(p.pkg):
			return 1
		}
		return 2
	}
	slices.SortFunc(chosen, func(a, b *tests) int { return cmp.Or(far(a)-far(b), cmp.Compare(a.took, b.took)) })
	return chosen, nil
}

// An outcome is the result of trying a mutant.
type outcome int

const (
	survived outcome = iota
	caught
	hung        // caught, because its tests did not end in time
	unusable    // did not compile
	interrupted // the outcome is unknown
)

// A verdict is an outcome with the first test that failed.
type verdict struct {
	outcome outcome
	by      string
}

// try runs the tests for a place on its mutant until one fails.
func (t *tester) try(ctx context.Context, p place) verdict {
	programs, err := t.of(ctx, p)
	if err != nil {
		t.close()
		fail(err)
	}
	overlay, err := t.overlay(p)
	if err != nil {
		t.close()
		fail(err)
	}
	for _, program := range programs {
		began := time.Now()
		limit := 2*program.took + 30*time.Second // the machine may be shared
		out, err := goTest(ctx, program, limit, overlay)
		if v := classify(ctx, out, err); v.outcome != survived {
			v.by = strings.TrimSpace(program.folder + " " + v.by)
			return v
		}
		program.took = min(program.took, time.Since(began))
	}
	return verdict{outcome: survived}
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// classify interprets the end of a test program.
func classify(ctx context.Context, out string, err error) verdict {
	switch {
	case ctx.Err() != nil:
		return verdict{outcome: interrupted}
	case err == nil:
		return verdict{outcome: survived}
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		return verdict{outcome: unusable}
	case strings.Contains(out, "panic: test timed out"):
		return verdict{outcome: hung}
	}
	if name := failed.FindStringSubmatch(out); name != nil {
		return verdict{outcome: caught, by: name[1]}
	}
	return verdict{outcome: caught}
}

// overlay writes the mutant of a place, and the overlay file that replaces the original with it.
func (t *tester) overlay(p place) (string, error) {
	original, err := filepath.Abs(p.file)
	if err != nil {
		return "", err
	}
	mutant := filepath.Join(t.scratch, filepath.Base(p.file))
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutant}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(mutant, []byte(p.mutant()), 0o600); err != nil {
		return "", err
	}
	name := filepath.Join(t.scratch, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// goTest runs the tests of one package in short mode up to the first failure. It does not run
// vet, which would refuse mutants that compile.
func goTest(ctx context.Context, program *tests, limit time.Duration, overlay string) (string, error) {
	args := []string{"test", "-short", "-failfast", "-count=1", "-vet=off", "-p=1", "-timeout=" + limit.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Minute) // includes the time to build it
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+program.folder)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the tests end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // a program that a test started may hold the output
	out, err := cmd.CombinedOutput()
	return string(out), err
}
