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

	"hubbub/cmd/internal/program"
	"hubbub/peers/system"
	"hubbub/peers/system/process"
	"hubbub/peers/system/systemd"
)

func main() { program.Main(systemProgram()) }

// settings are the values of the flags.
type settings struct {
	Launcher     string `flag:"launcher" default:"process" usage:"what runs the agents: process or systemd"`
	AgentCommand string `flag:"agent-command" usage:"program of the agents (default the hubbub-agent beside this one)"`
	ownAgents    bool   // --agent-command names our own program
	AgentEnvFile string `flag:"agent-env-file" usage:"file of KEY=value lines for the environment of agents, read at each start; keep it readable by its owner alone"`
	Profiles     string `flag:"profiles" usage:"TOML file of the profiles that a request may name: [NAME] with args, env-file, memory-max, tasks-max, files-max, runtime-max, agent-unit"`
	MemoryMax    string `flag:"memory-max" default:"4G" usage:"maximum memory of an agent or, if agents are processes, of each of its processes; empty for no limit"`
	spawner      system.Options
	process      process.Options
	systemd      systemd.Options
	Scope        string `flag:"systemd-scope" default:"auto" usage:"with systemd: system, user, or auto, which is system for root"`
}

func systemProgram() program.Program {
	s := &settings{spawner: system.Options{Limits: system.Limits{Tasks: 4096, Files: 8192}}}
	return program.Program{
		Name:     "hubbub-system",
		Summary:  "starts an agent for each chat that asks for one, and keeps it running",
		Settings: s.all(),
		Check:    s.check,
		Run:      s.run,
	}
}

// all returns all settings, in the order of the flags.
func (s *settings) all() []any { return []any{s, &s.spawner, &s.process, &s.systemd} }

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
		env.Log.Warn().Err(err).Msg("agents will not work with these settings; see also [agent] in the file of " +
			"`hubbub up`; each agent runs in a folder of its own, so a relative path leads elsewhere")
	}
	return system.New(db, launcher, s.AgentCommand, filepath.Join(data, "launch"), &s.spawner).Run(ctx)
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

// complete checks the flags and adds defaults.
func (s *settings) complete(env *program.Env) (err error) {
	o := &s.spawner
	s.ownAgents = s.AgentCommand == ""
	if s.AgentCommand, err = findAgent(s.AgentCommand); err != nil {
		return err
	}
	if o.Limits.Memory, err = parseBytes(s.MemoryMax); err != nil {
		return program.Usage("--memory-max: %s", err)
	}
	if err := checkUnits(o.Unit); err != nil {
		return program.Usage("--agent-unit: %s", err)
	}
	if s.Profiles != "" {
		if o.Profiles, err = readProfiles(s.Profiles, o.Limits); err != nil {
			return program.Usage("--profiles: %w", err)
		}
	}
	if o.MaxRestarts == 0 {
		o.MaxRestarts = -1 // none, rather than the default
	}
	inherited := inheritedEnv(os.Environ(), program.FlagNames(s.all()...), s.Launcher == "systemd")
	o.Env = func() ([]string, error) {
		more, err := readEnvFile(s.AgentEnvFile, &env.Log)
		return append(inherited[:len(inherited):len(inherited)], more...), err
	}
	if _, err := env.Token(); err != nil {
		return err
	}
	o.Peer, o.Log, o.OnReady = env.PeerOptions(), &env.Log, env.Ready
	s.process.Log, s.systemd.Log = &env.Log, &env.Log
	return nil
}

func (s *settings) makeLauncher(data string) (system.Launcher, error) {
	switch s.Launcher {
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
		scope, ok := scopes[s.Scope]
		if !ok {
			return nil, program.Usage("--systemd-scope must be system, user or auto, not %q", s.Scope)
		}
		s.systemd.Scope = scope
		return systemd.New(data, &s.systemd), nil
	}
	return nil, program.Usage("--launcher must be process or systemd, not %q", s.Launcher)
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
