// Command hubbub-system is the spawner: it starts an agent for each chat that asks for
// one, and keeps it running.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/proc"
	"hubbub/peers/system"
	"hubbub/peers/system/process"
	"hubbub/peers/system/systemd"

	"github.com/spf13/pflag"
)

func main() { program.Main(systemProgram()) }

// settings are the values of the flags.
type settings struct {
	launcher     string
	agentCommand string
	ownAgents    bool // --agent-command names our own program
	agentEnvFile string
	profiles     string
	memoryMax    string
	spawner      system.Options
	process      process.Options
	systemd      systemd.Options
	scope        string
	flagNames    []string
}

func systemProgram() program.Program {
	var s settings
	return program.Program{
		Name:    "hubbub-system",
		Summary: "starts an agent for each chat that asks for one, and keeps it running",
		Flags:   s.flags,
		Check:   s.check,
		Run:     s.run,
	}
}

func (s *settings) flags(fs *pflag.FlagSet) {
	o := &s.spawner
	fs.StringVar(&s.launcher, "launcher", "process", "what runs the agents: process or systemd")
	fs.StringVar(&s.agentCommand, "agent-command", "",
		"program that agents are (default the hubbub-agent beside this one)")
	fs.StringArrayVar(&o.Args, "agent-arg", nil, "argument given to every agent (repeatable)")
	fs.StringVar(&s.agentEnvFile, "agent-env-file", "",
		"file of KEY=value lines for the environment of agents, read at each start; keep it readable by its owner alone")
	fs.StringVar(&s.profiles, "profiles", "",
		"TOML file of the profiles that a request may name: [NAME] with args, env-file, memory-max, tasks-max, "+
			"files-max, runtime-max, agent-unit")
	fs.DurationVar(&o.IdleStop, "idle-stop", 0, "stop an agent whose chats said nothing for so long; 0 never does")
	fs.IntVar(&o.MaxAgents, "max-agents", 100, "agents that may run at once")
	fs.IntVar(&o.SpawnRate, "spawn-rate", 120, "new agents that may be started in a minute; more wait")
	fs.IntVar(&o.MaxRestarts, "max-restarts", 5,
		"times in a row that an agent is started again, counted anew after 60s of running")
	fs.DurationVar(&o.StartTimeout, "start-timeout", 30*time.Second,
		"how long an agent may take to say that it is online")
	fs.StringVar(&s.memoryMax, "memory-max", "4G",
		"memory of an agent, or of each of its processes where agents are processes; an empty one is no limit")
	fs.Int64Var(&o.Limits.Tasks, "tasks-max", 4096,
		"processes and threads of an agent, or that its user may start after it where agents are processes; 0 is no "+
			"limit")
	fs.Int64Var(&o.Limits.Files, "files-max", 8192, "files that each process of an agent may have open; 0 is no limit")
	fs.DurationVar(&o.Limits.Runtime, "runtime-max", 0,
		"how long an agent may run before it is started anew (default no limit)")
	fs.BoolVar(&s.process.KeepAgents, "keep-agents", false,
		"let processes of agents go on when this program ends; the next start takes them over")
	fs.StringVar(&s.scope, "systemd-scope", "auto", "with systemd: system, user, or auto, which is system for root")
	fs.StringArrayVar(&o.Unit, "agent-unit", nil,
		"with systemd: what an agent's harness needs of what its unit takes away, such as MemoryDenyWriteExecute=no "+
			"(repeatable); see hubbub help security")
	fs.StringVar(&s.systemd.User, "agent-user", "",
		"with systemd: user that agents run as (default one of their own each)")
	fs.Int64Var(&s.process.MaxLog, "agent-log-max", 8<<20, "bytes of an agent's log file; one older file is kept")
	fs.VisitAll(func(f *pflag.Flag) { s.flagNames = append(s.flagNames, f.Name) })
}

