package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
)

// checkTime bounds all checks of agents' settings together: a check that only warns must
// not delay the spawner.
const checkTime = 5 * time.Second

// checkAgents makes our own agents check the settings that they will get, so that a
// mistake shows now and not with the first message. It only warns: an agent in its own
// unit may find what is missing here.
func (s *settings) checkAgents(ctx context.Context, env *program.Env) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	environ, err := s.spawner.Env()
	if err != nil {
		env.Log.Warn().Err(err).Msg("agents will not work as they are set")
		return
	}
	if says := checkAgent(ctx, s.agentCommand, env.Data, s.spawner.Args, environ); says != "" {
		env.Log.Warn().Str("agent", says).Msg("agents will not work as they are set, see --agent-arg, or [agent] in the file of `hubbub up`; each runs in a folder of its own, where a relative path leads elsewhere")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.spawner.Profiles)) {
		p := s.spawner.Profiles[name]
		more, err := p.Env()
		says := ""
		if err == nil {
			says = checkAgent(ctx, s.agentCommand, env.Data, slices.Concat(s.spawner.Args, p.Args), slices.Concat(environ, more))
		} else {
			says = err.Error()
		}
		if says != "" {
			env.Log.Warn().Str("profile", name).Str("agent", says).Msg("agents of this profile will not work as they are set, see --profiles")
		}
	}
}

// checkAgent returns why an agent refuses its arguments or its environment, or "". The
// check runs in the data folder, as an agent runs in one below it: it does not find
// what happens to be in the folder of the spawner.
func checkAgent(ctx context.Context, command, data string, args, environ []string) string {
	cmd := exec.CommandContext(ctx, command, append([]string{"--check", "--id", "check", "--data", data}, args...)...)
	cmd.Dir = data
	cmd.WaitDelay = time.Second                                         // what it started itself may keep its stderr
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...) // a unit has a PATH without being given one
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil:
		return "" // or too slow to be asked: its start will tell
	case errors.As(err, &exit):
		first, _, _ := strings.Cut(stderr.String(), "\n")
		if first = strings.TrimPrefix(first, filepath.Base(command)+": "); first != "" {
			return first
		}
	}
	return fmt.Sprintf("%s: %s", command, err)
}
