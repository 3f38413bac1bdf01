package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/proxyenv"
	"hubbub/peers/proc"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
)

// notForAgents are variables for the spawner alone: its bus, its secrets and those of other
// programs.
var notForAgents = append([]string{
	"HUBBUB_BUS", "HUBBUB_CONFIG", "HUBBUB_DATA", "HUBBUB_TOKEN", "HUBBUB_TOKEN_FILE", "HUBBUB_ID",
	"TELEGRAM_*", "MATRIX_*",
}, proc.ServiceEnv...)

// aboutAgents are the variables for agents: keys of models, settings, and proxies on the way to models.
var aboutAgents = append([]string{"HUBBUB_*", "OPENAI_API_KEY*", "ANTHROPIC_API_KEY*"}, proxyenv.Names...)

// inheritedEnv returns the part of the spawner's environment for agents, without its secrets and
// its own flags. Agents that are units have an environment of their own, and get only the
// variables meant for agents.
func inheritedEnv(env, flags []string, units bool) []string {
	drop := slices.Clone(notForAgents)
	for _, f := range flags {
		drop = append(drop, program.EnvName(f))
	}
	env = proc.DropEnv(env, drop...)
	if units {
		env = proc.KeepEnv(env, aboutAgents...)
	}
	return append(env, proc.CrashEnv)
}

// maxEnvFile bounds the file of --agent-env-file, in bytes.
const maxEnvFile = 64 << 10

// readEnvFile reads KEY=value lines. It ignores empty lines and lines that begin with #, and
// removes single or double quotes around a value. An empty path means no file. Errors contain no
// values.
func readEnvFile(path string, log *zerolog.Logger) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxEnvFile {
		return nil, fmt.Errorf("%s is too large for an environment: at most %d bytes", path, maxEnvFile)
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the environment of agents: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && othersRead(info.Mode(), int(stat.Uid) == os.Geteuid()) {
		log.Warn().Str("file",
			path).Msg("other users of this machine can read the environment of agents; run: chmod 600 on it")
	}
	content, ok := text.Decode(raw)
	if !ok {
		return nil, fmt.Errorf("%s is not text: save it as UTF-8", path)
	}
	var env []string
	for n, line := range strings.Split(content, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found || !validKey.MatchString(key) {
			return nil, fmt.Errorf("%s:%d: a line must be KEY=value", path, n+1)
		}
		value, err := unquote(value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
		env = append(env, key+"="+value)
	}
	return env, nil
}

// othersRead reports whether other users can read a file. A file of another owner, such as a secret that
// a container's runtime mounts, is readable by its group so that this user can read it.
func othersRead(mode fs.FileMode, own bool) bool {
	return mode&0o007 != 0 || own && mode&0o070 != 0
}

var validKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func unquote(value string) (string, error) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		if strings.ContainsRune(value, 0) {
			return "", errors.New("a value cannot hold a zero byte")
		}
		return value, nil
	}
	if len(value) < 2 || value[len(value)-1] != value[0] {
		return "", errors.New("a quote has no end")
	}
	return value[1 : len(value)-1], nil
}
