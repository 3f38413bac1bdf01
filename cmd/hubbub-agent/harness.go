package main

import (
	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/anthropic"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/openai"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/peers/agent/harness/turnloop"
	"hubbub/peers/attention"

	"github.com/google/shlex"
)

// newHarness makes the harness that --harness names.
func (s *settings) newHarness(env *program.Env, version attention.Version) (harness.Harness, error) {
	log := env.Log
	loop := turnloop.Options{Time: s.deadline, Log: &log}
	switch s.harness {
	case "scripted":
		return scripted.New(nil), nil
	case "openai":
		return openai.New(&openai.Options{
			BaseURL: s.baseURL, Model: s.model, Servers: mcptools.NewPool(nil), Loop: loop,
			Key: func() (string, error) { return env.Secret(openai.KeyName) },
		}), nil
	case "anthropic":
		return anthropic.New(&anthropic.Options{
			BaseURL: s.baseURL, Model: s.model, Servers: mcptools.NewPool(nil), Loop: loop,
			Key: func() (string, error) { return env.Secret(anthropic.KeyName) },
		}), nil
	case "c2a":
		argv, err := s.command()
		if err != nil {
			return nil, err
		}
		return c2a.New(argv, &c2a.Options{
			Version: string(version), Info: c2a.Info{Name: env.Name, Version: env.Version}, Dir: s.workspace, Log: &log,
		}), nil
	}
	return nil, program.Usage("--harness %q is unknown: use scripted, openai, anthropic, acp or c2a", s.harness)
}

// command splits --harness-command into shell words. No shell runs it.
func (s *settings) command() ([]string, error) {
	argv, err := shlex.Split(s.harnessCommand)
	if err != nil {
		return nil, program.Usage("--harness-command: %s", err)
	}
	if len(argv) == 0 {
		return nil, program.Usage("--harness %s needs --harness-command, the program that it runs", s.harness)
	}
	return argv, nil
}
