package system

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol/datafolder"

	"github.com/oklog/ulid/v2"
)

func (s *Spawner) tokenFile(agent AgentName) string {
	return filepath.Join(s.folder, string(agent)+".token")
}

// hasToken reports whether the spawner has a token for the bus now, so that agents need one too. A
// token that cannot be read counts.
func (s *Spawner) hasToken() bool {
	token, err := s.peer.Token()
	return token != "" || err != nil
}

// ensureToken makes sure that an agent's token file holds a token that grants exactly what the
// agent needs. On a bus without credentials the file holds a random token that nobody checks.
func (k *supervisor) ensureToken(ctx context.Context, agent AgentName, path string) error {
	if err := datafolder.MkdirAll(k.folder); err != nil {
		return fmt.Errorf("creating the folder of token files: %w", err)
	}
	token, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the token of %s: %w", agent, err)
	}
	if !k.hasToken() {
		if err == nil && len(token) > 0 {
			return nil
		}
		return writeToken(path, rand.Text()+rand.Text())
	}
	if err := k.learnPeople(ctx); err != nil {
		return err
	}
	fits, want, err := k.currentFits(ctx)
	if err != nil {
		return err
	}
	if fits && len(token) > 0 {
		status, _, err := k.call(ctx, http.MethodGet, "/whoami", nil, strings.TrimSpace(string(token)))
		if err == nil && status == http.StatusOK {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return k.issue(ctx, want, path)
}

// currentFits reports whether the agent's current credential grants exactly what the agent needs.
// want is what it needs.
func (k *supervisor) currentFits(ctx context.Context) (fits bool, want grantRequest, err error) {
	people := k.people.Load()
	has, err := store.Read(ctx, k.db, func(tx *store.Tx) string {
		want = grants(k.name, topicsOf(tx, k.name), people != nil && *people)
		return store.Value[string](tx, `SELECT grants FROM credentials WHERE agent = ? AND state = 'current'`, k.name)
	})
	return has == want.text(), want, err
}

// mustRestart reports whether the agent runs with a credential that no longer grants what it
// needs.
func (k *supervisor) mustRestart(ctx context.Context) bool {
	if !k.hasToken() {
		return false
	}
	if err := k.learnPeople(ctx); err != nil {
		return false // what it needs is not known yet
	}
	fits, _, err := k.currentFits(ctx)
	return err == nil && !fits
}

// learnPeople finds out, once, whether the spawner's own credential reaches people at the command
// line. Only then can it let agents answer them.
func (s *Spawner) learnPeople(ctx context.Context) error {
	if s.people.Load() != nil {
		return nil
	}
	status, answer, err := s.call(ctx, http.MethodGet, "/whoami", nil, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the bus does not say what the spawner's own credential grants: HTTP %d", status)
	}
	var own struct{ Publish []string }
	if err := json.Unmarshal(answer, &own); err != nil {
		return fmt.Errorf("decoding the bus's answer about the spawner's own credential: %w", err)
	}
	people := slices.Contains(own.Publish, "*") || slices.Contains(own.Publish, "cli:*")
	s.people.Store(&people)
	return nil
}

func (g grantRequest) text() string {
	g.Name = ""
	b, _ := json.Marshal(g) //nolint:errcheck // strings always marshal
	return string(b)
}

// issue gets a credential from the bus. It stores the name of the credential first, so that the
// credential will be revoked even if the spawner is killed.
func (k *supervisor) issue(ctx context.Context, want grantRequest, path string) error {
	want.Name = "agent." + string(k.name) + "." + strings.ToLower(ulid.Make().String())
	err := store.InTx(ctx, k.db, func(tx *store.Tx) {
		tx.Exec(`UPDATE credentials SET state = 'old' WHERE agent = ? AND state = 'asked'`, k.name)
		tx.Exec(`INSERT INTO credentials (name, agent, grants, state) VALUES (?, ?, ?, 'asked')`, want.Name, k.name,
			want.text())
	})
	if err != nil {
		return err
	}
	k.opts.failpoint("credential named")
	token, err := k.requestToken(ctx, want)
	if err != nil {
		return err
	}
	k.opts.failpoint("credential issued")
	if err := writeToken(path, token); err != nil {
		return err
	}
	err = k.change(ctx, `UPDATE credentials SET state = CASE WHEN name = ? THEN 'current' ELSE 'old' END WHERE agent = ?`, want.Name, k.name)
	if err != nil {
		return err
	}
	k.opts.failpoint("credential stored")
	k.revocations.Notify()
	return nil
}

func (k *supervisor) requestToken(ctx context.Context, want grantRequest) (string, error) {
	body, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	status, answer, err := k.call(ctx, http.MethodPost, "/credentials", body, "")
	if err != nil {
		return "", err
	}
	var issued struct{ Token, Error string }
	if err := json.Unmarshal(answer, &issued); err != nil && status < 300 {
		return "", fmt.Errorf("decoding the bus's answer about a credential: %w", err)
	}
	switch {
	case status < 300 && issued.Token != "":
		return issued.Token, nil
	case status == http.StatusForbidden || status == http.StatusBadRequest:
		return "", fmt.Errorf("%w: the bus refuses a credential for %s: %s", ErrPermanent, k.name, issued.Error)
	}
	return "", fmt.Errorf("the bus refuses a credential for %s: HTTP %d %s", k.name, status, issued.Error)
}

// call makes an HTTP request to a bus, with the given token, or with the spawner's own if token
// is empty.
func (s *Spawner) call(ctx context.Context, method, path string, body []byte, token string) (status int, answer []byte,
	err error) {
	status, answer, err = s.peer.CallHTTP(ctx, peer.HTTPCall{
		Method: method, Path: path, Authorization: peer.Bearer(token), Body: body, Limit: 64 << 10,
	})
	if err != nil {
		return 0, nil, fmt.Errorf("asking the bus about a credential: %w", err)
	}
	return status, answer, nil
}

// retireCredentials marks an agent's credentials for revocation.
func (s *Spawner) retireCredentials(tx *store.Tx, agent AgentName) {
	tx.Exec(`UPDATE credentials SET state = 'old' WHERE agent = ?`, agent)
	tx.OnCommit(s.revocations.Notify)
}

// revokeLoop revokes credentials that agents no longer use.
func (s *Spawner) revokeLoop(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := time.Hour
		if err := s.revokeOld(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn().Err(err).Msg("old credentials not revoked; trying again")
			wait = 5 * time.Second
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.revocations.C():
		}
		timer.Stop()
	}
	return nil
}

func (s *Spawner) revokeOld(ctx context.Context) error {
	if !s.hasToken() {
		return nil
	}
	names, err := store.ReadAll(ctx, s.db,
		store.Scalar[string], `SELECT name FROM credentials WHERE state = 'old' ORDER BY name`)
	if err != nil {
		return err
	}
	for _, name := range names {
		status, answer, err := s.call(ctx, http.MethodDelete, "/credentials/"+url.PathEscape(name), nil, "")
		if err != nil {
			return err
		}
		if status >= 300 && status != http.StatusNotFound {
			return fmt.Errorf("the bus refuses to revoke %s: HTTP %d %.200s", name, status, answer)
		}
		if err := s.change(ctx, `DELETE FROM credentials WHERE name = ? AND state = 'old'`, name); err != nil {
			return err
		}
		s.opts.Log.Info().Str("credential", name).Msg("credential revoked")
	}
	return nil
}

func writeToken(path, token string) error {
	if err := datafolder.WriteFile(path, []byte(token+"\n")); err != nil {
		return fmt.Errorf("writing a token file: %w", err)
	}
	return nil
}
