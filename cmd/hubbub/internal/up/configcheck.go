package up

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/proxyenv"
	"hubbub/peers/proc"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the settings of `hubbub up` and report errors by line",
		Long: "Check every table, key, value, address, file, port, token and program in the settings of `hubbub\n" +
			"up` without starting anything. Each program checks its own settings. Without --config, the\n" +
			"settings are the environment variables. `hubbub up` does the same before it starts. Exits 2 if\n" +
			"there is an error.",
		Example:     "  hubbub config check --config hubbub.toml",
		Annotations: map[string]string{program.OwnConfig: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := ReadRequest(cmd)
			if err != nil {
				return err
			}
			p := output.NewPrinter(cmd)
			mistakes := sortByLine(append(r.ConfigErrors(cmd.Context()), r.missingRequirements()...))
			for _, m := range mistakes {
				if p.JSON {
					p.Value(m)
				} else {
					p.Linef("%s", m)
				}
			}
			switch {
			case p.Err != nil:
				return p.Err
			case len(mistakes) > 0:
				return program.Usage("%s in %s", text.Counted(len(mistakes), "error"),
					cmp.Or(r.File, "the environment"))
			case !p.JSON:
				p.Linef("%s: no errors", cmp.Or(r.File, "the settings in the environment"))
			}
			return p.Err
		},
	}
}

// A ConfigError is one error in the settings.
type ConfigError struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"` // 0 if unknown
	Table   string `json:"table,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"says"`

	retryable bool // it may disappear without a change to the settings
}

// String formats the error as compilers do.
func (m ConfigError) String() string {
	where := m.File
	if m.Line > 0 {
		where += fmt.Sprintf(":%d", m.Line)
	}
	if where != "" {
		where += ": "
	}
	if m.Table != "" {
		where += "[" + m.Table + "] "
	}
	return where + m.Message
}

// checkTimeout bounds the check of one program's settings.
const checkTimeout = time.Minute

// ConfigErrors returns all errors in the settings, in the order of the file: keys that no program
// reads, and the errors that the programs find in their own settings.
func (r *Request) ConfigErrors(ctx context.Context) []ConfigError {
	list := append(r.unknownKeys(), r.logErrors()...)
	if err := proxyenv.Check(); err != nil { // every program would refuse it
		return sortByLine(append(list, ConfigError{Message: err.Error()}))
	}
	if err := checkDataFolder(r.Data); err != nil { // the programs would fail in it too
		m := r.configError("", "data", err.Error())
		m.retryable = program.IsRetryable(err)
		return sortByLine(append(list, m))
	}
	agentKeys := strings.Split(strings.TrimSpace(r.agentEnv()), "\n")
	common := []string{"--data", r.Data, "--log-level", "error", "--log-format", "json"}
	for _, p := range components {
		lacking := r.skipReason(p) != ""
		if lacking && !r.has(p.name) {
			continue
		}
		args := slices.Clone(common)
		if path := program.TokenPath(r.Data, p.name); p.name != "bus" && program.FileExists(path) {
			args = append(args, "--token-file", path)
		}
		env := r.environment(p)
		if p.name == "system" { // the spawner checks the settings of agents with an agent
			env = append(env, agentKeys...)
		}
		if lacking && p.name == "tg" { // check the rest of its table anyway
			env = append(env, "TELEGRAM_BOT_TOKEN=1:unset")
		}
		if lacking && p.name == "matrix" {
			env = append(env, "MATRIX_ACCESS_TOKEN=unset")
		}
		list = append(list, r.checkProgram(ctx, p.name, "", args, env)...)
	}
	if r.agentCommand() == "" {
		env := append(r.environment(component{name: "agent"}), agentKeys...)
		// Each agent runs in a folder of its own.
		list = append(list, r.checkProgram(ctx, "agent", "/", append([]string{"--id", "check"}, common...), env)...)
	}
	return sortByLine(list)
}

// logErrors returns the errors in the settings of logs.
func (r *Request) logErrors() (list []ConfigError) {
	for _, c := range []struct{ key, level, format string }{
		{"log-level", r.LogLevel, "json"}, {"log-format", "info", r.LogFormat},
	} {
		if err := program.CheckLog(c.level, c.format); err != nil {
			list = append(list, r.configError("", c.key, strings.TrimPrefix(err.Error(), "--")))
		}
	}
	return list
}

// checkDataFolder returns an error if the data folder can be neither written nor created.
func checkDataFolder(data string) error {
	folder := data
	for !program.FileExists(folder) && filepath.Dir(folder) != folder {
		folder = filepath.Dir(folder)
	}
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("data %s: %s is a file, not a folder", data, folder)
	}
	err := unix.Access(folder, unix.W_OK|unix.X_OK)
	if err == nil {
		return nil
	}
	err = &fs.PathError{Op: "writing in", Path: folder, Err: err}
	if advice := program.Advice(err, data); advice != "" {
		return fmt.Errorf("data %s: %w; %s", data, err, advice)
	}
	return fmt.Errorf("data %s: %w", data, err)
}

// sortByLine sorts errors by line.
func sortByLine(list []ConfigError) []ConfigError {
	slices.SortStableFunc(list, func(a, b ConfigError) int { return cmp.Compare(a.Line, b.Line) })
	return list
}

