package program

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version and revision are set when a release is built (-ldflags -X).
var version, revision string

// Version returns the version of the running program: that of the release, or what the
// Go toolchain recorded about the source.
func Version() string {
	if version != "" {
		return strings.TrimPrefix(version, "v")
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return strings.TrimPrefix(v, "v")
	}
	return "devel"
}

// Revision returns the abbreviated commit that the program was built from, with a plus
// sign if the source was modified, or "" if it is not known.
func Revision() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var commit, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}

// VersionLine is what --version prints.
func VersionLine(name string) string {
	line := fmt.Sprintf("%s %s", name, Version())
	if r := Revision(); r != "" {
		line += " (" + r + ")"
	}
	return line + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
