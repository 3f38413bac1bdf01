package main

import (
	"io"
	"os/exec"
	"path/filepath"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/a2a"
	"hubbub/peers/agent/harness/acp"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/peers/netguard"
)

// remembered is the number of conversations in a model's memory.
const remembered = 1000

// a2aToken is the variable with the token for the agent at --a2a-url.
const a2aToken = "HUBBUB_A2A_TOKEN"

// modelKeys are the variables with the keys of models, which only the agent itself needs.
var modelKeys = []string{
	model.OpenAIKey,
	model.OpenAIKey + "_FILE",
	model.AnthropicKey,
	model.AnthropicKey + "_FILE",
	a2aToken,
	a2aToken + "_FILE",
}

// newHarness makes the harness of --harness. Close the returned closer when the harness has
// ended; it may be nil.
func (s *settings) newHarness(env *program.Env, data string) (harness.Harness, io.Closer, error) {
	log := env.Log
	argv, permission, err := s.parseHarness()
	if err != nil {
		return nil, nil, err
	}
	switch s.Harness {
	case "scripted":
		return scripted.New(nil), nil, nil
	case "c2a":
		return c2a.New(argv, &c2a.Options{
			Version: string(s.agent.Version),
			Info:    c2a.Info{Name: env.Name, Version: env.Version},
			Dir:     s.agent.Workspace,
			Log:     &log,
		}), nil, nil
	case "a2a":
		return a2a.New(s.targets.A2AURL, &a2a.Options{
			Token: func() (string, error) { return env.Secret(a2aToken) }, Log: &log,
			Transport: netguard.NewTransport(s.targets.policyFor([]string{s.targets.A2AURL})),
		}), nil, nil
	case "acp":
		return acp.New(argv, &acp.Options{Dir: s.agent.Workspace, Permission: permission, Log: &log}), nil, nil
	}
	history, err := model.OpenHistory(historyFile(data, agentName(s.ID)), remembered)
	if err != nil {
		return nil, nil, err
	}
	m := model.APIs[s.Harness]
	return m.New(&model.Options{
		BaseURL: s.endpoint.BaseURL,
		Model:   s.endpoint.Model,
		Key:     func() (string, error) { return env.Secret(m.KeyName) },
		Servers: mcptools.NewPool(&mcptools.PoolOptions{HideEnv: modelKeys, Redact: s.agent.Redact}),
		Timeout: s.agent.Deadline, MaxTokens: s.endpoint.MaxTokens,
		History: history,
		Log:     &log,
	}), history, nil
}

// parseHarness checks the flags of the harness, and returns the words of its command and its
// permission, if it has them.
func (s *settings) parseHarness() ([]string, acp.Permission, error) {
	switch s.Harness {
	case "scripted":
		return nil, "", nil
	case "openai", "anthropic":
		if s.endpoint.MaxTokens < 64 && s.endpoint.MaxTokens != 0 {
			return nil, "", program.Usage("--max-tokens %d leaves no room for an answer: give 64 or more", s.endpoint.MaxTokens)
		}
		return nil, "", nil
	case "a2a":
		if err := s.targets.policyFor([]string{s.targets.A2AURL}).CheckURL(s.targets.A2AURL); err != nil {
			return nil, "", program.Usage("--a2a-url, which --harness a2a needs: %s", err)
		}
		return nil, "", nil
	case "acp", "c2a":
	default:
		return nil, "", program.Usage("--harness %q is unknown: use scripted, openai (with --base-url also of "+
			"Ollama, OpenRouter and others), anthropic, acp, c2a or a2a", s.Harness)
	}
	argv, err := subprocess.SplitCommand(s.HarnessCommand)
	if err != nil {
		return nil, "", program.Usage("--harness-command, which --harness %s needs: %s", s.Harness, err)
	}
	permission, ok := acp.ParsePermission(s.Permission)
	if !ok {
		return nil, "", program.Usage("--permission %q is unknown: use reading, ask, everything or nothing",
			s.Permission)
	}
	return argv, permission, nil
}

// checkHarness returns what the harness lacks on this machine, without starting it.
func (s *settings) checkHarness(env *program.Env) error {
	argv, _, err := s.parseHarness()
	if err != nil {
		return err
	}
	if m, ok := model.APIs[s.Harness]; ok {
		key, err := env.Secret(m.KeyName)
		if err != nil {
			return err
		}
		if key == "" && s.endpoint.BaseURL == "" {
			return program.Usage("--harness %[1]s needs the key of its model: set %[2]s, or %[2]s_FILE to the file "+
				"that holds it", s.Harness, m.KeyName)
		}
	} else if len(argv) > 0 {
		command := argv[0]
		if filepath.Base(command) != command && !filepath.IsAbs(command) && s.agent.Workspace != "" {
			command = filepath.Join(s.agent.Workspace, command) // its working folder
		}
		if _, err := exec.LookPath(command); err != nil {
			return program.Usage("--harness-command: %w", program.Retryable(err)) // it may be installed later
		}
	}
	return nil
}

// historyFile returns the file with the model's memory of its conversations. Each agent has its own,
// because several may share a data folder.
func historyFile(data, name string) string { return filepath.Join(data, "history-"+name+".db") }
