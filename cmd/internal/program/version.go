package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is the version of the programs. A release build may override it (-ldflags -X).
var version = "0.1.0"

// revision is the commit of the source. A release build sets it (-ldflags -X).
var revision string

// Version returns the version of the running program.
func Version() string { return strings.TrimPrefix(version, "v") }

// Revision returns the abbreviated commit of the source, with a plus sign if the source was modified. It is ""
// if the commit is unknown.
func Revision() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit := ""
	for _, s := range info.Settings { // vcs.revision comes before vcs.modified
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true" && commit != "":
			commit += "+"
		}
	}
	return commit
}

// VersionLine returns the output of --version.
func VersionLine(name string) string {
	line := fmt.Sprintf("%s %s", name, Version())
	if r := Revision(); r != "" {
		line += " (" + r + ")"
	}
	return line + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// Find returns the path of one of our programs: beside this one, or in PATH.
func Find(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			path := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %s is neither beside this one nor in PATH; build it with: make build", name)
	}
	return filepath.Abs(path)
}
