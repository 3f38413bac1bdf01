package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/proc"
)

// checkTime bounds all checks of agents' settings together. These checks only warn, so they must
// not delay the spawner.
const checkTime = 5 * time.Second

// checkAgents makes our own agents check the settings that they will get, so that a mistake shows
// now and not with the first message.
func (s *settings) checkAgents(ctx context.Context, env *program.Env) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	environ, err := s.spawner.Env()
	if err != nil {
		return program.Usage("--agent-env-file: %w", err)
	}
	if !s.ownAgents {
		return nil // other programs take any arguments
	}
	if err := checkAgent(ctx, s.AgentCommand, env.Data, s.spawner.Args, environ); err != nil {
		return program.Usage("--agent-arg: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.spawner.Profiles)) {
		p := s.spawner.Profiles[name]
		more, err := p.Env()
		if err == nil {
			err = checkAgent(ctx, s.AgentCommand, env.Data, slices.Concat(s.spawner.Args, p.Args),
				slices.Concat(environ, more))
		}
		if err != nil {
			return program.Usage("--profiles: [%s]: %w", name, err)
		}
	}
	return nil
}

// checkAgent returns why an agent refuses its arguments or its environment. The check runs in the
// data folder, like an agent in a folder below it, so that it does not find files in the
// spawner's working folder by accident.
func checkAgent(ctx context.Context, command, data string, args, environ []string) error {
	cmd := exec.Command(command, append([]string{"--check", "--id", "check", "--data", data}, args...)...)
	if cmd.Dir = data; !isFolder(data) {
		cmd.Dir = "/" // nothing has run yet
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...) // systemd sets PATH for a unit
	first := ""
	p, err := proc.Start(cmd, &proc.Options{
		ParentDeathSignal: syscall.SIGKILL,
		OnLine:            func(line []byte) { first = cmp.Or(first, string(line)) },
	})
	if err == nil {
		stop := context.AfterFunc(ctx, p.Kill)
		err = p.Wait()
		stop()
	}
	first = strings.TrimPrefix(first, filepath.Base(command)+": ")
	switch {
	case err == nil || ctx.Err() != nil:
		return nil // or it is too slow, which its start will show
	case first == "":
		err = fmt.Errorf("%s: %w", command, err)
	case proc.IsUsageError(err):
		return errors.New(first)
	default:
		err = errors.New(first)
	}
	return program.Retryable(err)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
