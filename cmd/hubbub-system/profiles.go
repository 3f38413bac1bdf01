package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/system"
	"hubbub/peers/system/systemd"
	"hubbub/protocol/text"

	"github.com/BurntSushi/toml"
	"github.com/rs/zerolog"
)

// A profileTable is one table of the file of --profiles.
type profileTable struct {
	Args       []string `toml:"args"`
	EnvFile    string   `toml:"env-file"`
	MemoryMax  string   `toml:"memory-max"`
	TasksMax   int64    `toml:"tasks-max"`
	FilesMax   int64    `toml:"files-max"`
	RuntimeMax string   `toml:"runtime-max"`
	AgentUnit  []string `toml:"agent-unit"`
}

// readProfiles reads the profiles that requests may name. A profile has the limits of every agent
// unless it sets its own.
func readProfiles(path string, limits system.Limits) (map[string]system.Profile, error) {
	var tables map[string]profileTable
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the profiles: %w", err)
	}
	content, ok := text.Decode(raw)
	if !ok {
		return nil, fmt.Errorf("%s is not text: save it as UTF-8", path)
	}
	meta, err := toml.Decode(content, &tables)
	if err != nil {
		return nil, fmt.Errorf("reading the profiles: %w", err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: unknown key %q", path, unknown[0])
	}
	profiles := map[string]system.Profile{}
	for name, t := range tables {
		own := limits
		if t.MemoryMax != "" {
			if own.Memory, err = parseBytes(t.MemoryMax); err != nil {
				return nil, fmt.Errorf("%s: [%s] memory-max: %w", path, name, err)
			}
		}
		if t.RuntimeMax != "" {
			if own.Runtime, err = time.ParseDuration(t.RuntimeMax); err != nil {
				return nil, fmt.Errorf("%s: [%s] runtime-max: %w", path, name, err)
			}
		}
		if t.TasksMax > 0 {
			own.Tasks = t.TasksMax
		}
		if t.FilesMax > 0 {
			own.Files = t.FilesMax
		}
		if err := checkUnits(t.AgentUnit); err != nil {
			return nil, fmt.Errorf("%s: [%s] agent-unit: %w", path, name, err)
		}
		if t.EnvFile != "" && !filepath.IsAbs(t.EnvFile) {
			t.EnvFile = filepath.Join(filepath.Dir(path), t.EnvFile)
		}
		nop := zerolog.Nop()
		profiles[name] = system.Profile{
			Args:   t.Args,
			Limits: &own,
			Unit:   t.AgentUnit,
			Env:    func() ([]string, error) { return readEnvFile(t.EnvFile, &nop) },
		}
	}
	return profiles, nil
}

// checkUnits returns the error of an invalid --agent-unit line.
func checkUnits(lines []string) error {
	for _, line := range lines {
		if err := systemd.CheckUnit(line); err != nil {
			return err
		}
	}
	return nil
}

// parseBytes parses a size such as 512M. An empty text means no limit.
func parseBytes(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, factor := text, int64(1)
	if i := strings.IndexByte("KMGT", text[len(text)-1]); i >= 0 {
		number, factor = text[:len(text)-1], 1<<(10*(i+1))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is not a size such as 512M or 2G", text)
	}
	return n * factor, nil
}
