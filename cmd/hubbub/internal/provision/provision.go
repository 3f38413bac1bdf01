package provision

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hubbub/bus/grant"
	"hubbub/cmd/internal/program"
	"hubbub/protocol/datafolder"
)

// Grants are the credentials of the programs of a system. [program.TokenPath] names the file of
// each token.
var Grants = []grant.Credential{
	{
		Name: "hubbub-system", Identities: []string{"agent:system"}, Subscribe: []string{"system:*", "bus:presence"},
		Publish: []string{"system:*", "tg:*", "mx:*", "chorus:*", "cli:*", "collab:*", "agent:*"},
		Issue:   []string{"agent:*"}, // one credential for each agent
		Limits:  serviceBounds,
	},
	{
		Name: "hubbub-tg", Identities: []string{"tg:*"}, Subscribe: []string{"tg:*", "bus:presence"},
		Publish: []string{"system:*", "agent:*", "collab:*", "tg:*", "cli:*"},
		Limits:  serviceBounds,
	},
	{
		Name: "hubbub-matrix", Identities: []string{"mx:*"}, Subscribe: []string{"mx:*", "bus:presence"},
		Publish: []string{"system:*", "agent:*", "collab:*", "mx:*", "cli:*"},
		Limits:  serviceBounds,
	},
	{
		Name: "hubbub-broker", Identities: []string{"collab:broker"}, Subscribe: []string{"collab:*", "bus:presence"},
		Publish: []string{"*"}, // it answers every requester
		Limits:  serviceBounds,
	},
	{
		Name: "hubbub-chorus", Identities: []string{
			"chorus:*", "agent:*",
		}, Subscribe: []string{"chorus:*", "agent:*", "bus:presence"},
		Publish: []string{"system:*", "agent:*", "tg:*", "mx:*", "chorus:*", "collab:*", "cli:*"},
		Limits:  serviceBounds,
	},
	{
		Name: "hubbub-cli", Identities: []string{"cli:*"}, Subscribe: []string{"*"}, Publish: []string{"*"},
	},
}

// serviceBounds are the limits of the programs that serve many peers, so that no agent can
// exhaust them.
var serviceBounds = grant.Limits{Messages: 100_000, Bytes: 512 << 20, LogBytes: 1 << 40}

// Provision makes sure that each program has a credential and a token file, and writes the
// agents' keys. Only the owner can read them. It keeps existing tokens that are valid.
func Provision(data, agentEnv string) error {
	if err := writeAgentEnv(data, agentEnv); err != nil {
		return fmt.Errorf("writing the agents' keys: %w", err)
	}
	return Tokens(data)
}

// Tokens makes sure that each program has a credential, and a token file in <data>/tokens.
func Tokens(data string) error {
	if err := datafolder.MkdirAll(filepath.Join(data, "tokens")); err != nil {
		return fmt.Errorf("creating the folder of tokens: %w", err)
	}
	file := grant.NewFile(filepath.Join(data, grant.FileName))
	if err := file.Reload(); err != nil {
		return err
	}
	for _, want := range Grants {
		if err := provisionToken(file, program.TokenPath(data, want.Name), want); err != nil {
			return fmt.Errorf("creating the credential of %s: %w", want.Name, err)
		}
	}
	return nil
}

// Adopt gives each program a credential for an existing token. The token is in a file of the
// folder with the name of the program. Programs without a file get none. It reads each file as
// the program does.
func Adopt(env *program.Env, data, folder string) (names []string, err error) {
	file := grant.NewFile(filepath.Join(data, grant.FileName))
	if err := file.Reload(); err != nil {
		return nil, err
	}
	for _, c := range Grants {
		path := filepath.Join(folder, filepath.Base(program.TokenPath(data, c.Name)))
		token, err := env.SecretFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(token) < minTokenLen {
			return nil, fmt.Errorf(
				"the token in %s is shorter than %d characters and could be guessed; make one with: openssl rand "+
					"-hex 32",
				path,
				minTokenLen,
			)
		}
		c.SHA256, c.Limits = grant.Hash(token), boundsOf(file, &c)
		if err := file.Put(c); err != nil {
			return nil, fmt.Errorf("creating the credential of %s: %w", c.Name, err)
		}
		names = append(names, filepath.Base(path))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has none of the tokens %s", folder, strings.Join(Names(), ", "))
	}
	return names, nil
}

// minTokenLen is the minimum length of a token that was made elsewhere.
const minTokenLen = 32

// Names returns the base names of the token files.
func Names() []string {
	var list []string
	for _, c := range Grants {
		list = append(list, filepath.Base(program.TokenPath("", c.Name)))
	}
	return list
}

// boundsOf returns the limits of a program: its own, overridden by those in the credentials file.
func boundsOf(file *grant.File, part *grant.Credential) grant.Limits {
	for _, c := range file.List() {
		if c.Name == part.Name {
			return c.Limits.WithDefaults(part.Limits)
		}
	}
	return part.Limits
}

// sameGrant reports whether two credentials differ only in token and limits.
func sameGrant(a, b *grant.Credential) bool {
	return a.Name == b.Name && slices.Equal(a.Identities, b.Identities) && slices.Equal(a.Subscribe, b.Subscribe) &&
		slices.Equal(a.Publish, b.Publish) && slices.Equal(a.Issue, b.Issue)
}

// writeAgentEnv writes the agents' keys. If there are none, it removes the file of an earlier
// run.
func writeAgentEnv(data, content string) error {
	path := filepath.Join(data, AgentEnvFile)
	if content != "" {
		if err := datafolder.MkdirAll(data); err != nil {
			return err
		}
		return datafolder.WriteFile(path, []byte(content))
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func provisionToken(file *grant.File, path string, want grant.Credential) error {
	token, err := os.ReadFile(path)
	switch {
	case err == nil:
		if c, ok := file.Lookup(strings.TrimSpace(string(token))); ok && sameGrant(c, &want) {
			return nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// The token is lost, or the credential has other grants.
	fresh := grant.NewToken()
	want.SHA256, want.Limits = grant.Hash(fresh), boundsOf(file, &want)
	if err := file.Put(want); err != nil {
		return err
	}
	return datafolder.WriteFile(path, []byte(fresh+"\n"))
}

// AgentEnvFile is the file with the agents' keys, in the data folder.
const AgentEnvFile = "agent.env"