// missingRequirements returns why programs that the file configures cannot run. `hubbub up`
// reports that and runs the others.
func (r *Request) missingRequirements() (list []ConfigError) {
	for _, p := range components {
		if reason := r.skipReason(p); reason != "" && r.has(p.name) {
			list = append(list, r.configError(p.name, "", reason))
		}
	}
	return list
}

// agentCommand returns the command that runs as agent instead of hubbub-agent, or "".
func (r *Request) agentCommand() string {
	command, _ := program.TOMLText(r.Table("system")["agent-command"])
	return cmp.Or(command, LookupEnv(r.Env, "HUBBUB_AGENT_COMMAND"))
}

// flagName matches the flag in the error of a program.
var flagName = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// checkProgram makes a program check its table, in a folder. If that fails, it runs the program
// again without each key that the program rejects, to find all errors.
func (r *Request) checkProgram(ctx context.Context, name, dir string, args, env []string) (list []ConfigError) {
	path, err := program.Find("hubbub-" + name)
	if err != nil {
		return []ConfigError{r.configError(name, "", err.Error())}
	}
	add := func(key, says string, retryable bool) {
		m := r.configError(name, key, says)
		m.retryable = retryable
		list = append(list, m)
	}
	whole := args
	if r.has(name) {
		whole = append(slices.Clone(args), "--config", r.File+"#"+name)
	}
	wrong, retryable := runCheck(ctx, path, dir, append([]string{"--check"}, whole...), env)
	if wrong == "" {
		return nil
	}
	flags := map[string][]string{}
	for key, value := range r.Table(name) {
		if slices.Contains(managedFlags, key) {
			continue // already reported
		}
		values, err := program.TOMLStrings(value)
		if err != nil {
			add(key, key+" "+err.Error(), false)
			continue
		}
		for _, v := range values {
			flags[key] = append(flags[key], "--"+key+"="+v)
		}
	}
	for {
		all := append([]string{"--check"}, args...)
		for _, key := range slices.Sorted(maps.Keys(flags)) {
			all = append(all, flags[key]...)
		}
		says, again := runCheck(ctx, path, dir, all, env)
		switch {
		case says == "" && len(list) == 0: // each value is fine, but the table is not
			wrong = strings.TrimPrefix(wrong, r.File+"#"+name+": ")
			key, _, _ := strings.Cut(wrong, ":")
			add(key, wrong, retryable)
			return list
		case says == "":
			return list
		}
		key := ""
		if found := flagName.FindStringSubmatch(says); found != nil {
			key = found[1]
		}
		switch {
		case flags[key] != nil: // in the words of the file
			says = flagName.ReplaceAllString(strings.Replace(says, "unknown flag: ", "unknown key ", 1), "$1")
			if value := flags[key][0][len(
				"--"+key+"=",
			):]; name == "agent" && strings.Contains(says, value+": no such file") && !filepath.IsAbs(value) {
				says += "; agents run in folders of their own: give the full path"
			}
			add(key, says, again)
			delete(flags, key)
		case r.Table(name)[key] != nil: // the table lacks a key that was removed because it was wrong
			return list
		default:
			add("", says, again)
			return list
		}
	}
}

// runCheck runs a program that only checks its settings, in dir or the current folder. It returns
// the error that the program reports, or "", and whether the program asks to be started again.
func runCheck(ctx context.Context, path, dir string, args, env []string) (says string, retryable bool) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stderr, cmd.Dir = env, &said, dir
	err := cmd.Run()
	switch {
	case err == nil:
		return "", false
	case ctx.Err() != nil:
		return "not checked: the program did not end within " + checkTimeout.String(), true
	}
	first, _, _ := strings.Cut(said.String(), "\n")
	return cmp.Or(strings.TrimPrefix(first, filepath.Base(path)+": "), err.Error()), !proc.IsUsageError(err)
}

// configError returns an error with the line of the key or, without a key, of the table.
func (r *Request) configError(table, key, says string) ConfigError {
	m := ConfigError{File: r.File, Table: table, Key: key, Message: says}
	if r.File == "" {
		return m
	}
	if raw, err := os.ReadFile(r.File); err == nil {
		content, _ := text.Decode(raw) // ReadTOML has refused other bytes
		m.Line = lineOf(content, table, key)
	}
	return m
}

var (
	tableLine = regexp.MustCompile(`^\s*\[\s*"?([A-Za-z0-9_-]+)"?\s*\]`)
	keyLine   = regexp.MustCompile(`^\s*"?([A-Za-z0-9_-]+)"?\s*=`)
)

// lineOf returns the line of a key in a table. If the key is empty or missing, it returns the
// line of the table, or 0.
func lineOf(file, table, key string) (line int) {
	current, n := "", 0
	for l := range strings.Lines(file) {
		n++
		if header := tableLine.FindStringSubmatch(l); header != nil {
			current = header[1]
			if line == 0 && (current == table || table == "" && current == key) {
				line = n
			}
		}
		if name := keyLine.FindStringSubmatch(l); name != nil && current == table && name[1] == key && key != "" {
			return n
		}
	}
	return line
}