func (s *settings) run(ctx context.Context, env *program.Env) (err error) {
	data := env.Data
	release, err := env.AwaitData(ctx)
	if err != nil {
		return err
	}
	defer release()
	launcher, err := s.makeLauncher(data)
	if err != nil {
		return err
	}
	db, err := system.Open(filepath.Join(data, "system.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := s.checkAgents(ctx, env); err != nil {
		env.Log.Warn().Err(err).Msg("agents will not work as they are set, see [agent] in the file of `hubbub up`, " +
			"too; each runs in a folder of its own, where a relative path leads elsewhere")
	}
	return system.New(db, launcher, s.agentCommand, filepath.Join(data, "launch"), &s.spawner).Run(ctx)
}

// check checks the settings, and completes them. Problems of the agents' settings only cause
// warnings when the spawner runs, because a missing file may exist when the first agent starts.
func (s *settings) check(ctx context.Context, env *program.Env) error {
	if err := s.complete(env); err != nil {
		return err
	}
	if _, err := s.makeLauncher(env.Data); err != nil {
		return err
	}
	if !env.Checking {
		return nil
	}
	return s.checkAgents(ctx, env)
}

// checkBounds refuses bounds that would mean the default, or let no agent start.
func (s *settings) checkBounds() error {
	o := &s.spawner
	for flag, low := range map[string]bool{
		"max-agents": o.MaxAgents < 1, "spawn-rate": o.SpawnRate < 1, "agent-log-max": s.process.MaxLog < 1,
	} {
		if low {
			return program.Usage("--%s must be at least 1", flag)
		}
	}
	for flag, low := range map[string]bool{
		"idle-stop":    o.IdleStop < 0,
		"max-restarts": o.MaxRestarts < 0,
		"tasks-max":    o.Limits.Tasks < 0,
		"files-max":    o.Limits.Files < 0,
		"runtime-max":  o.Limits.Runtime < 0,
	} {
		if low {
			return program.Usage("--%s must not be negative", flag)
		}
	}
	if o.StartTimeout <= 0 {
		return program.Usage("--start-timeout must be longer than 0s, such as 30s")
	}
	return nil
}

// complete checks the flags and adds defaults.
func (s *settings) complete(env *program.Env) (err error) {
	o := &s.spawner
	s.ownAgents = s.agentCommand == ""
	if err := s.checkBounds(); err != nil {
		return err
	}
	if s.agentCommand, err = findAgent(s.agentCommand); err != nil {
		return err
	}
	if o.Limits.Memory, err = parseBytes(s.memoryMax); err != nil {
		return program.Usage("--memory-max: %s", err)
	}
	if err := checkUnits(o.Unit); err != nil {
		return program.Usage("--agent-unit: %s", err)
	}
	if s.profiles != "" {
		if o.Profiles, err = readProfiles(s.profiles, o.Limits); err != nil {
			return program.Usage("--profiles: %w", err)
		}
	}
	if o.MaxRestarts == 0 {
		o.MaxRestarts = -1 // none, rather than the default
	}
	inherited := inheritedEnv(os.Environ(), s.flagNames)
	if s.launcher == "systemd" {
		inherited = proc.KeepEnv(inherited, aboutAgents...) // units have an environment of their own
	}
	o.Env = func() ([]string, error) {
		more, err := readEnvFile(s.agentEnvFile, &env.Log)
		return append(inherited[:len(inherited):len(inherited)], more...), err
	}
	token, err := env.Token()
	if err != nil {
		return err
	}
	o.Credentials = token != ""
	o.Peer, o.Log, o.OnReady = env.PeerOptions(), &env.Log, env.Ready
	s.process.Log, s.systemd.Log = &env.Log, &env.Log
	return nil
}

func (s *settings) makeLauncher(data string) (system.Launcher, error) {
	switch s.launcher {
	case "process":
		return process.New(data, &s.process), nil
	case "systemd":
		if runtime.GOOS != "linux" {
			return nil, program.Usage("--launcher systemd needs Linux: use --launcher process")
		}
		scopes := map[string]systemd.Scope{
			"auto":   systemd.ScopeAuto,
			"system": systemd.ScopeSystem,
			"user":   systemd.ScopeUser,
		}
		scope, ok := scopes[s.scope]
		if !ok {
			return nil, program.Usage("--systemd-scope must be system, user or auto, not %q", s.scope)
		}
		s.systemd.Scope = scope
		return systemd.New(data, &s.systemd), nil
	}
	return nil, program.Usage("--launcher must be process or systemd, not %q", s.launcher)
}

// findAgent returns the absolute path of the agents' program.
func findAgent(command string) (string, error) {
	if command == "" {
		path, err := program.Find("hubbub-agent")
		if err != nil {
			return "", fmt.Errorf("%w, or name it with --agent-command", err)
		}
		return path, nil
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", fmt.Errorf("--agent-command: %w", err)
	}
	return filepath.Abs(path)
}
